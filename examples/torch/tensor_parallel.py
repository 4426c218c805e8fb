# SPDX-License-Identifier: MIT
"""Pieces of a model on the devices of a machine, a copy on each machine: weft exchanges among those who hold the same
piece.

    torchrun --nproc-per-node 4 examples/torch/tensor_parallel.py          two copies of two pieces"""

import argparse

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import weft_sync.torch as weft

parser = argparse.ArgumentParser()
parser.add_argument("--pieces", type=int, default=2)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--method", default="flexdemo")
a = parser.parse_args()

torch.distributed.init_process_group("gloo")
n = torch.distributed.get_world_size()
mesh = init_device_mesh("cpu", (n // a.pieces, a.pieces), mesh_dim_names=("dp", "tp"))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2))
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})

optimizer = weft.Optimizer(model, method=a.method, mesh=mesh["dp"], between="ranks")
rows = torch.Generator().manual_seed(mesh["dp"].get_local_rank())  # the pieces of a copy have the same rows
for _ in range(a.steps):
    x = torch.randn(64, 32, generator=rows)
    loss = torch.nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
    loss.backward()
    report = optimizer.step(loss)
    optimizer.zero_grad()
print(f"rank {torch.distributed.get_rank()}: one of {report.processes} with its piece, loss {report.loss:.3f}, "
      f"{report.local_bytes + report.wire_bytes} bytes a step", flush=True)
optimizer.close()
torch.distributed.destroy_process_group()
