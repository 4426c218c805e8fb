# SPDX-License-Identifier: MIT
"""What crosses the wire changes between two steps: the same steps as without, all that was put in arrives."""

import logging

import pytest
import torch
from ranks import run

import weft_sync.torch as weft
from weft_sync import _decide

STEPS, ASKS = 10, {2: "full int8", 6: "full f32"}


def train(inside, asks, mixed=False):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.Linear(30, 3))
    keys = dict(method="ddp", between="ranks", mesh_on_loss="end")
    if inside:
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = weft.Optimizer(model, inner, **keys)
    else:
        optimizer = weft.Optimizer(model, lr=0.1, optimizer_kind="sgd", weight_decay=0.0, optimizer_clip=0, **keys)
    rank = optimizer.place()[0]
    for step in range(STEPS):
        if rank == 0 and step in asks:
            optimizer._sync.ask_form(asks[step])
        torch.manual_seed(100 * step + rank)
        # gradients do not depend on parameters: what is late moves them as far
        loss = sum((p * torch.randn_like(p)).sum() for p in model.parameters())
        loss.backward()
        optimizer.step(loss)
        optimizer.zero_grad()
    forms = [tuple(form) for form in optimizer.forms]
    optimizer.close()
    return forms, [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("inside", [False, True])
def test_all_change_before_one_step_and_nothing_is_lost(inside):
    _, still = run(train, 2, inside, {})[0]
    (forms, moved), (others, same) = run(train, 2, inside, ASKS)
    steps = [(1, "full sync"), (4, "full sync int8"), (8, "full sync")]
    assert [f[:2] for f in forms] == [f[:2] for f in others] == steps
    for a, b, c in zip(still, moved, same):
        assert torch.equal(b, c)
        assert torch.allclose(a, b, atol=1e-5)  # what int8 has left out is sent in the first step without it


def follow(slow):
    """The first choice, on a wire that is said to be fast; the steps are told as they would be."""
    torch.manual_seed(1)
    model = torch.nn.Linear(50, 40)
    cluster = "nodes: 2\nranks_per_node: 1\nrank_flops: 1e9\nwire: {bandwidth: 10Gbit, latency: 20us}\n"
    method, keys = ("diloco", {"mixer.outer_every": 2}) if slow else ("ddp", {})
    decided = _decide.Decision(method, keys, "", cluster)
    _decide.decide = lambda *_: decided
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger("weft_sync").addHandler(handler)
    logging.getLogger("weft_sync").setLevel(logging.INFO)
    optimizer = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1), method="auto", step=0.1,
                               between="ranks", mesh_on_loss="end")
    for _ in range(20):
        model(torch.ones(1, 50)).sum().backward()
        optimizer.step()
    forms = optimizer.forms
    optimizer.close()
    return [form.method for form in forms], records


def test_what_stays_is_said():
    forms, records = run(follow, 2, True)[0]
    assert len(forms) == 1 and forms[0].startswith("diloco H=2")
    assert "method=auto keeps this choice: outer steps are not left in a program's own loop" in records
    forms, records = run(follow, 2, False)[0]
    assert forms[0] == "full sync" and not any("keeps" in text or "goes on as it is" in text for text in records)

