#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training speed of the same GPT-2 in PyTorch on the CPU, with what PyTorch has for speed.

Forward, backward, clipping and AdamW of random tokens. Attention is the library's fused
one, GELU and AdamW too where this version of PyTorch has them; --precision bf16 is
torch.autocast, which keeps the parameters and moments in f32 as weft does; --compile goes
through torch.compile. Prints one JSON object: median, least and most tokens per second
over the counted steps, and the peak memory.
"""
import argparse
import contextlib
import json
import math
import resource
import time

import torch
from torch import nn
from torch.nn import functional as F

SIZES = dict(layers=6, width=384, heads=6, length=256, vocab=256, batch=16, steps=8, warmup=2,
             threads=2)


def attend(q, k, v):
    """Causal attention; before PyTorch 2.0 by its parts."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    later = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(later, -math.inf)
    return F.softmax(scores, dim=-1) @ v


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.out(attend(q, k, v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(a.vocab, a.width), nn.Embedding(a.length, a.width)
        self.blocks = nn.ModuleList(Block(a.width, a.heads) for _ in range(a.layers))
        self.ln_f = nn.LayerNorm(a.width)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def adamw(parameters):
    """The fused one of PyTorch 2.4 and later, else the plain one."""
    knobs = dict(lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    try:
        return torch.optim.AdamW(parameters, fused=True, **knobs)
    except (TypeError, RuntimeError):
        return torch.optim.AdamW(parameters, **knobs)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in SIZES.items():
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    p.add_argument("--compile", action="store_true")
    return p.parse_args()


def step(model, optimizer, a):
    tokens = torch.randint(a.vocab, (a.batch, a.length))
    targets = torch.randint(a.vocab, (a.batch, a.length))
    rounded = torch.autocast("cpu", torch.bfloat16) if a.precision == "bf16" else None
    start = time.perf_counter()
    with rounded or contextlib.nullcontext():
        loss = model(tokens, targets)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()
    return a.batch * a.length / (time.perf_counter() - start)


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = GPT(a)
    optimizer = adamw(model.parameters())
    run = torch.compile(model) if a.compile else model
    speeds = sorted([step(run, optimizer, a) for _ in range(a.warmup + a.steps)][a.warmup:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(dict(tokens_per_s=speeds[len(speeds) // 2], tokens_per_s_min=speeds[0],
                          tokens_per_s_max=speeds[-1], memory_bytes=peak,
                          torch=torch.__version__)))


if __name__ == "__main__":
    main()
