# SPDX-License-Identifier: MIT
"""A causal language model of Hugging Face transformers in a loop of Accelerate, with weft
between the processes:

    pip install transformers accelerate
    torchrun --nproc-per-node 2 accelerate_gpt2.py --method flexdemo

Each process has an Accelerator of its own that knows nothing of the others; weft joins them.
The model is a small GPT-2 of random weights, the text made here.
"""

import argparse
import os
import time

import torch

import weft_sync.torch as weft

parser = argparse.ArgumentParser()
parser.add_argument("--method", default="flexdemo")
parser.add_argument("--key", action="append", default=[], help="section.key=value of weft")
parser.add_argument("--steps", type=int, default=60)
args = parser.parse_args()

mesh = weft.mesh()  # joins by torchrun's variables, ...
for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
    os.environ.pop(name, None)  # ... which would make Accelerate wrap the model in DDP as well

from accelerate import Accelerator  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

LENGTH, VOCAB = 64, 64


def row(i: int) -> torch.Tensor:
    """Each token follows from the one before; other rows in each process."""
    draw = torch.Generator().manual_seed(100_000 * mesh.rank + i)
    first, stride = torch.randint(VOCAB, (2,), generator=draw).tolist()
    return (first + (1 + stride % 4) * torch.arange(LENGTH)) % VOCAB


torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=LENGTH, n_embd=64, n_layer=2,
                                   n_head=4, bos_token_id=0, eos_token_id=0,
                                   loss_type="ForCausalLMLoss"))
loader = torch.utils.data.DataLoader([row(i) for i in range(8 * args.steps)], batch_size=8)
accelerator = Accelerator(cpu=True)
model, loader = accelerator.prepare(model, loader)
# not prepared: it is weft's, and its step returns a report
optimizer = weft.Optimizer(model, method=args.method, lr=2e-3,
                           keys=dict(k.split("=", 1) for k in args.key))

sent, waited, exchanged, begun = 0, 0.0, 0.0, time.monotonic()
for step, rows in enumerate(loader, 1):
    loss = model(input_ids=rows, labels=rows).loss
    accelerator.backward(loss)
    report = optimizer.step(loss)
    optimizer.zero_grad()
    sent += report.wire_bytes + report.local_bytes
    waited, exchanged = waited + report.wait_s, exchanged + report.exchange_s
    if mesh.rank == 0 and step % 20 == 0 and report.loss is not None:
        print(f"step {step}: loss {report.loss:.3f}, "
              f"{1e3 * (time.monotonic() - begun) / step:.0f} ms a step", flush=True)
if mesh.rank == 0:
    hidden = 1 - waited / exchanged if exchanged > 0 else 1.0
    print(f"{mesh.size} processes, {args.method}: {sent / args.steps / 1e3:.1f} kB a step sent by "
          f"each, {100 * max(hidden, 0):.0f} % of the exchange hidden, last loss "
          f"{float(loss.detach()):.3f}")
