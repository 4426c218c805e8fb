# SPDX-License-Identifier: MIT
"""What crosses the wire changes between two steps: the same steps as without, all that was put in arrives."""

import logging
import types

import pytest
import torch
from models import DEVICE
from ranks import run

import weft_sync.torch as weft
from weft_sync import _changes, _decide
from weft_sync._changes import Changes
from weft_sync._sync import Sync

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


def kept():
    """A state that was saved after a change, and which form loads it."""
    torch.manual_seed(1)
    model = torch.nn.Linear(40, 30)
    keys = dict(method="ddp", between="ranks", lr=0.1, mesh_on_loss="end")
    optimizer = weft.Optimizer(model, **keys)
    for step in range(6):
        if step == 1 and optimizer.place()[0] == 0:
            optimizer._sync.ask_form("full int8")
        torch.manual_seed(100 * step + optimizer.place()[0])
        model(torch.randn(4, 40)).square().mean().backward()
        optimizer.step()
    state, form = optimizer.state_dict(), optimizer.forms[-1].method
    again = weft.Optimizer(torch.nn.Linear(40, 30), **keys)
    with pytest.raises(weft.Error, match="after steps with full sync int8, and this optimizer begins with full sync: "
                       "expected to be created in that form"):
        again.load_state_dict(state)
    coded = torch.nn.Linear(40, 30)
    optimizer = weft.Optimizer(coded, replicator_values="int8", **keys)
    optimizer.load_state_dict(state)
    same = optimizer.steps == 6 and all(torch.equal(p, q) for p, q in zip(optimizer.state_dict()["state"][0].values(),
                                                                         state["state"][0].values()))
    return form, same


def test_a_state_names_the_form_that_loads_it():
    assert run(kept, 2) == [("full sync int8", True)] * 2


OUTER, LEAVES, AGAIN, LONG = 4, 7, 11, 16


