# SPDX-License-Identifier: MIT
"""Who waits for others says for whom, hears Ctrl-C at once, and gives up after a while."""

import logging
import os
import signal
import socket
import threading
import time

import pytest
import torch
from models import net
from ranks import Rank, answers, fork, free_port

import weft_sync.torch as weft
from weft_sync import _library, _store, _sync

AT_ONCE_S = 5  # on a machine that does something else beside


class Lines(logging.Handler):
    """Keeps what is said; the first line presses Ctrl-C where that is wanted."""

    def __init__(self, interrupts, ready=lambda: None):
        super().__init__()
        self.interrupts, self.lines, self.at = interrupts, [], time.monotonic()
        self.ready = ready
        logging.getLogger("weft_sync").addHandler(self)

    def emit(self, record):
        self.lines.append(record.getMessage())
        if self.interrupts and len(self.lines) == 1:
            self.ready()
            self.at = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)


def stopped(others=None):
    """Makes an optimizer until the line that it waits; how long it took to hear Ctrl-C. Rank 0,
    whom the others hear, presses it when two others have ended."""
    def ready():
        if others is not None and os.environ["RANK"] == "0":
            assert others.acquire(timeout=50) and others.acquire(timeout=50)
    said = Lines(True, ready)
    with pytest.raises(KeyboardInterrupt):
        weft.Optimizer(net())
    passed = time.monotonic() - said.at
    if others is not None:
        others.release()
    return said.lines[0], passed


def given_up(patience):
    _library.PATIENCE_S = patience
    said, begun = Lines(False), time.monotonic()
    with pytest.raises(weft.Error) as caught:
        weft.Optimizer(net())
    return said.lines, str(caught.value), time.monotonic() - begun


