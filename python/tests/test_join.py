# SPDX-License-Identifier: MIT
"""Processes that come into a run that trains, in the place of one that was killed; and nodes of
several processes, of which one is killed: its machine leaves, the others go on."""

import os
import signal
import time

import pytest
import torch
from models import flat, loss_of, net
from ranks import Rank, answers, fork, free_port
from test_lost import Said, rank_of

import weft_sync.torch as weft
from weft_sync import _sync

TOGETHER, AT = 5, 4


def trained(method, inside, keys, comes, wanted, dies):
    """Rank 1 is killed in step AT; all end TOGETHER steps after another has come for it."""
    model, said = net(rank_of() + 10 * comes), Said()
    model.register_buffer("scale", torch.full((2,), 1.0 + comes))
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3) if inside else None
    opt = weft.Optimizer(model, inner, method=method, between="ranks",
                         lr=None if inside else 1e-3, **keys)
    schedule = torch.optim.lr_scheduler.StepLR(inner or opt, 3, 0.9)
    opt.carry(schedule)
    where = [p.data_ptr() for p in model.parameters()]
    first, lost, together = opt.steps, comes, 0
    while together < TOGETHER:
        t = opt.steps
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        if rank_of() == 1 and t == AT and dies and not comes:
            os.kill(os.getpid(), signal.SIGKILL)
        report = opt.step(loss)
        opt.zero_grad()
        schedule.step()
        lost = lost or report.processes < wanted
        together += lost and report.processes == wanted
    with opt.averaged():
        mean = flat(model)
    assert model.scale.tolist() == [1, 1]  # the others'
    assert where == [p.data_ptr() for p in model.parameters()]
    state = [] if inner is None else [s["exp_avg"].clone().cpu() for s in inner.state.values()]
    return first, opt.steps, mean, flat(model), schedule.get_last_lr(), state, said.sentences


def returning(*what, size=3, function=trained):
    """What the processes say, the last of them the one that has come."""
    port, endpoint = free_port(), free_port()
    env = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    all = [Rank(function, r, {**env, "RANK": str(r), **({"WEFT_PORT": str(endpoint)} if r == 0 else {})},
                (*what, False, size, True), {}) for r in range(size)]
    fine, _ = all[1].finish(120)
    assert not fine
    late = Rank(function, 1, {"RANK": "1",  # the first that answers is enough
                              "WEFT_JOIN": f"127.0.0.1:1,127.0.0.1:{endpoint}"},
                (*what, True, size, False), {})
    found = answers([all[0], *all[2:], late])
    assert all_fine(found), found
    return [told for _, told in found]


def all_fine(found):
    return [fine for fine, _ in found] == [True] * len(found)


METHODS = [("ddp", False, {}), ("flexdemo", False, {}), ("ddp", True, {}), ("flexdemo", True, {}),
           ("dadam", False, {}), ("diloco", True, {"mixer_outer_every": 3})]


@pytest.mark.parametrize("method,inside,keys", METHODS)
def test_a_killed_process_comes_back_into_the_running_loop(method, inside, keys):
    (_, end, mean, own, rate, state, said), *_, came = returning(method, inside, keys)
    assert came[0] > AT and came[1] == end == came[0] + TOGETHER
    assert torch.equal(mean, came[2]) and rate == came[4]
    if method in ("ddp", "flexdemo"):  # equal directions: equal parameters, and moments of torch's
        assert torch.equal(own, came[3])
        assert all(torch.equal(a, b) for a, b in zip(state, came[5], strict=True))
    assert said[0].startswith("lost rank 1") and "joined by rank" in said[-1]


def asleep(comes):
    """The newcomer is stopped while it joins, until the others have hung up."""
    if comes:
        begin = _sync.Sync.begin

        def begin_later(sync):
            _sync.Sync.begin = begin
            os.kill(os.getpid(), signal.SIGSTOP)
            begin(sync)
        _sync.Sync.begin = begin_later
    model, together = net(rank_of()), 0
    opt = weft.Optimizer(model, method="flexdemo", lr=1e-3, between="ranks", returns=10)
    while together < TOGETHER:
        loss_of(model, rank_of(), opt.steps).backward()
        together += opt.step().processes == 3
        opt.zero_grad()
    return opt.steps, flat(model)


