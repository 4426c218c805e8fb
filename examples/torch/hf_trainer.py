# SPDX-License-Identifier: MIT
"""A causal language model of Hugging Face transformers, trained by its Trainer, with weft
between the processes:

    pip install transformers accelerate
    torchrun --nproc-per-node 2 hf_trainer.py --method flexdemo

Each process runs a Trainer of its own that knows nothing of the others; weft joins them. The
model is a small GPT-2 of random weights, the text made here.
"""

import argparse
import os
import tempfile

import torch

import weft_sync.torch as weft

parser = argparse.ArgumentParser()
parser.add_argument("--method", default="flexdemo")
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()

mesh = weft.mesh()  # joins by torchrun's variables, ...
for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
    os.environ.pop(name, None)  # ... which would make Trainer wrap the model in DDP as well

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments  # noqa: E402

LENGTH, VOCAB = 64, 64


class Sums(torch.utils.data.Dataset):
    """Rows in which each token follows from the one before; other ones in each process."""

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        draw = torch.Generator().manual_seed(100_000 * mesh.rank + i)
        first, stride = torch.randint(VOCAB, (2,), generator=draw).tolist()
        row = (first + (1 + stride % 4) * torch.arange(LENGTH)) % VOCAB
        return {"input_ids": row, "labels": row}


torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=LENGTH, n_embd=64, n_layer=2,
                                   n_head=4, bos_token_id=0, eos_token_id=0,
                                   loss_type="ForCausalLMLoss"))
# Trainer looks at the gradients, and may clip them, between backward and step: no overlap.
optimizer = weft.Optimizer(model, method=args.method, lr=2e-3, accumulate=2, overlap=False)


reports: list[weft.Report | None] = []
optimizer.register_step_post_hook(lambda *_: reports.append(optimizer.report))
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=args.steps)
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=model, train_dataset=Sums(), optimizers=(optimizer, schedule),
        args=TrainingArguments(
            output_dir=folder, max_steps=args.steps, per_device_train_batch_size=4,
            gradient_accumulation_steps=2,  # said to weft as accumulate=2
            use_cpu=True, report_to=[], save_strategy="no", logging_steps=10,
            disable_tqdm=mesh.rank > 0, log_level="error"))
    result = trainer.train()
if mesh.rank == 0:
    done = [report for report in reports if report is not None]
    sent = sum(report.wire_bytes + report.local_bytes for report in done)
    waited, exchanged = sum(r.wait_s for r in done), sum(r.exchange_s for r in done)
    hidden = 1 - waited / exchanged if exchanged > 0 else 1.0
    print(f"{mesh.size} processes, {args.method}: {sent / args.steps / 1e3:.1f} kB a step "
          f"sent by each, {100 * max(hidden, 0):.0f} % of the exchange hidden, mean loss of the run {result.training_loss:.3f}")
