# SPDX-License-Identifier: MIT
"""Machines of different speed: each takes rows by what it can do, and each row is taken once.

    torchrun --nproc-per-node 2 examples/torch/unequal.py

Process 1 is three times as slow as process 0 here."""

import time

import torch

import weft_sync.torch as weft

torch.manual_seed(0)
inputs = torch.randn(4000, 32)
data = torch.utils.data.TensorDataset(inputs, (inputs.sum(1) > 0).long())
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))

optimizer = weft.Optimizer(model, method="flexdemo", between="ranks", uneven=True)
sampler = weft.Sampler(optimizer, data, rows=80)
optimizer.carry(sampler)  # for a process that comes into the run
for x, y in torch.utils.data.DataLoader(data, batch_sampler=sampler):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    time.sleep(len(x) * (0.001 + 0.002 * (weft.mesh().rank == 1)))  # a slower machine
    report = optimizer.step(loss, rows=len(x))
    optimizer.zero_grad()
print(f"rank {weft.mesh().rank}: {optimizer.share(80)} of 80 rows, loss {report.loss:.3f}", flush=True)