def started(function, ranks, of, args=(), env=None):
    port = free_port()
    where = {"WORLD_SIZE": str(of), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return port, [Rank(function, r, {**where, "RANK": str(r), **(env(r) if env else {})}, args, {})
                  for r in ranks]


def said_by(ranks):
    found = answers(ranks, 60)
    assert all(fine for fine, _ in found), found
    return [told for _, told in found]


def test_three_of_four_say_who_is_missing_and_hear_ctrl_c():
    _, ranks = started(stopped, range(3), 4, (fork.Semaphore(0),))
    first, *others = said_by(ranks)
    assert first[0].startswith("waiting for 1 of 4 at 127.0.0.1:") and first[0].endswith("rank 3 "
                                                                     "on this machine")
    assert all("has reached rank 0" in line for line, _ in others)
    assert max(seconds for _, seconds in [first, *others]) < AT_ONCE_S


def test_who_waits_for_rank_0_says_so_and_hears_ctrl_c(monkeypatch):
    monkeypatch.setattr(_store, "SAY_AFTER_S", 1.0)
    port, ranks = started(stopped, [1], 2)
    (line, seconds), = said_by(ranks)
    assert line.startswith(f"waiting for rank 0 of 2 at 127.0.0.1:{port}") and seconds < AT_ONCE_S


def test_who_comes_hears_ctrl_c_where_nobody_is_and_where_one_is_mute():
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        for port in (free_port(), mute.getsockname()[1]):
            late = Rank(stopped, 0, {"WEFT_JOIN": f"127.0.0.1:{port}"}, (), {})
            (line, seconds), = said_by([late])
            assert "does not take this process yet" in line and seconds < AT_ONCE_S


def test_who_does_not_come_is_an_error_after_a_while():
    _, ranks = started(given_up, range(2), 3, (12.0,))
    first, second = said_by(ranks)
    assert "waits for others that do not come: rank 2" in first[1] and first[2] < 40
    assert "got no list of the others" in second[1] and second[2] < 40


def key(tmp_path, name):
    path = tmp_path / name
    path.write_text(name[0] * 64 + "\n")
    path.chmod(0o600)
    return {"WEFT_KEY_FILE": str(path)}


@pytest.mark.parametrize("has", [(True, False), (False, True)], ids=["rank 0", "rank 1"])
def test_a_key_on_one_side_alone_is_said(tmp_path, has):
    _, ranks = started(given_up, range(2), 2, (12.0,),
                       lambda r: key(tmp_path, "a.key") if has[r] else {})
    first, second = said_by(ranks)
    assert any("called rank 0" in line for line in first[0]), first
    wanted = "or one with a key" if has[0] else "as one without a key does"
    assert wanted in second[1], second


def test_another_key_is_said_on_both_sides(tmp_path):
    _, ranks = started(given_up, range(2), 2, (12.0,), lambda r: key(tmp_path, "ab"[r] + ".key"))
    first, second = said_by(ranks)
    assert any("does not have this run's key" in line for line in first[0]), first
    assert "it has another key, or none" in second[1]


def made_by_one(patience):
    """Rank 1 joins, and makes no optimizer."""
    weft.mesh()
    _sync.SAY_AFTER_S, _library.PATIENCE_S = 1.0, patience
    if os.environ["RANK"] == "1":
        with pytest.raises(weft.Error, match="waited"):
            while True:  # as a process that loads something for long
                time.sleep(patience + 2)
                weft.Optimizer(net())
        return
    said = Lines(patience > 10)
    with pytest.raises(KeyboardInterrupt if patience > 10 else weft.Error) as caught:
        weft.Optimizer(net())
    return said.lines[0], str(caught.value), time.monotonic() - said.at


def test_who_makes_no_optimizer_is_named():
    line, error, _ = said_by(started(made_by_one, range(2), 2, (4.0,))[1])[0]
    assert line.startswith("waiting for rank 1 (host ") and line.endswith("which makes no optimizer yet")
    assert "waited 4 s for rank 1 (host " in error


def test_ctrl_c_is_heard_where_another_makes_no_optimizer():
    _, ranks = started(made_by_one, [0, 1], 2, (15.0,))
    fine, (line, _, seconds) = ranks[0].finish(60)
    ranks[1].process.kill()
    ranks[1].finish(10)
    assert fine and "rank 1" in line and seconds < AT_ONCE_S


def lingered(passed):
    """Trains. Rank 1 pauses between two steps until rank 0 has logged that it waits."""
    said, model = Lines(False), torch.nn.Linear(6, 2)
    optimizer = weft.Optimizer(model, method="ddp")
    for step in range(4):
        if step == 2 and optimizer.mesh.rank == 1:
            assert passed.acquire(timeout=50)
        model(torch.randn(3, 6)).square().sum().backward()
        if step == 2 and optimizer.mesh.rank == 0:
            logging.getLogger("weft_sync").addHandler(Released(passed))
        optimizer.step()
    optimizer.close()
    return said.lines


class Released(logging.Handler):
    def __init__(self, passed):
        super().__init__()
        self.passed = passed

    def emit(self, record):
        self.passed.release()


def test_a_rank_that_another_keeps_waiting_in_a_step_names_it():
    _, ranks = started(lingered, range(2), 2, (fork.Semaphore(0),))
    first, second = said_by(ranks)
    assert any(line.startswith("rank 0 has waited 10 s for rank 1 (host ")
               and line.endswith(", which lives and was last at step 2") for line in first), first
    assert not any("has waited" in line for line in second), second


def averaged_alone(patience, others):
    """Rank 0 alone: its first line, the error, and how long that took after the line."""
    model, rank = net(), os.environ["RANK"]
    inner = torch.optim.SGD(model.parameters(), lr=1e-3)
    mix = weft.Mix(model, inner, method="diloco", between="ranks")
    _sync.SAY_AFTER_S, _library.PATIENCE_S = 1.0, patience
    if rank == "1":
        return others.acquire(timeout=60)
    said = Lines(patience > 10)
    try:
        with pytest.raises(KeyboardInterrupt if patience > 10 else weft.Error) as caught, mix.averaged():
            pass
        return said.lines[0], str(caught.value), time.monotonic() - said.at
    finally:
        others.release()


@pytest.mark.parametrize("patience", [3.0, 60.0], ids=["patience", "Ctrl-C"])
def test_an_average_on_one_rank_alone_says_so(patience):
    """The other one lives, and does something else."""
    (line, error, seconds), came = said_by(started(averaged_alone, range(2), 2, (patience, fork.Semaphore(0)))[1])
    assert came and line.startswith("averaged() or average() waits 1 s for rank 1 (host ")
    assert line.endswith("called on rank 0 alone? call it on all ranks, at the same step")
    if patience > 10:
        assert seconds < AT_ONCE_S
    else:
        assert "averaged() or average() waits 3 s for rank 1" in error


def averaged_late(others):
    """Rank 1 comes after twice the patience of rank 0, in which numbers come and go."""
    model, first = net(), os.environ["RANK"] == "0"
    inner = torch.optim.SGD(model.parameters(), lr=1e-3)
    mix = weft.Mix(model, inner, method="diloco", between="ranks")
    said = Lines(False)
    if first:
        _sync.SAY_AFTER_S, _library.PATIENCE_S = 0.5, 1.0
        mix.weft.mesh.awaits = lambda: ("nobody", 0.0)
        threading.Timer(2.5, others.release).start()
    else:
        assert others.acquire(timeout=60)
    with mix.averaged():
        return said.lines


def test_an_average_over_slow_links_is_waited_for():
    first, second = said_by(started(averaged_late, range(2), 2, (fork.Semaphore(0),))[1])
    assert first == ["parameters are being averaged for 0.5 s"] and not second


def test_who_is_an_exchange_ahead_is_not_hung_up_on(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    first = _store.by_environment(0, 2)
    ahead = _store.by_environment(1, 2)
    del first  # as rank 0 does once its first exchange has begun
    _store.by_environment(0, 2).set("weft/1", "here")
    assert ahead.get("weft/1") == b"here"


def test_a_port_that_another_program_has_is_one_sentence(monkeypatch):
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(port))
        with pytest.raises(weft.Error, match=f"no store at MASTER_ADDR 127.0.0.1, MASTER_PORT {port}, where .* in use"):
            _store.by_environment(0, 2)