def test_who_stands_still_on_its_way_in_tries_again():
    endpoint, port = free_port(), free_port()
    env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    first = [Rank(asleep, r, {**env, "RANK": str(r), **({"WEFT_PORT": str(endpoint)} if r == 0 else {})}, (False,), {})
             for r in range(2)]
    late = Rank(asleep, 2, {"RANK": "1", "WEFT_JOIN": f"127.0.0.1:{endpoint}"}, (True,), {})
    os.waitid(os.P_PID, late.process.pid, os.WSTOPPED | os.WNOWAIT)
    time.sleep(6)  # a second beyond their patience with a process that joins
    os.kill(late.process.pid, signal.SIGCONT)
    came, told = late.finish(60)
    if not came:
        for rank in first:
            rank.process.kill()
    assert came, told
    found = [(came, told), *answers(first)]
    assert all_fine(found), found
    assert all(steps == found[0][1][0] and torch.equal(own, found[0][1][1]) for _, (steps, own) in found)


def failing(connected, failed, comes):
    """Rank 1 fails when another one is connected, and not yet a member."""
    if comes:
        weft.mesh()
        connected.set()
        assert failed.wait(30)
    model, together = net(rank_of()), 0
    opt = weft.Optimizer(model, method="flexdemo", lr=1e-3, between="ranks")
    while together < TOGETHER:
        loss_of(model, rank_of(), opt.steps).backward()
        if rank_of() == 1 and not comes and connected.is_set():
            opt.mesh.fail("it can not go on")
            return None
        together += opt.step().processes == 2 and (comes or failed.is_set())
        opt.zero_grad()
    return opt.steps, flat(model)


def test_a_member_that_fails_does_not_end_who_is_on_its_way_in():
    endpoint, port, events = free_port(), free_port(), (fork.Event(), fork.Event())
    env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    first = [Rank(failing, r, {**env, "RANK": str(r), **({"WEFT_PORT": str(endpoint)} if r == 0 else {})}, (*events, False), {})
             for r in range(2)]
    late = Rank(failing, 2, {"RANK": "2", "WEFT_JOIN": f"127.0.0.1:{endpoint}"}, (*events, True), {})
    first[1].finish(60)
    events[1].set()
    came, told = late.finish(60)
    if not came:
        first[0].process.kill()
    assert came, told
    fine, (steps, own) = first[0].finish(60)
    assert fine and steps == told[0] and torch.equal(own, told[1])


def marked(comes):
    """All but rank 0 are killed and come again; all end after a step in which weights are compared."""
    model, compared = net(rank_of()), 0
    opt = weft.Optimizer(model, method="flexdemo", lr=1e-3, between="ranks")
    while compared < 2:
        t = opt.steps
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        if rank_of() > 0 and t == AT and not comes:
            os.kill(os.getpid(), signal.SIGKILL)
        report = opt.step(loss)
        opt.zero_grad()
        compared += t > AT and report.processes == 3 and (compared > 0 or t % 128 == 0 or t & (t - 1) == 0)
    return flat(model)


def test_who_was_there_first_is_not_taken_for_another_by_those_who_came():
    endpoint, port = free_port(), free_port()
    env = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    first = [Rank(marked, r, {**env, "RANK": str(r), **({"WEFT_PORT": str(endpoint)} if r == 0 else {})}, (False,), {})
             for r in range(3)]
    for rank in first[1:]:
        rank.finish(60)
    late = [Rank(marked, r, {"RANK": "1", "WEFT_JOIN": f"127.0.0.1:{endpoint}"}, (True,), {}) for r in (1, 2)]
    found = answers([first[0], *late])
    assert all_fine(found), found
    assert all(torch.equal(told, found[0][1]) for _, told in found)


def counting(buffers, comes, wanted, dies):
    """A net with statistics: theirs after each forward; of who comes as they were then."""
    torch.manual_seed(comes)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))
    model.register_buffer("shift", torch.full((3,), float(comes)), persistent=False)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mix = weft.Mix(model, inner, method="diloco", mixer_outer_every=2, between="ranks", buffers=buffers)

    def statistics():
        return [b.tolist() for b in model[1].buffers()]
    found, lost, together, first = [], comes, 0, statistics()
    while together < TOGETHER:
        model(torch.randn(8, 6, generator=torch.Generator().manual_seed(mix.steps))).square().mean().backward()
        found.append(statistics())
        if rank_of() == 1 and mix.steps == AT and dies and not comes:
            os.kill(os.getpid(), signal.SIGKILL)
        inner.step()
        inner.zero_grad()
        lost = lost or mix.report.processes < wanted
        together += lost and mix.report.processes == wanted
    return (first if comes else found), model.shift.tolist()


