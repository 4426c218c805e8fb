# SPDX-License-Identifier: MIT
"""Against other people's packages, where they are installed (pip install --no-deps detonation
decent-dp torchft-nightly; einops and loguru beside them)."""

import contextlib
import importlib.util
import os
import sys
import types

import pytest
import torch
import torch.distributed as dist
from models import flat, loss_of, net, start_gloo
from ranks import run
from test_methods import STEPS, gradients, train_diloco

import weft_sync.torch as weft


def has(*names):
    return all(importlib.util.find_spec(name) for name in names)


# --- detonation: demo of whole squares ---

SHAPES, CHUNK, TOPK, LR = [(128, 64), (64, 192)], 64, 100, 0.5


def without_timing():
    """detonation imports mltiming, and its wheel does not ask for it."""
    timing = types.ModuleType("mltiming")
    timing.timing = lambda *_a, **_k: contextlib.nullcontext()
    sys.modules.setdefault("mltiming", timing)


def demo_by_detonation(sign):
    without_timing()
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


# --- detonation: random rows ---

ROWS, SHARE = [(48, 10), (96, 6), (33,)], 1 / 4


def random_by_weft(sign):
    rank = int(os.environ["RANK"])
    params = [torch.nn.Parameter(torch.zeros(s)) for s in ROWS]
    opt = weft.Optimizer(params, torch.optim.SGD(params, lr=LR), method="random", keys={
        "replicator.compression_rate": SHARE, "replicator.compression_decay": 0.9,
        "replicator.values": "f32", "replicator.sign": sign,
        "replicator.alpha": 1, "replicator.momentum_style": "sum"})
    chosen = []
    for t in range(STEPS):
        before = [p.detach().clone() for p in params]
        for p, g in zip(params, gradients(ROWS, rank, t)):
            p.grad = g.clone()
        opt.step()
        chosen.append({p.size(0): (p.detach() != b).view(p.size(0), -1).any(1).nonzero()[:, 0]
                       for p, b in zip(params, before)})
    return [p.detach() for p in params], chosen


def random_by_detonation(sign, chosen):
    without_timing()
    from detonation import RandomReplicator
    from detonation.optim import DeToSGD
    rank = start_gloo()
    alone = [dist.new_group([r]) for r in range(dist.get_world_size())][rank]
    params = [torch.nn.Parameter(torch.zeros(s)) for s in ROWS]
    replicator = RandomReplicator(0.9, SHARE)
    opt = DeToSGD(params, lr=LR, detonation_sign=sign, sharding_parallel_group=alone,
                  replication_parallel_group=dist.group.WORLD, replicator=replicator)
    draw = replicator.pre_step
    for t in range(STEPS):
        def drawn():
            draw()
            for size, rows in chosen[t].items():
                assert len(rows) == len(replicator.permutations[size])
            replicator.permutations = chosen[t]
        replicator.pre_step = drawn
        for p, g in zip(params, gradients(ROWS, rank, t)):
            p.grad = g
        opt.step()
    return [p.detach() for p in params]


@pytest.mark.skipif(not has("detonation", "einops"), reason="detonation is not installed")
def test_random_is_detonations_with_the_same_rows():
    """The draws differ (weft's is a function of seed, step and tensor): theirs is told ours."""
    ours = run(random_by_weft, 2, False)
    theirs = run(random_by_detonation, 2, False, ours[0][1])
    for r in range(2):
        for a, b in zip(theirs[r], ours[r][0]):
            assert (a - b).abs().max() < 1e-6 * STEPS
        assert any((a != 0).any() for a in theirs[r])


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


def accum_adam(params):
    from decent_dp.optim import AccumAdamW
    return AccumAdamW([p for _, p in params], lr=2e-3, betas=(0.9, 0.999), eps=1e-8,
                      weight_decay=0.1, accum_iter=4)


