# SPDX-License-Identifier: MIT
"""Machines of two processes that share a copy of the model, FSDP2's or DDP's: one that stood still
as a whole comes back as a whole, and one that was never there comes in."""

import os
import signal

import pytest
import torch
from models import loss_of, net, start_gloo
from ranks import Rank, answers, fork, free_port
from test_lost import Said

import weft_sync.torch as weft

AT, TOGETHER, SHARES = 4, 4, 2
PATIENT = {"elastic_silence": 2}  # seconds: who is merely slow, on a busy machine, is not lost


def made(kind, inside, returns):
    """What is called, the optimizer, its schedule, which is carried, and the parameters."""
    from test_fsdp import sharded
    model = net(int(os.environ.get("WEFT_NODE", "5")))
    if kind == "fsdp":
        called = sharded(model, weft.device_mesh("cpu", SHARES)["shard"])
    else:
        called = torch.nn.parallel.DistributedDataParallel(
            model, process_group=weft.node_group(SHARES))
    inner = torch.optim.AdamW(called.parameters(), lr=1e-3) if inside else None
    opt = weft.Optimizer(called, inner, method="flexdemo", lr=None if inside else 1e-3,
                         returns=returns, **PATIENT)
    schedule = torch.optim.lr_scheduler.StepLR(inner or opt, 3, 0.9)
    opt.carry(schedule)
    return called, opt, schedule, list(model.parameters())


def all_of(values):
    return torch.cat([(v.full_tensor() if hasattr(v, "full_tensor") else v).detach().reshape(-1)
                      for v in values])


def moments(opt, kind, local):
    """torch's, of who steps: all shards of FSDP2, the first process of DDP's."""
    if opt.inner is None or (kind == "ddp" and local > 0):
        return torch.zeros(0)
    return all_of(s["exp_avg"] for s in opt.inner.state.values())


def loop(kind, inside, comes, lost_event):
    """Machine 1 is stopped in step AT, each process when it is there; or machine 2 comes in. All
    end TOGETHER steps after that."""
    said, local = Said(), start_gloo()
    called, opt, schedule, params = made(kind, inside, 10)
    node, stood, together, back = os.environ.get("WEFT_NODE"), False, 0, None
    at_first = opt.steps
    changed = comes  # then all there is to wait for is that it comes
    whole = (2 if comes else 3) * (SHARES if kind == "fsdp" else 1)  # DDP's first processes alone
    while together < TOGETHER:
        if node == "1" and opt.steps == AT and not stood and not comes:
            stood = True
            os.kill(os.getpid(), signal.SIGSTOP)
        loss = loss_of(called, local, opt.steps)
        loss.backward()
        report = opt.step(loss)
        opt.zero_grad()
        schedule.step()
        back = report if report.skipped else back
        if report.processes < whole or report.skipped:
            changed = True
            lost_event.set()
        together += changed and report.processes == whole and not report.skipped
    assert schedule.last_epoch == opt.steps == opt.report.step
    return (at_first, opt.steps, back, all_of(params), moments(opt, kind, local),
            schedule.get_last_lr(), said.sentences)


def machine(node, nodes, master, *what, **more):
    port = free_port()
    env = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": str(port), "WEFT_NODES": str(nodes), "WEFT_NODE": str(node),
           "WEFT_MASTER": f"127.0.0.1:{master}", **more}
    return [Rank(loop, r, {**env, "RANK": str(r), "LOCAL_RANK": str(r)}, what, {})
            for r in range(SHARES)]


@pytest.mark.parametrize("kind,inside", [("fsdp", False), ("fsdp", True), ("ddp", False),
                                         ("ddp", True)])
def test_a_machine_that_stood_still_comes_back_as_a_whole(kind, inside):
    lost, master = fork.Event(), free_port()
    nodes = 3  # of two machines none goes on while the other may live
    ranks = [rank for node in range(nodes)
             for rank in machine(node, nodes, master, kind, inside, False, lost)]
    lost.wait(100)
    for rank in ranks[2:4]:
        os.kill(rank.process.pid, signal.SIGCONT)
    found = answers(ranks)
    assert all(fine for fine, _ in found), found
    told = [what for _, what in found]
    _, end, none, params, _, rate, said = told[0]
    assert none is None and said[0].startswith("lost rank") and "joined by" in said[-1]
    for _, its_end, back, its_params, _, its_rate, _ in told[2:4]:
        assert its_end == end and its_rate == rate and torch.equal(its_params, params)
        assert back.step > AT
    assert torch.equal(told[0][4], told[2][4])  # moments of the same rows
    assert any("this process is back" in line for line in told[2][6])


@pytest.mark.parametrize("inside", [False, True])
def test_a_machine_of_two_shards_comes_into_the_run(inside):
    """Each process as the part of a copy that it has, whichever calls first."""
    lost, endpoint = fork.Event(), free_port()  # where the first process listens: WEFT_MASTER
    first = machine(0, 1, endpoint, "fsdp", inside, True, lost)
    late = machine(7, 9, 1, "fsdp", inside, True, lost, WEFT_JOIN=f"127.0.0.1:{endpoint}")
    found = answers(first + late)
    assert all(fine for fine, _ in found), found
    (_, end, _, params, there, rate, _), _, came, other = (told for _, told in found)
    for at_first, its_end, _, its_params, _, its_rate, _ in (came, other):
        assert its_end == end and its_rate == rate and torch.equal(its_params, params)
        assert at_first == end - TOGETHER
    assert torch.equal(there, came[4])
