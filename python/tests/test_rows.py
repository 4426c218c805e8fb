# SPDX-License-Identifier: MIT
"""Processes that learn from the same rows are told so, once; others hear nothing."""

import logging

import pytest
import torch
from models import loss_of, net
from ranks import run

import weft_sync.torch as weft
from weft_sync import _rows


def warned(method, tells, alike, mix=False):
    said = []
    logging.getLogger("weft_sync").addFilter(lambda r: said.append(r.getMessage()) or True)
    model = net()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    if mix:
        weft.Mix(model, sgd, method=method, mixer_outer_every=3)
    optimizer = sgd if mix else weft.Optimizer(model, method=method, lr=1e-3)
    rank = 0 if alike else weft.mesh().rank
    for t in range(20):
        loss = loss_of(model, rank, t)
        loss.backward()
        optimizer.step(*([loss] if tells else []))
        optimizer.zero_grad()
    return sum("the same rows" in line for line in said)


@pytest.mark.parametrize("method,n", [("ddp", 2), ("ddp", 3), ("dadam", 2), ("flexdemo", 2), ("diloco", 2)])
@pytest.mark.parametrize("tells", [True, False])
def test_equal_rows_are_told_once(method, tells, n):
    assert run(warned, n, method, tells, True) == [1] * n
    assert run(warned, n, method, tells, False) == [0] * n


def test_equal_rows_are_told_around_an_optimizer_that_mix_is_around():
    assert run(warned, 2, "diloco", False, True, True) == [1, 1]
    assert run(warned, 2, "diloco", False, False, True) == [0, 0]


def heard(own, means, caplog, mean_step=lambda step: step):
    """A process says `own` in each step and hears of the means."""
    rows = _rows.Rows()
    with caplog.at_level(logging.WARNING, "weft_sync"):
        for step, mean in enumerate(means, 1):
            rows.said(own)
            rows.heard(step, mean_step(step), mean, 2)
    return rows, sum("the same rows" in r.getMessage() for r in caplog.records)


def test_the_last_of_five_steps_counts_as_the_first_does(caplog):
    assert heard(1.0, [1.0] * 5, caplog)[1] == 1
    caplog.clear()
    rows, told = heard(1.0, [1.0] * 4 + [2.0] * 6, caplog)
    assert told == 0 and not rows.asks


def test_where_there_is_nothing_to_say_nothing_is_concluded(caplog):
    rows, told = heard(None, [0.0] * 20, caplog)
    assert told == 0 and rows.asks


def test_what_nobody_hears_of_is_forgotten(caplog):
    rows, _ = heard(1.0, [float("nan")] * 200, caplog, lambda step: 0)
    assert len(rows._own) <= _rows.MOST_LATE
