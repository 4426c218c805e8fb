# SPDX-License-Identifier: MIT
"""Against other people's packages, where they are installed (pip install --no-deps detonation
decent-dp; einops and loguru beside them)."""

import contextlib
import importlib.util
import os
import sys
import types

import pytest
import torch
import torch.distributed as dist
from models import flat, loss_of, start_gloo
from ranks import run
from test_methods import STEPS, gradients

import weft_sync.torch as weft


def has(*names):
    return all(importlib.util.find_spec(name) for name in names)


# --- detonation: demo of whole squares ---

SHAPES, CHUNK, TOPK, LR = [(128, 64), (64, 192)], 64, 100, 0.5


def demo_by_detonation(sign):
    timing = types.ModuleType("mltiming")  # it imports this, and its wheel does not ask for it
    timing.timing = lambda *_a, **_k: contextlib.nullcontext()
    sys.modules.setdefault("mltiming", timing)
    from detonation import DeMoReplicator
    from detonation.optim import DeToSGD
    rank = start_gloo()
    alone = [dist.new_group([r]) for r in range(dist.get_world_size())][rank]
    params = [torch.nn.Parameter(torch.zeros(s)) for s in SHAPES]
    opt = DeToSGD(params, lr=LR, detonation_sign=sign, sharding_parallel_group=alone,
                  replication_parallel_group=dist.group.WORLD,
                  replicator=DeMoReplicator(0.9, TOPK, CHUNK))
    for t in range(STEPS):
        for p, g in zip(params, gradients(SHAPES, rank, t)):
            p.grad = g
        opt.step()
    return [p.detach() for p in params]


def demo_by_weft(sign):
    rank = int(os.environ["RANK"])
    params = [torch.nn.Parameter(torch.zeros(s)) for s in SHAPES]
    opt = weft.Optimizer(params, method="flexdemo", lr=LR, keys={
        "replicator.compression_chunk": CHUNK, "replicator.compression_topk": TOPK,
        "replicator.compression_dims": 2, "replicator.compression_decay": 0.9,
        "replicator.values": "f32", "replicator.dense_below": 0, "replicator.sign": sign})
    for t in range(STEPS):
        for p, g in zip(params, gradients(SHAPES, rank, t)):
            p.grad = g.clone()
        opt.step()
    return [p.detach() for p in params]


@pytest.mark.skipif(not has("detonation", "einops"), reason="detonation is not installed")
def test_demo_is_detonations():
    theirs, ours = run(demo_by_detonation, 2, False), run(demo_by_weft, 2, False)
    for r in range(2):
        for a, b in zip(theirs[r], ours[r]):
            assert (a - b).abs().max() < 1e-6 * STEPS
    theirs, ours = run(demo_by_detonation, 2, True), run(demo_by_weft, 2, True)
    for a, b in zip(theirs[0], ours[0]):  # signs differ only where the direction is near 0
        assert (a != b).float().mean() < 1e-4


# --- decent-dp: mixing behind a step ---


def adam(params):
    return torch.optim.AdamW([p for _, p in params], lr=2e-3, betas=(0.9, 0.999), eps=1e-8,
                             weight_decay=0.1)


class Untied(torch.nn.Module):
    """decent-dp wants each parameter used once."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Embedding(32, 24), torch.nn.Linear(24, 32)

    def forward(self, tokens):
        return self.b(torch.tanh(self.a(tokens)))


def mixed_by_decent(steps, topology):
    from decent_dp.ddp import DecentralizedDataParallel
    rank = start_gloo()
    model = Untied()
    wrapped = DecentralizedDataParallel(model, adam, topology=topology)
    for t in range(steps):
        loss_of(wrapped, rank, t).backward()
    return flat(model)


def mixed_by_weft(steps, topology):
    model = Untied()
    opt = weft.Optimizer(model, method="dadam", lr=2e-3, betas=(0.9, 0.999), weight_decay=0.1,
                         between="ranks", optimizer_eps=1e-8, optimizer_clip=0,
                         mixer_topology=topology)
    for t in range(steps):
        loss_of(model, int(os.environ["RANK"]), t).backward()
        opt.step()
    return flat(model)


@pytest.mark.skipif(not has("decent_dp", "loguru"), reason="decent-dp is not installed")
def test_dadam_is_decent_dps():
    for steps in (2, 3, 20):  # its first update comes with the second forward
        theirs, ours = run(mixed_by_decent, 3, steps, "complete"), \
            run(mixed_by_weft, 3, steps, "complete")
        for a, b in zip(theirs, ours):
            assert (a - b).abs().max() < 1e-5
        assert not torch.equal(ours[0], ours[1])


