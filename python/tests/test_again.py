# SPDX-License-Identifier: MIT
"""A notebook's cells: an optimizer that is made again over the same model, in the same process; one that
a framework has wrapped."""

import contextlib
import os

import pytest
import torch
from models import MixThere, OptimizerThere, flat, loss_of, net
from ranks import run

import weft_sync.torch as weft


def steps(optimizer, model, first, n, mix=None):
    rank = int(os.environ["RANK"])
    for t in range(first, first + n):
        loss = loss_of(model, rank, t)
        loss.backward()
        optimizer.step(*([loss] if mix is None else []))
        optimizer.zero_grad()


def made(kind, model):
    """An optimizer to step with, and what is of weft's."""
    if kind == "Optimizer":
        return (weft.Optimizer(model, method="flexdemo", lr=1e-3),) * 2
    if kind == "OptimizerThere":
        return (OptimizerThere(model, method="flexdemo", lr=1e-3),) * 2
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    make = weft.Mix if kind == "Mix" else MixThere
    return sgd, make(model, sgd, method="diloco", mixer_outer_every=2)


KINDS = ["Optimizer", "Mix", "OptimizerThere", "MixThere"]


def again(kind, closes):
    """The cell runs twice, and is broken off in a step in between; a first one that was closed in time
    is what a fresh process would make of the model."""
    model = net()
    first, ours = made(kind, model)
    plain = first is not ours or None
    steps(first, model, 0, 3, plain)
    if closes:
        ours.close()
    else:  # weft's own optimizer steps in backward: only a gradient that is added up is nothing yet
        with getattr(ours, "no_sync", contextlib.nullcontext)():
            loss_of(model, 5, 5).backward()
    second, _ = made(kind, model)
    steps(second, model, 3, 4, plain)
    found = flat(model).clone()
    if not closes and plain is None:
        with pytest.raises(weft.Error, match="was closed.*another one was made"):
            first.step()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2])
def test_a_cell_runs_again(kind, n):
    assert all(torch.equal(a, b) for a, b in zip(run(again, n, kind, True), run(again, n, kind, False)))


def broken_off(skips):
    model = net()
    first = weft.Optimizer(model, method="hsdp", skips=skips)
    steps(first, model, 0, 2)
    if os.environ["RANK"] == "0":
        first.mesh.fail("stopped by KeyboardInterrupt")
    stopped = skips or os.environ["RANK"] == "0"  # else the other one goes on
    with pytest.raises(weft.Error) if stopped else contextlib.nullcontext():
        steps(first, model, 2, 3)
    steps(weft.Optimizer(model, method="hsdp", skips=skips), model, 5, 2)
    return flat(model)


@pytest.mark.parametrize("skips", [False, True])
def test_a_cell_that_was_stopped_runs_again(skips):
    found = run(broken_off, 2, skips)
    assert torch.equal(found[0], found[1])


class Prepared(torch.optim.Optimizer):
    """As Accelerate's: an optimizer by its type alone, around the one that was given."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def state(self):
        return self.optimizer.state

    def step(self, closure=None):
        self.optimizer.step(closure)

    def zero_grad(self, set_to_none=None):
        self.optimizer.zero_grad()


def mixed(make, wraps):
    model = net()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    used = wraps(sgd) if wraps else sgd
    with make(model, used, method="diloco", mixer_outer_every=2) as mix:
        steps(used, model, 0, 4, mix)
    return flat(model)


@pytest.mark.parametrize("make", [weft.Mix, MixThere])
def test_mix_is_around_what_accelerate_has_prepared(make):
    assert torch.equal(run(mixed, 2, make, Prepared)[0], run(mixed, 2, make, None)[0])


def by_accelerate(optimizer):
    return pytest.importorskip("accelerate").Accelerator(cpu=True).prepare(optimizer)


def test_mix_is_around_accelerate_itself():
    pytest.importorskip("accelerate")
    assert torch.equal(run(mixed, 1, weft.Mix, by_accelerate)[0], run(mixed, 1, weft.Mix, None)[0])