def register_turns():
    """decent-dp 0.2.3 asks its topology for iterations 1, 3, 4, 5, ...: it counts one more
    between its first exchange and its second, so its ring meets the same neighbour twice at the
    beginning (and weft's does not). These are the pairs of a ring in turns, in that order."""
    from decent_dp.topo import Edge, Topology, TopologyReg
    if "turns" in TopologyReg.registry:
        return

    @TopologyReg.register("turns")
    class Turns(Topology):
        def _get_topo_edges(self):
            n = self._world_size
            pairs = [[[i, i + 1] for i in range(0, n, 2)],
                     [sorted([i, (i + 1) % n]) for i in range(1, n, 2)]]
            turns = [1, 1, 1] + [(t + 1) % 2 for t in range(3, 40)]  # 0 and 2 are not asked for
            return [[Edge(ranks=list(pair), weight=0.5) for pair in pairs[turn]]
                    for turn in turns]


def mixed_by_decent(steps, topology, accumulates=False):
    from decent_dp.ddp import DecentralizedDataParallel
    rank = start_gloo()
    register_turns()
    model = Untied()
    wrapped = DecentralizedDataParallel(model, accum_adam if accumulates else adam,
                                        topology=topology)
    for t in range(steps):
        loss_of(wrapped, rank, t).backward()
    return flat(model)


def mixed_by_weft(steps, topology, accumulates=False):
    model = Untied()
    own = {"method": "accumadam", "optimizer_accumulate": 4} if accumulates else \
        {"method": "dadam"}
    opt = weft.Optimizer(model, lr=2e-3, betas=(0.9, 0.999), weight_decay=0.1, between="ranks",
                         optimizer_eps=1e-8, optimizer_clip=0, mixer_topology=topology, **own)
    for t in range(steps):
        loss_of(model, int(os.environ["RANK"]), t).backward()
        opt.step()
    return flat(model)


needs_decent = pytest.mark.skipif(not has("decent_dp", "loguru"),
                                  reason="decent-dp is not installed")


def compare(size, theirs, ours, accumulates=False):
    for steps in (2, 3, 4, 20):  # its first update comes with the second forward
        a = run(mixed_by_decent, size, steps, theirs, accumulates)
        b = run(mixed_by_weft, size, steps, ours, accumulates)
        for x, y in zip(a, b):
            assert (x - y).abs().max() < 1e-5, steps
        assert not torch.equal(b[0], b[1])


@needs_decent
def test_dadam_is_decent_dps():
    compare(3, "complete", "complete")


@needs_decent
def test_dadam_on_a_ring_is_decent_dps():
    compare(4, "turns", "ring")


@needs_decent
def test_accumadam_is_decent_dps():
    compare(3, "complete", "complete", accumulates=True)


# --- torchft: DiLoCo ---


class Work:
    """Of an all-reduce that has ended, as torchft waits for it."""

    def __init__(self, tensor):
        self.future = torch.futures.Future()
        self.future.set_result(tensor)

    def wait(self, *_):
        return True

    def get_future(self):
        return self.future


def manager_of_all():
    """In place of torchft's manager and its lighthouse: nobody dies here, all commit."""
    from unittest.mock import MagicMock

    def mean(tensor, should_quantize=False):
        dist.all_reduce(tensor)
        tensor.div_(dist.get_world_size())
        return Work(tensor)

    manager = MagicMock()
    manager._use_async_quorum = False
    manager.allreduce.side_effect = mean
    manager.should_commit.return_value = True
    manager.current_step.return_value = 0
    return manager


def diloco_by_torchft(steps, every, lr):
    from torchft.local_sgd import DiLoCo
    rank = start_gloo()
    model = net(0)
    inner = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), eps=1e-8,
                              weight_decay=0.1)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    with DiLoCo(manager_of_all(), [model], inner, outer, sync_every=every):
        for t in range(steps):
            loss_of(model, rank, t).backward()
            inner.step()
            inner.zero_grad()
    return flat(model)


@pytest.mark.skipif(not has("torchft"), reason="torchft is not installed")
def test_diloco_is_torchfts():
    theirs = run(diloco_by_torchft, 2, 13, 4, 2e-3)
    ours = run(train_diloco, 2, 13, 4, 2e-3, "weft")
    for a, (b, _) in zip(theirs, ours):
        assert (a - b).abs().max() < 2e-5
