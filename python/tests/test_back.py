# SPDX-License-Identifier: MIT
"""A process that the others have gone on without although it lives, for it stood still or had a
gradient that is no number, comes back into the running loop: by itself, or in two lines of the loop.
It is stopped until the others say that they have lost it."""

import os
import signal

import pytest
import torch
from models import DEVICE, flat, loss_of, net
from ranks import answers, fork, run, start
from test_lost import Said, rank_of

import weft_sync.torch as weft
from weft_sync import _back

AT, TOGETHER = 4, 4
PATIENT = {"elastic_silence": 2}  # seconds: who is merely slow, on a busy machine, is not lost


def made(kind, returns):
    """Model, what steps, weft's part of it, and the schedule, which is carried."""
    model = net(rank_of())
    if kind == "mix":
        inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
        weft_part = weft.Mix(model, inner, method="diloco", mixer_outer_every=3, between="ranks",
                             returns=returns, **PATIENT)
        steps = inner
    else:
        inner = torch.optim.AdamW(model.parameters(), lr=1e-3) if kind == "inside" else None
        steps = weft_part = weft.Optimizer(model, inner, method="flexdemo", between="ranks",
                                           lr=None if inner else 1e-3, returns=returns, **PATIENT)
    schedule = torch.optim.lr_scheduler.StepLR(inner or steps, 3, 0.9)
    weft_part.carry(schedule)
    return model, steps, weft_part, schedule


def loop(kind, by_hand, lost_event):
    said = Said()
    model, steps, part, schedule = made(kind, 0 if by_hand else 10)
    stood, lost, together, came = False, False, 0, None
    while together < TOGETHER:
        if rank_of() == 1 and part.steps == AT and not stood:
            stood = True
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            loss = loss_of(model, rank_of(), part.steps)
            loss.backward()
            steps.step()
            schedule.step()  # also after a step that was none: rates are the others' all the same
        except weft.LeftBehind:
            if not by_hand:
                raise
            part.come_back()
        report = part.report
        if report.skipped:
            came = report
            lost = True
        elif report.processes < 3:
            lost = True
            lost_event.set()
        together += lost and not report.skipped and report.processes == 3
    moments = [s["exp_avg"].clone().cpu() for s in steps.state.values()] if kind == "mix" else \
        [] if kind == "own" else [s["exp_avg"].clone().cpu() for s in part.inner.state.values()]
    with part.averaged():
        mean = flat(model)
    assert schedule.last_epoch == part.steps
    return part.steps, came, mean, flat(model), moments, said.sentences


def standing_still(function, *what):
    """Ranks 0 to 2; rank 1 goes on when the others have lost it."""
    lost = fork.Event()
    ranks = start(function, 3, *what, lost)
    lost.wait(100)
    os.kill(ranks[1].process.pid, signal.SIGCONT)
    found = answers(ranks)
    assert [fine for fine, _ in found] == [True] * 3, found
    return [told for _, told in found]


@pytest.mark.parametrize("kind,by_hand", [("own", False), ("inside", False), ("own", True),
                                          ("mix", False), ("mix", True)])
def test_who_stood_still_comes_back(kind, by_hand):
    others, stood, _ = standing_still(loop, kind, by_hand)
    end, _, mean, own, moments, said = others
    also, came, its_mean, its_own, its_moments, its_words = stood
    assert end == also and came.step > AT and came.skipped and torch.equal(mean, its_mean)
    if kind != "mix":
        assert torch.equal(own, its_own)
        assert all(torch.equal(a, b) for a, b in zip(moments, its_moments, strict=True))
    assert any(line.startswith("lost rank 1") for line in said) and "joined by" in said[-1]
    if not by_hand:
        assert any("joins the run again in 1 s (time 1 of 10)" in line for line in its_words)
    assert any("this process is back, one of" in line for line in its_words)


