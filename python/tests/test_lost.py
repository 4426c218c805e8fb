# SPDX-License-Identifier: MIT
"""Processes that are lost while others train, and what these do then: they go on among
themselves, with every method, or end with one sentence where they can not."""

import logging
import os
import signal

import pytest
import torch
from models import flat, loss_of, net
from ranks import answers, fork, run, start

import weft_sync.torch as weft


def rank_of():
    return int(os.environ["RANK"])


class Said(logging.Handler):
    """What the package's log says in this process while it trains, of the others."""

    def __init__(self):
        super().__init__()
        self.sentences = []
        logging.getLogger("weft_sync").addHandler(self)

    def emit(self, record):
        said = record.getMessage()
        if "hands signs to" not in said and "of the rate of method" not in said:  # test_asked.py
            self.sentences.append(record.getMessage())


STEPS, AT = 24, 5


def trained(method, inside, keys, at, dtype=torch.float32):
    """Rank 1 is killed after backward of step `at`, when its gradients are on their way."""
    model, said = net(rank_of()).to(dtype), Said()
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3) if inside else None
    opt = weft.Optimizer(model, inner, method=method, between="ranks",
                         lr=None if inside else 1e-3, **keys)
    assert opt.goes_on
    where = [p.data_ptr() for p in model.parameters()]
    processes, losses = [], []
    for t in range(STEPS):
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        if rank_of() == 1 and t == at:
            os.kill(os.getpid(), signal.SIGKILL)
        report = opt.step(loss)
        opt.zero_grad()
        processes.append(report.processes)
        losses.append(report.loss)
    with opt.averaged():
        mean = flat(model)
    assert where == [p.data_ptr() for p in model.parameters()]  # they lie where they lay
    return processes, mean, flat(model), losses, said.sentences, opt._sync.place()


METHODS = [("ddp", False, {}), ("flexdemo", False, {}), ("random", False, {}),
           ("flexdemo", True, {"replicator_values": "int8"}), ("ddp", True, {}),
           ("dadam", False, {"mixer_topology": "ring"}),
           ("dadam", False, {"mixer_kind": "choco", "mixer_values": "sign",
                             "mixer_gamma": 0.3}),
           ("diloco", False, {"mixer_outer_every": 3}),
           ("diloco", True, {"mixer_outer_every": 3})]


@pytest.mark.parametrize("method,inside,keys", METHODS)
def test_the_others_go_on_when_one_is_killed(method, inside, keys):
    found = answers(start(trained, 3, method, inside, keys, AT))
    assert [fine for fine, _ in found] == [True, False, True], found
    (counts, a, own, losses, said, place), (_, b, theirs, _, _, other) = found[0][1], found[2][1]
    met = {"dadam": AT - 2, "diloco": 3}.get(method, AT)  # who is killed may be ahead of the others by as much
    assert counts[:met] == [3] * met and counts[-1] == 2 and sorted(counts, reverse=True) == counts
    assert torch.equal(a, b)
    if method not in ("dadam", "diloco"):
        assert torch.equal(own, theirs)
    known = [loss for loss in losses if loss is not None]  # gossip's are eight steps late
    assert len(known) > 5 and (known[-1] < known[0] or method == "random")
    said = [line for line in said if "lies on the host" not in line]  # what choco remembers, where there is a device
    assert len(said) == 1 and said[0].startswith("lost rank 1 (host ") and "2 processes" in said[0]
    assert (place, other) == ((0, 2), (1, 2))


def test_parameters_in_bf16_too():
    found = answers(start(trained, 3, "flexdemo", False, {}, AT, torch.bfloat16))
    assert [fine for fine, _ in found] == [True, False, True], found
    assert torch.equal(found[0][1][1], found[2][1][1])


def one_after_another():
    """Of four ranks two are killed, in other steps; then one is alone."""
    model = net(rank_of())
    opt = weft.Optimizer(model, method="flexdemo", between="ranks", lr=1e-3)
    counts = []
    for t in range(20):
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        if (rank_of(), t) in ((0, 4), (2, 9), (3, 14)):
            os.kill(os.getpid(), signal.SIGKILL)
        counts.append(opt.step(loss).processes)
    return counts, opt.state_dict()["weft"]["size"]


