# SPDX-License-Identifier: MIT
"""How long the first steps of method="auto" take: seconds since the program began, and what crossed the wire from which step on.

    bench/netlab/netlab up 2 --rate 10mbit
    for r in 0 1; do bench/netlab/netlab on node$r env RANK=$r WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 \\
        WEFT_ENCRYPT=off PYTHONPATH=python WEFT_LIBRARY=build/release/libweft.so OMP_NUM_THREADS=1 \\
        python3 bench/torch/start.py 5 10 & done; wait

Millions of parameters (5), steps (10), seconds more that the first step computes, as if it compiled (0)."""

import sys
import time

import torch

import weft_sync.torch as weft

MILLIONS, STEPS, COMPILES_S = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
WIDTH = round((MILLIONS * 1e6 / 4) ** 0.5)

begun = time.monotonic()
torch.manual_seed(1)
model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)))
optimizer = weft.Optimizer(model, torch.optim.AdamW(model.parameters(), lr=1e-3), run_steps=2000)
rank, sent = optimizer.place()[0], 0
torch.manual_seed(2 + rank)
for step in range(STEPS):
    if step == 0:
        time.sleep(COMPILES_S)
    model(torch.randn(8, WIDTH)).square().mean().backward()
    sent += optimizer.step().wire_bytes
    optimizer.zero_grad()
    if rank == 0:
        print(f"step {step + 1}: {time.monotonic() - begun:.1f} s, {sent / 1e6:.1f} MB sent", flush=True)
if rank == 0:
    print(*(f"from step {form.step} on {form.method}" for form in optimizer.forms), sep="\n", flush=True)
optimizer.close()