def uncarried(told, lost_event):
    """Rank 1 has a schedule of its own, which nobody carries: it is told so before it calls. The
    others train until then."""
    model = net(rank_of())
    opt = weft.Optimizer(model, method="flexdemo", between="ranks", lr=1e-3, returns=3, **PATIENT)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 3, 0.9)
    while not told.is_set():
        stands = rank_of() == 1 and opt.steps == AT
        if stands:
            os.kill(os.getpid(), signal.SIGSTOP)
        loss_of(model, rank_of(), opt.steps).backward()
        if stands:
            with pytest.raises(weft.Error, match="the schedule of this process is not carried"):
                opt.step()
            told.set()
        elif opt.step().processes < 3:
            lost_event.set()
        schedule.step()


def test_a_schedule_that_is_not_carried_is_told():
    standing_still(uncarried, fork.Event())


def astray(kind):
    """Of rank 1 one gradient is not a number."""
    said = Said()
    model, steps, part, schedule = made(kind, 10)
    wrong, lost, together = False, False, 0
    while together < TOGETHER:
        spoils = rank_of() == 1 and part.steps == AT and not wrong
        wrong = wrong or spoils
        loss = loss_of(model, rank_of(), part.steps)
        (loss * (float("nan") if spoils else 1)).backward()
        steps.step()
        steps.zero_grad()
        schedule.step()
        lost = lost or part.report.skipped or part.report.processes < 3
        together += lost and not part.report.skipped and part.report.processes == 3
    assert kind != "mix" or (part.weft._held is None) == (DEVICE == "cpu")
    with part.averaged():
        mean = flat(model)
    return part.steps, mean, said.sentences


@pytest.mark.parametrize("kind", ["own", "inside", "mix"])
def test_who_has_a_gradient_that_is_no_number_comes_back(kind):
    (end, mean, said), (also, its, words), _ = run(astray, 3, kind)
    assert end == also and torch.equal(mean, its) and torch.isfinite(mean).all()
    what = "parameters are" if kind == "mix" else "gradient is"
    at = AT + 1 + (kind == "mix" and DEVICE != "cpu")  # when what it has made of it is sent
    assert any(line.startswith("lost rank 1") and f"the {what} not finite at step {at} " in line
               for line in said), said
    assert any("joins the run again in 1 s (time 1 of 10)" in line for line in words), words


def everybody(method):
    """All gradients are no numbers: nobody is left to come back to."""
    model = net(0)
    opt = weft.Optimizer(model, method=method, lr=1e-3, between="ranks", returns=3, **PATIENT)
    with pytest.raises(weft.Error, match=f"is not finite at step {AT + 1} "):
        while True:
            loss = loss_of(model, rank_of(), opt.steps)
            (loss * (float("nan") if opt.steps == AT else 1)).backward()
            opt.step()
            opt.zero_grad()


def test_a_loss_that_diverges_ends_all():
    run(everybody, 3, "flexdemo")


def untouched():
    model = net(0)
    opt = weft.Optimizer(model, method="flexdemo", between="ranks", lr=1e-3)
    with pytest.raises(weft.Error, match="nobody has gone on without this process"):
        opt.come_back()
    opt.placed = 2
    opt.mesh.way_back = lambda: "somewhere:1"
    with pytest.raises(weft.Error, match="come back together"):
        opt.come_back()
    with pytest.raises(weft.Error, match="returns is -1"):
        weft.Optimizer(net(), returns=-1)


def test_who_was_not_left_behind_does_not_come_back():
    run(untouched, 1)


def test_returns_become_rare_and_end(monkeypatch):
    clock, waits = [0.0], []
    monkeypatch.setattr(_back, "now", lambda: clock[0])
    returns, error = _back.Returns(8, waits.append), weft.LeftBehind("peer", "it is out", "a:1")
    for _ in range(8):
        returns.wait(error)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    with pytest.raises(weft.LeftBehind, match="it is out"):
        returns.wait(error)
    clock[0] = 601.0  # ten minutes of training begin the count anew
    returns.wait(error)
    assert waits[-1] == 1