def test_one_after_another_until_one_is_alone():
    found = answers(start(one_after_another, 4))
    assert [fine for fine, _ in found] == [False, True, False, False], found
    counts, size = found[1][1]
    assert counts[0] == 4 and counts[-1] == 1 and 3 in counts and 2 in counts and size == 1


def unequal():
    """Rank 0's data end early, and its process with them."""
    model, said = net(rank_of()), Said()
    opt = weft.Optimizer(model, method="flexdemo", between="ranks", lr=1e-3)
    for t in range(4 if rank_of() == 0 else 9):
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        opt.step(loss)
    opt.close()
    opt.mesh.close()
    return flat(model), opt.report.processes, said.sentences


def test_who_has_fewer_steps_is_gone_on_without():
    (_, n, none), (a, two, said), (b, _, _) = run(unequal, 3)
    assert (n, two) == (3, 2) and none == [] and "lost rank 0" in said[0]
    assert torch.equal(a, b)


def broken_off():
    """Rank 1 ends its loop between backward and step, as one that catches Ctrl-C."""
    model, said = net(rank_of()), Said()
    opt = weft.Optimizer(model, method="hsdp", lr=1e-3, between="ranks")
    for t in range(8):
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        if rank_of() == 1 and t == 4:
            break
        opt.step(loss)
    opt.close()
    opt.mesh.close()
    return flat(model), opt.report.processes, said.sentences


def test_who_leaves_in_the_middle_of_a_step_is_gone_on_without():
    """Where a part of its step was not there yet, all waited for each other for ever."""
    found = answers(start(broken_off, 3), 40)
    assert [fine for fine, _ in found] == [True] * 3, found
    (a, two, said), _, (b, _, _) = (told for _, told in found)
    assert two == 2 and "lost rank 1" in said[0] and "it left in the middle of a step" in said[0]
    assert torch.equal(a, b)


def failed(keys, trained):
    model, said = net(rank_of()), Said()
    opt = weft.Optimizer(model, method="ddp", lr=1e-3, between="ranks", keys=keys)
    for t in range(12):
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        if t == 3:
            trained.wait(240)
        if rank_of() == 1 and t == 3:
            raise ValueError("an error of the user's")
        opt.step(loss)
    return opt.report.processes, said.sentences


def test_an_exception_is_told_to_those_who_go_on():
    found = answers(start(failed, 3, {}, fork.Barrier(3)))
    assert [fine for fine, _ in found] == [True, False, True], found
    processes, said = found[0][1]
    assert processes == 2 and "ValueError: an error of the user's" in said[0]


def interrupted_average(at):
    """Rank 2 is killed when the others average already."""
    model = net(rank_of())
    opt = weft.Optimizer(model, method="dadam", lr=1e-3, between="ranks")
    for t in range(8):
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        opt.step(loss)
        if t == 3:
            if rank_of() == 2:
                at.wait(240)
                os.kill(os.getpid(), signal.SIGKILL)
            if rank_of() == 0:
                at.set()
            own = flat(model)
            with opt.averaged():
                mean = flat(model)
            assert torch.equal(own, flat(model))
    with opt.averaged():
        return mean, flat(model), opt.report.processes


def test_an_average_is_done_again_among_those_who_are_left():
    found = answers(start(interrupted_average, 3, fork.Event()))
    assert [fine for fine, _ in found] == [True, True, False], found
    (a, end, n), (b, other_end, _) = found[0][1], found[1][1]
    assert torch.equal(a, b) and torch.equal(end, other_end) and n == 2


def placed(which):
    model = net(rank_of())
    keys = {"skips": {"skips": True}, "end": {"mesh_on_loss": "end"}, "two": {}}[which]
    opt = weft.Optimizer(model, method="ddp", lr=1e-3, between="ranks", **keys)
    again = weft.Optimizer(net(1), method="ddp", lr=1e-3, between="ranks")
    for t in range(3):  # two exchanges in turns, as of a generator and its critic
        for o, m in ((opt, model), (again, None)):
            if m is not None:
                loss_of(m, rank_of(), t).backward()
            o.step()
    return opt.goes_on, opt.mesh is again.mesh


def test_where_it_does_not_and_two_exchanges():
    assert run(placed, 2, "skips") == [(False, True)] * 2
    assert run(placed, 2, "end") == [(False, True)] * 2
    assert run(placed, 2, "two") == [(True, False)] * 2
