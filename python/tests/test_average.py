# SPDX-License-Identifier: MIT
"""Who makes an average alone is told so, and hears Ctrl-C. Statistics in buffers are averaged with parameters."""

import logging
import os
import signal
import time

import pytest
import torch
from models import DEVICE, flat, net
from ranks import fork, run

import weft_sync.torch as weft
from weft_sync import _sync


def alone(told):
    _sync.SAY_AFTER_S = 0.5
    optimizer = weft.Optimizer(net(), method="diloco")
    if os.environ["RANK"] == "1":
        return told.wait(60)

    def hear(record):
        said.append(record.getMessage())
        told.set()
        os.kill(os.getpid(), signal.SIGINT)
        return True

    said = []
    logging.getLogger("weft_sync").addFilter(hear)
    with pytest.raises(KeyboardInterrupt):
        with optimizer.averaged():
            pass
    return said[0]


def test_who_averages_alone_is_told():
    first, second = run(alone, 2, fork.Event())
    assert "call it on all ranks, at the same step" in first and second


def together():
    _sync.SAY_AFTER_S = 0.1
    optimizer, said = weft.Optimizer(net(), method="diloco"), []
    logging.getLogger("weft_sync").addFilter(lambda r: said.append(r.getMessage()) or True)
    optimizer._sync._wait = lambda name: None
    optimizer.average()
    time.sleep(0.5)
    return said


def test_an_average_that_ends_says_nothing():
    assert run(together, 1) == [[]]


def trained(method, buffers, around, dtype, **keys):
    """A net with statistics after four steps: its own buffers, those of the mean, and its own again; each with what a step
    goes on from."""
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2)).to(DEVICE, dtype)
    model[2].register_buffer("seen", torch.full((40,), float(rank), device=DEVICE))  # of the program's own
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    opt = weft.Mix(model, inner, method=method, between="ranks", buffers=buffers, **keys) if around else \
        weft.Optimizer(model, method=method, between="ranks", buffers=buffers, lr=1e-2, **keys)
    for t in range(4):
        x = torch.randn(8, 6, generator=torch.Generator().manual_seed(2 * t + rank)) + rank
        model(x.to(DEVICE, dtype)).float().pow(2).mean().backward()
        (inner if around else opt).step()
        (inner if around else opt).zero_grad()

    def state():
        return [b.detach().float().cpu().clone() for b in (*model[1].buffers(), model[2].seen)], flat(model).float()

    found = [state()]
    with opt.averaged():
        found.append(state())
    found.append(state())
    opt.average()
    return [*found, state()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16][:1 + (DEVICE == "cpu")])  # else torch has no such norm
@pytest.mark.parametrize("method,keys", [("diloco", {"mixer_outer_every": 3}),
                                         ("diloco", {"mixer_outer_every": 3, "mesh_on_loss": "end"}), ("dadam", {})])
def test_statistics_of_copies_are_averaged_with_them(method, keys, dtype):
    most = 1e-6 if dtype == torch.float32 else 2 ** -8
    for buffers in (None, "mean", "own"):
        ranks = run(trained, 2, method, buffers, method == "diloco", dtype, **keys)
        (a, *_), (b, *_) = ranks
        for own, mean, again, good in ranks:
            assert all(torch.equal(x, y) for x, y in zip((*own[0], own[1]), (*again[0], again[1])))
            assert torch.equal(mean[1], good[1]) and torch.equal(mean[1], ranks[0][1][1])
            for i, (x, y) in enumerate(zip(a[0], b[0])):
                averaged = buffers == "mean" or (buffers is None and i < 2)
                wanted = (x + y) / 2 if averaged and i != 2 else own[0][i]  # 2: a count
                assert (mean[0][i] - wanted).abs().max() <= most * wanted.abs().max()
                assert torch.equal(mean[0][i], good[0][i])
        assert not torch.equal(a[0][0], b[0][0])


def wrong_use():
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5))
    for named, words in ((dict(method="diloco", buffers="all"), "buffers is 'all', expected 'mean' or 'own'"),
                         (dict(method="ddp", buffers="mean"), "method ddp copies are equal, and no average")):
        with pytest.raises(weft.Error, match=words):
            weft.Optimizer(model, **named)
    with pytest.raises(weft.Error, match="buffers='mean', but the model is given as parameters alone"):
        weft.Optimizer(model.parameters(), method="diloco", buffers="mean")


def test_buffers_that_can_not_be_averaged_are_refused():
    run(wrong_use, 1)
