# SPDX-License-Identifier: MIT
"""A small GPT that learns the letters of a text, in a loop of plain PyTorch with weft under it.

    torchrun --nproc-per-node 2 gpt.py                        two processes, FlexDeMo
    torchrun --nproc-per-node 2 gpt.py --method diloco --key mixer.outer_every=20
    torchrun --nproc-per-node 2 gpt.py --method ddp --text my.txt --steps 500

On several machines: torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint HOST:29400 ...
Without torchrun it is one process alone. At the end rank 0 says what crossed the wire, how
much of the exchange was hidden, and the loss on text that was held out.
"""

import argparse
import os
import pathlib
import time

import torch
from torch import nn
from torch.nn import functional as F

import weft_sync.torch as weft

parser = argparse.ArgumentParser()
parser.add_argument("--text", default="", help="a text file (default: the licences of Debian)")
parser.add_argument("--method", default="flexdemo")
parser.add_argument("--key", action="append", default=[], help="section.key=value of weft")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--lr", type=float, default=None, help="default: the method's own")
parser.add_argument("--batch", type=int, default=8, help="rows of each process")
args = parser.parse_args()

LENGTH, WIDTH, LAYERS, HEADS = 64, 96, 3, 4
rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q, k, v = (t.view(B, T, HEADS, C // HEADS).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocab, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocab, bias=False)
        self.head.weight = self.token.weight
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def read_text() -> bytes:
    if args.text:
        return pathlib.Path(args.text).read_bytes()
    found = sorted(pathlib.Path("/usr/share/common-licenses").glob("*"))
    return b"".join(p.read_bytes() for p in found if p.is_file() and not p.is_symlink())


data = torch.frombuffer(bytearray(read_text()), dtype=torch.uint8).long()
held_out = data[-len(data) // 10:]
data = data[:-len(data) // 10]
draw = torch.Generator().manual_seed(100 + rank)  # every process has rows of its own


def rows(text: torch.Tensor, n: int,
         generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    at = torch.randint(len(text) - LENGTH - 1, (n,), generator=generator)
    windows = torch.stack([text[i:i + LENGTH + 1] for i in at])
    return windows[:, :-1], windows[:, 1:]


torch.manual_seed(1)
model = GPT(256)
# --- the lines that are weft's ---
optimizer = weft.Optimizer(model, method=args.method, lr=args.lr, returns=10,
                           keys={"run.steps": args.steps,  # DiLoCo's interval follows it
                                 **dict(k.split("=", 1) for k in args.key)})
warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
optimizer.carry(warm_up)  # who comes later, or again, has the others' rate
# ---

sent, waited, exchanged, begun, first = 0, 0.0, 0.0, time.monotonic(), optimizer.steps
while optimizer.steps < args.steps:
    loss = model(*rows(data, args.batch, draw))
    loss.backward()
    report = optimizer.step(loss)
    optimizer.zero_grad()
    warm_up.step()
    sent += report.wire_bytes + report.local_bytes
    waited, exchanged = waited + report.wait_s, exchanged + report.exchange_s
    if rank == 0 and report.step % 50 == 0:
        mean = "" if report.loss is None else f"loss {report.loss:.3f}, "
        milliseconds = 1e3 * (time.monotonic() - begun) / max(report.step - first, 1)
        print(f"step {report.step}: {mean}{milliseconds:.0f} ms a step", flush=True)

with optimizer.averaged(), torch.no_grad():  # one model out of all, where they differ
    model.eval()
    draw.manual_seed(0)
    loss = sum(model(*rows(held_out, 64, draw)) for _ in range(4)) / 4
if rank == 0:
    n = sum(p.numel() for p in model.parameters())
    hidden = 1 - waited / exchanged if exchanged > 0 else 1.0
    print(f"{n:,} parameters, {size} processes, {args.method}: {sent / args.steps / 1e3:.1f} kB "
          f"a step sent by each, {100 * max(hidden, 0):.0f} % of the exchange hidden, loss on "
          f"held-out text {loss:.3f}")