@pytest.mark.parametrize("buffers", [None, "own"])
def test_who_comes_has_the_statistics_of_the_others(buffers):
    (theirs, _), _, (came, shift) = returning(buffers, function=counting)
    assert came[2] == 0 if buffers == "own" else came in theirs and came[2] > AT
    assert shift == [1.0] * 3  # which is made, and not trained


def forgetful(comes, wanted, dies):
    """The others carry a schedule, and who comes does not say so."""
    model = net(0)
    opt = weft.Optimizer(model, method="ddp", between="ranks", lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 3, 0.9)
    if not comes:
        opt.carry(schedule)
    lost = False
    while True:
        loss = loss_of(model, rank_of(), opt.steps)
        if comes:
            with pytest.raises(weft.Error, match="call optimizer.carry"):
                loss.backward()
            return "told"
        loss.backward()
        if rank_of() == 1 and opt.steps == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        n = opt.step(loss).processes
        schedule.step()
        if lost and n == wanted:
            lost = None
        if lost is None and n < wanted:
            return n  # it has come, and ended
        lost = lost if lost is None else lost or n < wanted


def test_who_comes_without_the_schedule_is_told_and_the_others_go_on():
    assert returning(function=forgetful, size=2) == [1, "told"]


def test_no_second_exchange_in_a_process_that_comes(monkeypatch):
    monkeypatch.setenv("WEFT_JOIN", "nowhere")
    with pytest.raises(weft.Error, match="WEFT_JOIN is 'nowhere', expected HOST:PORT"):
        weft._world.founded(0)
    with pytest.raises(weft.Error, match="has one exchange"):
        weft._world.founded(1)


def test_addresses_of_those_who_are_joined(monkeypatch):
    for said, host, port in (("a:29", "a", 29), ("[fd00::2]:7", "fd00::2", 7),
                             ("a:1,[fd00::2]:7,b:29", "a:1,[fd00::2]:7,b", 29)):
        monkeypatch.setenv("WEFT_JOIN", said)
        assert weft._world._address("WEFT_JOIN") == (host, port)


# --- two machines of two processes, each with a torch.distributed of its own ---


def spread(kind, steps):
    """Process 1 of machine 1 is killed in step AT. The place, processes of each step, parameters."""
    from models import start_gloo
    from test_fsdp import sharded
    local, node = start_gloo(), int(os.environ["WEFT_NODE"])
    model = net(node)
    if kind == "fsdp":
        mesh = weft.device_mesh("cpu", 2)
        called = sharded(model, mesh["shard"])
    else:
        called = torch.nn.parallel.DistributedDataParallel(model, process_group=weft.node_group(2))
    opt = weft.Optimizer(called, method="flexdemo", lr=1e-3)
    counts = []
    for t in range(steps):
        loss = loss_of(called, 2 * node + local, t)
        if (node, local, t) == (1, 1, AT):
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        counts.append(opt.step(loss).processes)
    params = [p.full_tensor() if kind == "fsdp" else p for p in model.parameters()]
    return counts, torch.cat([p.detach().reshape(-1) for p in params])


@pytest.mark.parametrize("kind,each", [("fsdp", 2), ("ddp", 1)])
def test_a_machine_of_two_processes_leaves_and_the_other_goes_on(kind, each):
    master, ports = free_port(), [free_port(), free_port()]
    started = [Rank(spread, r, {"RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2",
                                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[node]),
                                "WEFT_NODES": "2", "WEFT_NODE": str(node),
                                "WEFT_MASTER": f"127.0.0.1:{master}"}, (kind, 12), {})
               for node in range(2) for r in range(2)]
    found = answers(started)
    assert [fine for fine, _ in found] == [True, True, False, False], found
    (counts, a), (_, b) = found[0][1], found[1][1]
    assert counts[0] == 2 * each and counts[-1] == each and torch.equal(a, b)


def test_wrong_numbers_of_machines_are_told(monkeypatch):
    monkeypatch.setenv("WEFT_NODES", "2")
    with pytest.raises(weft.Error, match="WEFT_NODE is not set"):
        weft._world.founded(0)
    monkeypatch.setenv("WEFT_NODE", "2")
    with pytest.raises(weft.Error, match="WEFT_NODE is 2, expected 0 to 1"):
        weft._world.founded(0)
