# SPDX-License-Identifier: MIT
"""What a program writes into parameters between steps (weights that are clipped, an average that is swapped in), where
copies differ: a mixer that takes means of what it finds keeps bounds; one that mixes in what was sent before does not,
and says so."""

import logging
import os

import pytest
import torch
from models import MixThere
from ranks import run

import weft_sync.torch as weft

GOSSIP = {"method": "dadam", "mixer_topology": "complete"}
OUTER = {"method": "diloco", "mixer_outer_every": 2, "mixer_outer_lr": 1.0, "mixer_outer_momentum": 0.0}


def clamped(make, keys, dtype, write=True):
    """Copies at about 20 and 40 are brought to 1. The largest number in the next two steps, and what was said."""
    rank, largest, said, handler = int(os.environ["RANK"]), 0.0, [], logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("weft_sync").addHandler(handler)
    model = torch.nn.Linear(7, 9).to(dtype)
    inner = torch.optim.SGD(model.parameters(), lr=10.0)
    with make(model, inner, between="ranks", **keys) as mix:
        if not write:
            model.weight.data.mul_(0.5)  # before anything is sent
        for t in range(6):
            model.zero_grad()
            for p in model.parameters():
                p.grad = torch.full_like(p, (-1.0, -2.0)[rank] if t < 2 else 0.0)
            inner.step()
            if t in (2, 3):
                largest = max(largest, *(p.abs().max().item() for p in model.parameters()))
            if write and t in (1, 3):
                for p in model.parameters():
                    p.data.clamp_(-1, 1)
            elif t == 3:
                with mix.averaged():
                    pass
    return largest, said


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [weft.Mix, MixThere])
@pytest.mark.parametrize("keys", [{**GOSSIP, "mixer_order": "atc"}, OUTER, {**GOSSIP, "mixer_kind": "choco",
                                  "mixer_values": "f32", "mixer_order": "atc"}])
def test_means_of_what_was_written_keep_its_bounds(keys, make, dtype):
    for largest, said in run(clamped, 2, make, keys, dtype):
        assert largest <= 1 and not any("written to" in line for line in said)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make,keys,instead", [
    (weft.Mix, GOSSIP, "mixer_order='atc'"), (MixThere, GOSSIP, "mixer_order='atc'"),
    (weft.Mix, {**GOSSIP, "mixer_kind": "choco"}, "mixer_order='atc'"), (weft.Mix, {**OUTER, "mixer_delay": 1}, "mixer_delay=0")])
def test_copies_that_were_sent_before_undo_a_part_and_that_is_said_once(make, keys, instead, dtype):
    for largest, said in run(clamped, 2, make, keys, dtype):
        assert len(said) == 1 and "parameters were written to between two steps" in said[0] and instead in said[0]
        if keys == GOSSIP:
            assert largest > 5
    assert all(said == [] for _, said in run(clamped, 2, make, keys, dtype, False))


def test_a_process_alone_undoes_nothing():
    (largest, said), = run(clamped, 1, weft.Mix, GOSSIP, torch.float32)
    assert largest == 1 and said == []
