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


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)


def kept(dtype):
    """Every other step reaches one of two layers; zeros stay where torch leaves them."""
    grads, models = [], [Two().to(dtype), Two().to(dtype)]
    inner = [torch.optim.AdamW(model.parameters(), lr=1e-2) for model in models]
    mix = weft.Mix(models[1], inner[1], method="diloco", mixer_outer_every=2, mixer_outer_lr=1.0, mixer_outer_momentum=0.0)
    for t in range(6):
        for model, opt in zip(models, inner):
            opt.zero_grad(set_to_none=t == 0)
            x = torch.ones(2, 4, dtype=dtype) * t
            (model.a(x) if t % 2 else model.b(model.a(x))).square().mean().backward()
            opt.step()
            grads.append(torch.cat([p.grad.reshape(-1) for p in model.parameters()]))
    mix.close()
    alike = all((a - b).abs().max() <= 0.01 * b.abs().max() for a, b in zip(grads[::2], grads[1::2], strict=True))
    return alike, (flat(models[0]) - flat(models[1])).abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_stay_the_loops_own_around_a_step_that_mixes(dtype):
    for alike, apart in run(kept, 2, dtype):
        assert alike and apart < (1e-6 if dtype == torch.float32 else 0.02)
