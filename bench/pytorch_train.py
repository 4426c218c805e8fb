#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training speed of the same GPT-2 in PyTorch on the CPU, as a user would write it first.

Debian: apt-get install python3-torch; run with /usr/bin/python3. Prints one JSON object:
median, least and most tokens per second over the counted steps, and the peak memory.
"""
import argparse
import json
import math
import resource
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).bool())

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~self.mask[:length, :length], float("-inf"))
        mixed = F.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        hidden = self.up(self.ln_2(x))
        hidden = 0.5 * hidden * (1 + torch.tanh(0.7978845608 * (hidden + 0.044715 * hidden**3)))
        return x + self.down(hidden)


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(a.vocab, a.width), nn.Embedding(a.length, a.width)
        self.blocks = nn.ModuleList(Block(a.width, a.heads, a.length) for _ in range(a.layers))
        self.ln_f = nn.LayerNorm(a.width)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.T
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def main():
    p = argparse.ArgumentParser()
    for name, value in dict(layers=6, width=384, heads=6, length=256, vocab=256, batch=16,
                            steps=8, warmup=2, threads=2).items():
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = GPT(a)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95),
                                  weight_decay=0.1)
    speeds = []
    for step in range(a.warmup + a.steps):
        tokens = torch.randint(a.vocab, (a.batch, a.length))
        targets = torch.randint(a.vocab, (a.batch, a.length))
        start = time.perf_counter()
        loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        if step >= a.warmup:
            speeds.append(a.batch * a.length / (time.perf_counter() - start))
    speeds.sort()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(dict(tokens_per_s=speeds[len(speeds) // 2], tokens_per_s_min=speeds[0],
                          tokens_per_s_max=speeds[-1], memory_bytes=peak,
                          torch=torch.__version__)))


if __name__ == "__main__":
    main()
