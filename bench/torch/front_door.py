# SPDX-License-Identifier: MIT
"""What the package costs: CPU seconds of a step of one process alone, torch's AdamW beside weft's
(method hsdp, which then exchanges nothing), in turns on the same model and rows.

    OMP_NUM_THREADS=1 python bench/torch/front_door.py [rounds]
"""

import statistics
import sys
import time

import torch
from torch import nn

import weft_sync.torch as weft

STEPS, rounds = 5, int(sys.argv[1]) if len(sys.argv) > 1 else 5


def make(use_weft):
    torch.manual_seed(0)
    layers = [nn.Embedding(256, 384)]
    for _ in range(6):
        layers += [nn.Linear(384, 1536), nn.GELU(), nn.Linear(1536, 384), nn.LayerNorm(384)]
    model = nn.Sequential(*layers, nn.Linear(384, 256))
    keys = dict(lr=1e-3, betas=(0.9, 0.999), weight_decay=0.1)
    if use_weft:
        return model, weft.Optimizer(model, method="hsdp", optimizer_clip=0, **keys)
    return model, torch.optim.AdamW(model.parameters(), **keys)


def run(model, opt):
    """CPU and wall milliseconds of a step."""
    x = torch.randint(256, (4, 128))
    cpu, wall = time.process_time(), time.monotonic()
    for _ in range(STEPS):
        nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
        opt.step()
        opt.zero_grad()
    return 1e3 * (time.process_time() - cpu) / STEPS, 1e3 * (time.monotonic() - wall) / STEPS


pairs = [make(False), make(True)]
for pair in pairs:
    run(*pair)
taken = [[], []]
for _ in range(rounds):
    for i, pair in enumerate(pairs):
        taken[i].append(run(*pair))
for name, t in zip(("torch's AdamW", "weft's"), taken):
    for what, values in zip(("CPU", "wall"), zip(*t)):
        print(f"{name:14} {what:5} ms a step: median {statistics.median(values):.1f}, "
              f"{min(values):.1f} to {max(values):.1f}")
