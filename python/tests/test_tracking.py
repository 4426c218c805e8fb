# SPDX-License-Identifier: MIT
"""Gradient tracking: processes whose data differ end where their mean gradient is zero."""

import os

import pytest
import torch
from models import MixThere, OptimizerThere
from ranks import run

import weft_sync.torch as weft


def apart(kind, make=weft.Optimizer):
    """Distance from the least sum of two parabolas, of which each process has one."""
    rank = int(os.environ["RANK"])
    steep, low = ((1.0, 2.0), (3.0, -2.0))[rank]
    model = torch.nn.Linear(40, 40, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = make(model, method="dadam", optimizer_kind="sgd", mixer_kind=kind, lr=0.1,
                     optimizer_weight_decay=0, optimizer_clip=0)
    for _ in range(120):
        loss = steep / 2 * ((model.weight - low) ** 2).sum()
        loss.backward()
        optimizer.step(float(loss.detach()))
        optimizer.zero_grad()
    optimizer.close()
    return float((model.weight.detach() + 1).abs().max())


def test_unlike_data_end_in_one_place():
    assert max(run(apart, 2, "tracking")) < 1e-4
    assert max(run(apart, 2, "tracking", OptimizerThere)) < 1e-4  # libweft steps, wherever parameters are
    assert max(run(apart, 2, "gossip")) > 0.05


@pytest.mark.parametrize("make", [weft.Mix, MixThere, weft.Optimizer, OptimizerThere])
def test_a_programs_optimizer_is_not_directed(make):
    model = torch.nn.Linear(40, 40)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(weft.Error, match="mixer.kind is tracking, but it directs weft's optimizer"):
        make(model, inner, method="dadam", mixer_kind="tracking")
