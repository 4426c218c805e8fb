# SPDX-License-Identifier: MIT
"""One process with wrong numbers, and mesh.robust."""

import logging

import pytest
from models import flat, loss_of, net
from ranks import run
from test_lost import rank_of

import weft_sync.torch as weft


class Said(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def with_a_wrong_one(rule):
    """Rank 1 goes up the hill, a hundred times as fast."""
    said, model = Said(), net(0)
    logging.getLogger().addHandler(said)
    optimizer = weft.Optimizer(model, method="ddp", between="ranks", overlap=False, mesh_robust=rule,
                               lr=1e-3)
    for step in range(14):
        loss = loss_of(model, rank_of(), step)
        loss.backward()
        if rank_of() == 1:
            for p in model.parameters():
                p.grad *= -100
        optimizer.step(loss)
        optimizer.zero_grad()
    optimizer.close()
    return ([line for line in said.lines if "again and again" in line],
            flat(model).tolist())


@pytest.mark.parametrize("rule", ["clip", "trim"])
def test_a_wrong_process_is_named_once_by_the_first(rule):
    ranks = run(with_a_wrong_one, 4, rule)
    assert [len(said) for said, _ in ranks] == [1, 0, 0, 0]
    assert ranks[0][0][0].startswith("node 1 sends too much again and again")
    assert all(numbers == ranks[0][1] for _, numbers in ranks)


def test_a_key_that_a_method_cannot_take_is_refused():
    for method in ("flexdemo", "dadam", "sparseloco"):
        with pytest.raises(weft.Error, match="mesh.robust is clip, but with replicator.kind"):
            weft.Optimizer(net(0), method=method, mesh_robust="clip")
