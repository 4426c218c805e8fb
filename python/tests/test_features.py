# SPDX-License-Identifier: MIT
"""What torch's optimizers and modules can do and programs use: right beside weft, or refused in one sentence."""

import os

import pytest
import torch
from models import flat, loss_of, net
from ranks import run

import weft_sync.torch as weft


@pytest.fixture(autouse=True)
def mesh_of_each(monkeypatch):
    monkeypatch.setattr(weft._world, "_default", None)


class Above(torch.optim.AdamW):
    """As libraries write them."""

    def step(self, closure=None):
        return super().step(closure)


def stepped(of):
    rank, model = int(os.environ["RANK"]), net()
    torch.optim.AdamW(net().parameters())  # its step has hooks from now on
    inner = of(model.parameters(), lr=1e-2)
    mix = weft.Mix(model, inner, method="diloco", mixer_outer_every=3, between="ranks")
    for t in range(7):
        model.zero_grad()
        loss_of(model, rank, t).backward()
        inner.step()
    steps = mix.steps
    mix.close()
    return steps, flat(model)


def test_a_step_that_calls_the_one_of_its_base_is_one():
    for (steps, found), (_, wanted) in zip(run(stepped, 2, Above), run(stepped, 2, torch.optim.AdamW)):
        assert steps == 7 and torch.equal(found, wanted)
