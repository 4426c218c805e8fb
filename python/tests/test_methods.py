# SPDX-License-Identifier: MIT
"""Methods against their published rules, written down here in a few lines of torch."""

import ctypes
import math
import os
import re

import pytest
import torch
from models import DEVICE, flat, loss_of, net
from ranks import run

import weft_sync.torch as weft
from weft_sync._held import KINDS
from weft_sync._abi import DIRECTS, HOLDS, MEETS, OFFERS, SIGNS, TRANSFORMS
from weft_sync._library import Config, Context, config_keys, library

STEPS = 6


class Recorder(torch.optim.Optimizer):
    """Steps nowhere, and keeps the directions that it was given."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.5})
        self.seen = []

    @torch.no_grad()
    def step(self, closure=None):
        self.seen.append([p.grad.clone().cpu() for g in self.param_groups for p in g["params"]])


#: what the tables of libweft's kinds declare of those that this package has a device form of
TRAITS = {("replicator", "demo"): {SIGNS, OFFERS, TRANSFORMS}, ("replicator", "topk"): {SIGNS, OFFERS},
          ("replicator", "random"): {SIGNS}, ("replicator", "striding"): {SIGNS},
          ("replicator", "slicing"): {SIGNS}, ("replicator", "signsgd"): {SIGNS},
          ("mixer", "gossip"): {MEETS}, ("mixer", "tracking"): {MEETS, DIRECTS}, ("mixer", "choco"): {MEETS, HOLDS},
          ("mixer", "outer"): {HOLDS}, ("mixer", "gossip_outer"): {MEETS}, ("mixer", "sparse_outer"): {HOLDS}}


def traits(**keys):
    config = Config(Context())
    for key, value in keys.items():
        config.set(key.replace("__", "."), value)
    config.finish()
    found = {trait for trait in (SIGNS, OFFERS, TRANSFORMS, HOLDS, MEETS, DIRECTS) if config.has(trait)}
    config.destroy()
    return found


def kinds_of(section):
    room = ctypes.create_string_buffer(600)
    key = config_keys()[f"{section}.kind"]
    return re.split(", | or ", library().weft_config_key_values(ctypes.byref(key), room, len(room)).decode())


@pytest.mark.parametrize("section", ["replicator", "mixer"])
def test_each_kind_declares_what_can_be_computed_here(section):
    for kind in kinds_of(section):
        found = traits(**{"replicator__kind": "none", f"{section}__kind": kind})
        assert found == TRAITS.get((section, kind), set()), kind
        assert (HOLDS in found) == (kind in KINDS), kind


def test_traits_follow_the_keys():
    assert traits(method="deto-adamw") == {OFFERS, TRANSFORMS}
    assert traits(method="flexdemo", replicator__every=2) == {SIGNS, TRANSFORMS}
    assert traits(method="topk", mesh__nodes=2, mesh__sites=2, site_replicator__kind="full") == {SIGNS}

def gradients(shapes, rank, step):
    g = torch.Generator().manual_seed(100 * step + rank)
    return [torch.randn(shape, generator=g) for shape in shapes]


def directions(shapes, keys):
    """What the method makes of given gradients, step by step."""
    rank = int(os.environ["RANK"])
    params = [torch.nn.Parameter(torch.zeros(shape, device=DEVICE)) for shape in shapes]
    recorder = Recorder(params)
    opt = weft.Optimizer(params, recorder, method="flexdemo", keys=keys)
    for t in range(STEPS):
        for p, g in zip(params, gradients(shapes, rank, t)):
            p.grad = g.clone().to(DEVICE)
        opt.step()
    return recorder.seen


# --- demo: the momentum's largest DCT coefficients, chunk by chunk ---


def dct(n):
    i = torch.arange(n, dtype=torch.float64)
    matrix = torch.cos(math.pi * (2 * i[None] + 1) * i[:, None] / (2 * n)) * math.sqrt(2 / n)
    matrix[0] /= math.sqrt(2)
    return matrix


def chunks(x, c, dims):
    if dims == 1 or x.dim() == 1:
        return x.reshape(-1, c)
    a, b = x.shape
    return x.reshape(a // c, c, b // c, c).transpose(1, 2).reshape(-1, c, c)


def whole(x, shape, c):
    if x.dim() == 2:
        return x.reshape(shape)
    a, b = shape
    return x.reshape(a // c, b // c, c, c).transpose(1, 2).reshape(shape)


def transform(x, back=False):
    d = dct(x.shape[-1]).t() if back else dct(x.shape[-1])
    return x @ d.t() if x.dim() == 2 else d @ x @ d.t()


def demo_reference(shapes, ranks, c, k, beta, lr, dims):
    momenta = [[torch.zeros(s, dtype=torch.float64) for s in shapes] for _ in range(ranks)]
    for t in range(STEPS):
        found = []
        grads = [gradients(shapes, r, t) for r in range(ranks)]
        for i, shape in enumerate(shapes):
            total = count = 0
            for r in range(ranks):
                m = momenta[r][i].mul_(beta).add_(grads[r][i].double(), alpha=lr)
                x = transform(chunks(m, c, dims)).flatten(1)
                keep = k if dims == 1 or len(shape) == 2 else max(1, k // c)
                sent = torch.zeros_like(x)
                at = x.abs().topk(keep).indices
                sent.scatter_(1, at, x.gather(1, at))
                square = chunks(m, c, dims).shape
                m.sub_(whole(transform(sent.reshape(square), True), shape, c))
                total = total + sent
                count = count + (sent != 0)
            mean = (total / count.clamp(min=1)).reshape(square)
            found.append(whole(transform(mean, True), shape, c))
        yield found


@pytest.mark.parametrize("dims,topk", [(1, 3), (2, 11)])
def test_demo_is_the_published_rule(dims, topk):
    shapes, c = [(16, 24), (32,), (8, 8)], 8
    keys = {"replicator.compression_chunk": c, "replicator.compression_topk": topk,
            "replicator.compression_dims": dims, "replicator.compression_decay": 0.9,
            "replicator.values": "f32", "replicator.dense_below": 0}
    plain = run(directions, 3, shapes, {**keys, "replicator.sign": False})
    signs = run(directions, 3, shapes, keys)
    wanted = list(demo_reference(shapes, 3, c, topk, 0.9, 0.5, dims))
    for t in range(STEPS):
        for i in range(len(shapes)):
            for r in range(3):
                assert torch.equal(plain[r][t][i], plain[0][t][i])
                assert (plain[r][t][i] - wanted[t][i]).abs().max() < 1e-6
                sure = wanted[t][i].abs() > 1e-6
                assert torch.equal(signs[r][t][i][sure], wanted[t][i].sign().float()[sure])


@pytest.mark.parametrize("kind", ["random", "striding", "slicing"])
def test_agreed_rows(kind):
    """Rows are the same on all ranks, as many as the rate says; of these the direction is the
    mean of the momenta, which then forget it."""
    shapes, beta, lr, ranks = [(24, 5), (48,)], 0.9, 0.5, 2
    keys = {"replicator.kind": kind, "replicator.compression_rate": 0.25,
            "replicator.sign": False, "replicator.compression_decay": beta}
    seen = run(directions, ranks, shapes, keys)
    momenta = [[torch.zeros(s) for s in shapes] for _ in range(ranks)]
    for t in range(STEPS):
        for i, shape in enumerate(shapes):
            for r in range(ranks):
                momenta[r][i].mul_(beta).add_(gradients(shapes, r, t)[i], alpha=lr)
            found = seen[0][t][i]
            rows = found.reshape(shape[0], -1).abs().sum(1) > 0
            assert int(rows.sum()) == shape[0] // 4
            mean = sum(m[i] for m in momenta) / ranks
            assert torch.equal(found, seen[1][t][i])
            assert (found[rows] - mean[rows]).abs().max() < 1e-6
            for r in range(ranks):
                momenta[r][i][rows] = 0


# --- DiLoCo ---


def diloco_reference(ranks, steps, every, lr):
    models = [net() for _ in range(ranks)]
    inner = [torch.optim.AdamW(m.parameters(), lr=lr, betas=(0.9, 0.95), eps=1e-8,
                               weight_decay=0.1) for m in models]
    start = [p.detach().clone() for p in models[0].parameters()]
    outer = torch.optim.SGD(start, lr=0.7, momentum=0.9, nesterov=True)
    for t in range(steps):
        for r in range(ranks):
            loss_of(models[r], r, t).backward()
            inner[r].step()
            inner[r].zero_grad()
        if (t + 1) % every == 0:
            with torch.no_grad():
                for k, s in enumerate(start):
                    s.grad = s - sum(list(m.parameters())[k] for m in models) / ranks
                outer.step()
                for m in models:
                    for p, s in zip(m.parameters(), start):
                        p.copy_(s)
    return [flat(m) for m in models]


def train_diloco(steps, every, lr, how, more):
    rank, model = int(os.environ["RANK"]), net(int(os.environ["RANK"]))
    betas, keys = (0.9, 0.95), {"mixer_outer_every": every, "mixer_outer_lr": 0.7,
                               "mixer_outer_momentum": 0.9, **more}
    torch_one = torch.optim.AdamW(model.parameters(), lr=lr, betas=betas, eps=1e-8,
                                  weight_decay=0.1)
    if how == "weft":
        opt = step = weft.Optimizer(model, method="diloco", lr=lr, betas=betas,
                                    weight_decay=0.1, optimizer_eps=1e-8, optimizer_clip=0,
                                    **keys)
    elif how == "torch":
        opt = step = weft.Optimizer(model, torch_one, method="diloco", **keys)
    else:
        opt, step = weft.Mix(model, torch_one, method="diloco", **keys), torch_one
    for t in range(steps):
        loss_of(model, rank, t).backward()
        step.step()
        step.zero_grad()
    own = flat(model)
    with opt.averaged():
        mean = flat(model)
    assert torch.equal(own, flat(model))
    return own, mean


@pytest.mark.parametrize("how", ["weft", "torch", "mix"])
@pytest.mark.parametrize("more", [{}, {"mixer_kind": "gossip_outer", "mixer_topology": "complete", "mixer_order": "atc"}])
def test_diloco_is_its_rule(how, more):
    """That of gossip_outer, too, where each node meets all others."""
    wanted = diloco_reference(2, 13, 4, 2e-3)
    found = run(train_diloco, 2, 13, 4, 2e-3, how, more)
    for r in range(2):
        assert (found[r][0] - wanted[r]).abs().max() < 2e-5
        assert (found[r][1] - (wanted[0] + wanted[1]) / 2).abs().max() < 2e-5
    assert torch.equal(found[0][1], found[1][1])


def mix_that_exchanges():
    model = net()
    with pytest.raises(weft.Error, match="exchanges gradients in each step"):
        weft.Mix(model, torch.optim.SGD(model.parameters(), lr=1.0), method="flexdemo")


def test_mix_is_for_mixers():
    run(mix_that_exchanges, 1)


def interval(keys):
    opt = weft.Optimizer([torch.nn.Parameter(torch.zeros(4))], method="diloco", **keys)
    return opt._config.number("mixer.outer_every")


def test_diloco_exchanges_in_short_runs():
    assert run(interval, 1, {"run_steps": 200}) == [30]
    assert run(interval, 1, {}) == [31]
    assert run(interval, 1, {"run_steps": 200, "mixer_outer_every": 70}) == [70]