def apart(kind, first, leaves, again):
    """With outer steps, all alike, and with outer steps again, or the other way round: the parameters, the optimizer's
    moments before and behind the first change, and what crossed the wire."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)).to(DEVICE)
    keys = {"mixer.outer_every": OUTER, "mixer.outer_lr": 1, "mixer.outer_momentum": 0}
    decided = _decide.Decision(first, keys if first == "diloco" else {}, "", "a cluster.yaml")
    _decide.decide = lambda *_: decided
    replan = Sync.replan  # nothing but full sync is planned, however slow a busy machine is: the test asks
    Sync.replan = lambda sync, _path, _loss, *numbers: replan(sync, None, 0.0, *numbers)
    own = {"optimizer_kind": "adamw", "weight_decay": 0.0, "optimizer_clip": 0}
    inner = None if kind == "own" else getattr(torch.optim, kind)(model.parameters(), lr=0.02)
    optimizer = weft.Optimizer(model, inner, lr=0.02 if inner is None else None, method="auto", step=0.1, between="ranks",
                               mesh_on_loss="end", **(own if inner is None else {}))
    rank, seen = optimizer.place()[0], []
    for step in range(LONG):
        if rank == 0 and step in (leaves, again):
            text = "full f32" if (step == leaves) == (first == "diloco") else f"outer f32 {OUTER} 0"
            optimizer._sync.ask_form(text)
        if step in (leaves + 1, leaves + 2):
            seen.append(moments(optimizer))
        torch.manual_seed(100 * step + rank)
        loss = sum((p * torch.randn(p.shape).to(p.device)).sum() for p in model.parameters())
        loss.backward()
        optimizer.step(loss)
        optimizer.zero_grad()
    averaged = len(optimizer._buffers)
    forms = [tuple(form)[:2] for form in optimizer.forms]
    optimizer.close()
    return forms, [p.detach().cpu().clone() for p in model.parameters()], seen, averaged


def moments(optimizer):
    if optimizer.inner is not None:
        return [v.detach().cpu().clone() for part in optimizer.inner.state.values() for name, v in sorted(part.items())
                if name in ("exp_avg", "exp_avg_sq", "momentum_buffer", "m", "v")]
    state = optimizer.state_dict()["state"]
    return [part[name].clone() for part in state.values() for name in sorted(part) if name.startswith("optimizer.")]


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "own"])
def test_outer_steps_are_left_and_begun(kind):
    (forms, mine, seen, averaged), (others, theirs, they, _) = run(apart, 2, kind, "diloco", LEAVES, AGAIN)
    assert forms == others == [(1, "diloco H=4"), (LEAVES + 2, "full sync"), (AGAIN + 2, "diloco H=4")]
    assert averaged == 2  # BatchNorm's mean and variance, where copies differ
    for a, b in zip(mine, theirs):
        assert torch.equal(a, b)  # the last step was an outer one
    if kind == "SGD":
        return
    assert len(seen[0]) > 0 and not any(torch.equal(a, b) for a, b in zip(seen[0], they[0]))
    assert all(torch.equal(a, b) for a, b in zip(seen[1], they[1], strict=True))
    for m, v, n, w, after, square in zip(*(those[i::2] for those in (seen[0], they[0], seen[1]) for i in range(2))):
        if kind == "AdamW":  # one step behind the mean
            agreed = (after - 0.9 * (m + n) / 2) / 0.1
            assert torch.allclose(square, 0.999 * (v + w) / 2 + 0.001 * agreed ** 2, rtol=1e-4)


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "own"])
def test_outer_steps_are_begun_and_left(kind):
    (forms, mine, _, averaged), (others, theirs, _, _) = run(apart, 2, kind, "ddp", 3, LEAVES)
    assert forms == others == [(1, "full sync"), (5, "diloco H=4"), (LEAVES + 2, "full sync")]
    assert averaged == 0
    for a, b in zip(mine, theirs):
        assert torch.equal(a, b)


def test_nothing_is_lost_with_outer_steps():
    """Gradients that do not depend on parameters, plain steps and outer ones of 1: where all is averaged is where it is put."""
    still, moved = run(apart, 2, "SGD", "ddp", -1, -1)[0][1], run(apart, 2, "SGD", "diloco", LEAVES, AGAIN)[0][1]
    for a, b in zip(still, moved):
        assert torch.allclose(a, b, atol=1e-5)


class Came(Changes):
    """A process that was left behind while outer steps were left, and is back."""

    _moves_forms, _form, _module, _asked_buffers, _config, placed = True, "diloco H=4", None, None, None, 1
    _sync = types.SimpleNamespace(follows=lambda: True, form=lambda: "full sync")

    def __init__(self, inner):
        self.inner = inner

    def _settle_places(self):
        pass


def test_who_comes_back_has_the_states_of_the_others():
    """What it gave before it was left behind is not their mean."""
    p = torch.nn.Parameter(torch.ones(3))
    inner = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = torch.ones(3)
    inner.step()
    for entered, wanted in ((True, 5.0), (False, 1.0)):
        came, buffer = Came(inner), inner.state[p]["momentum_buffer"].fill_(1)
        came._give_moments()
        buffer.fill_(5)  # as unpacked on the way in
        came._change_form(entered)
        assert buffer.tolist() == [wanted] * 3 and came._mean is None


def stepped(reached, n=1):
    """AdamW of two parameters of a size, of which these had gradients in each of n steps."""
    params = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    inner = torch.optim.AdamW(params)
    for _ in range(n):
        for i in reached:
            params[i].grad = torch.ones(3)
        inner.step()
    return inner


def test_states_of_other_parameters_have_no_mean():
    """Of as many numbers: libweft compares how many there are."""
    mine, same, theirs = (_changes.flat(stepped(those)) for those in ([0], [0], [1]))
    assert mine[1] == same[1] != theirs[1]
    assert all(numbers.numel() == n for numbers, n in (mine, theirs))


def test_counters_become_equal():
    """A process whose step reached no gradient has counted fewer."""
    one, other = stepped([0, 1], 7), stepped([0, 1], 4)
    mean = (_changes.flat(one)[0] + _changes.flat(other)[0]) / 2
    for inner in (one, other):
        _changes.take(inner, mean)
        assert [part["step"].item() for part in inner.state.values()] == [6.0, 6.0]  # 5.5, rounded


def test_sizes_of_steps_have_no_mean():
    p = [torch.nn.Parameter(torch.ones(3))]
    kinds = torch.optim.AdamW, torch.optim.SGD, torch.optim.Rprop, torch.optim.ASGD
    assert [_changes.have_mean(kind(p, lr=0.1)) for kind in kinds] == [True, True, False, False]


class Strange(torch.optim.SGD):
    """Of which it is not known what a mean of its states is."""


def strange():
    model = torch.nn.Linear(5, 4)
    _decide.decide = lambda *_: _decide.Decision("diloco", {"mixer.outer_every": 2}, "", "nodes: 2\n")
    said = []
    follow, _decide.follow = _decide.follow, lambda sync, *_: said.append(sync.replan(None, 10, 0))
    optimizer = weft.Optimizer(model, Strange(model.parameters(), lr=0.1), method="auto", step=0.1, between="ranks")
    _decide.follow = follow
    optimizer.close()
    return said


def test_states_without_a_mean_stay():
    assert run(strange, 2) == [["the states of the program's optimizer have no mean"]] * 2


def follow(slow, named):
    """The first choice, on a wire that is said to be fast; the steps are told as they would be."""
    torch.manual_seed(1)
    model = torch.nn.Linear(50, 40)
    cluster = "nodes: 2\nranks_per_node: 1\nrank_flops: 1e9\nwire: {bandwidth: 10Gbit, latency: 20us}\n"
    method, keys = ("streaming-diloco", {}) if slow else ("ddp", {})
    decided = _decide.Decision(method, keys, "", cluster)
    _decide.decide = lambda *_: decided
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger("weft_sync").addHandler(handler)
    logging.getLogger("weft_sync").setLevel(logging.INFO)
    asked, replan = [], Sync.replan
    Sync.replan = lambda sync, path, *numbers: asked.append(numbers) or replan(sync, path, *numbers)
    optimizer = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1), method="auto", step=0.1,
                               between="ranks", mesh_on_loss="end", **named)
    for _ in range(20):
        model(torch.ones(1, 50)).sum().backward()
        optimizer.step()
    forms = optimizer.forms
    optimizer.close()
    return [form.method for form in forms], records, asked


def test_what_stays_is_said(tmp_path):
    forms, records, asked = run(follow, 2, True, {})[0]
    assert forms == []
    assert "method=auto keeps this choice: parts of the model are on their way in every step" in records
    assert asked == [(10.0, 0, 0.0, "", 10.0)]  # any, and a length that is not known
    (tmp_path / "run.yaml").write_text("run: {steps: 300}\n")
    for named, told in (({"decide_loss": 0.02, "run_steps": 400, "decide_bytes_per_day": "3GB",
                         "decide_busy": "0:00-24:00,1bit"}, (0.02, 400, 3e9, "0:00-24:00,1bit")),
                        ({"config": str(tmp_path / "run.yaml")}, (10.0, 300, 0.0, ""))):
        forms, records, asked = run(follow, 2, False, named)[0]
        assert forms[0] == "full sync" and asked == [(*told, 10.0)]
        assert not any("keeps" in text or "goes on as it is" in text for text in records)
