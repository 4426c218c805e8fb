# SPDX-License-Identifier: MIT
"""weft between the workers of Ray Train (pip install "ray[train]" weft-sync torch); on one machine to try it:

    WEFT_ENCRYPT=off python examples/launch/ray_train.py --workers 2

Ray places and restarts the workers and tells them of each other; the loop is that of any other weft script. Between
machines each needs the same key: WEFT_KEY_FILE=run.key in the environment of all nodes."""

import argparse

import ray
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer


def train(config):
    import torch

    import weft_sync.torch as weft
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = weft.Optimizer(model, method="flexdemo", between="ranks")
    rank = ray.train.get_context().get_world_rank()
    rows = torch.Generator().manual_seed(rank)
    for step in range(config["steps"]):
        x = torch.randn(32, 8, generator=rows)
        loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        report = optimizer.step(loss)
        optimizer.zero_grad()
        if rank == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {report.loss:.4f} of {report.processes} workers", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    TorchTrainer(train, train_loop_config={"steps": args.steps}, scaling_config=ScalingConfig(num_workers=args.workers)).fit()
