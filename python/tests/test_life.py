# SPDX-License-Identifier: MIT
"""Saving and resuming, skipping, number types, signals and deaths."""

import os
import signal
import sys
import threading

import pytest
import torch
from models import DEVICE, flat, loss_of, net
from ranks import Rank, answers, fork, free_port, run, start

import weft_sync.torch as weft
from weft_sync import _library


def rank_of():
    return int(os.environ["RANK"])


def make(method, inside, **keys):
    model = net(rank_of())
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3) if inside else None
    opt = weft.Optimizer(model, inner, method=method, between="ranks",
                         lr=None if inside else 1e-3, **keys)
    return model, opt, torch.optim.lr_scheduler.StepLR(opt, 2, 0.7)


def train(model, opt, sched, first, end):
    for t in range(first, end):
        loss = loss_of(model, rank_of(), t)
        loss.backward()
        opt.step(loss)
        opt.zero_grad()
        sched.step()


def resumed(method, inside, stop, keys, folder):
    model, opt, sched = make(method, inside, **keys)
    path = os.path.join(folder, f"{rank_of()}.pt")
    if stop:
        train(model, opt, sched, 0, stop)
        torch.save({"opt": opt.state_dict(), "sched": sched.state_dict(),
                    "model": model.state_dict()}, path)
        opt.close()
        model, opt, sched = make(method, inside, **keys)
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        opt.load_state_dict(saved["opt"])
        sched.load_state_dict(saved["sched"])
    train(model, opt, sched, stop, 9)
    with pytest.raises(weft.Error, match="before the first step"):
        opt.load_state_dict(opt.state_dict())
    return flat(model), opt.report


METHODS = [("flexdemo", False, {}), ("ddp", True, {}), ("dadam", False, {"mixer_topology": "ring"}),
           ("diloco", True, {"mixer_outer_every": 3}), ("deto-adamw", False, {}),
           ("noloco", True, {"mixer_outer_every": 3}),
           ("dadam", False, {"mixer_kind": "choco", "mixer_values": "sign",
                             "mixer_gamma": 0.3})]


@pytest.mark.parametrize("method,inside,keys", METHODS)
def test_resumed_runs_have_the_same_bits(method, inside, keys, tmp_path):
    wanted = run(resumed, 3, method, inside, 0, keys, tmp_path)
    found = run(resumed, 3, method, inside, 5, keys, tmp_path)
    for (a, told), (b, retold) in zip(wanted, found):
        assert torch.equal(a, b)
        assert (told.step, told.lr) == (retold.step, retold.lr) == (9, told.lr)


def other_state(_folder):
    _, opt, sched = make("flexdemo", False)
    saved = opt.state_dict()
    opt.close()
    _, opt, sched = make("ddp", False)
    with pytest.raises(weft.Error, match="with arrays parameters, replicator.momentum; this"):
        opt.load_state_dict(saved)


def test_another_methods_state_is_refused(tmp_path):
    run(other_state, 1, tmp_path)


def scaled(dtype, scale, bad_step):
    """Plain steps, and ones scaled by a GradScaler of which rank 1 overflows once."""
    rank, model = rank_of(), net().to(dtype)
    opt = weft.Optimizer(model, method="ddp", lr=1e-3, skips=scale > 0)
    scaler = weft.GradScaler(DEVICE, init_scale=max(scale, 1.0), enabled=scale > 0,
                             growth_interval=1000)
    skipped, scales = [], []
    for t in range(5):
        again = True
        while again:
            loss = loss_of(model, rank, t)
            scaler.scale(loss).backward()
            if rank == 1 and t == bad_step and not skipped:
                next(model.parameters()).grad.view(-1)[3] = float("inf")
            scaler.step(opt)
            scaler.update()
            again = opt.report.skipped
            if again:
                skipped.append(t)
        scales.append(scaler.get_scale())
    return flat(model), skipped, scales


def test_scaler_skips_on_all_ranks():
    plain = run(scaled, 2, torch.float32, 0, -1)
    found = run(scaled, 2, torch.float32, 2.0**16, 3)
    for r in range(2):
        assert found[r][1] == [3] and found[r][2] == [2.0**16] * 3 + [2.0**15] * 2
        assert torch.equal(found[r][0], plain[r][0])


def test_scaler_skips_on_all_ranks_where_parameters_have_16_bits():
    half = run(scaled, 2, torch.float16, 2.0**10, 1)
    assert half[0][1] == [1] and torch.equal(half[0][0], half[1][0])


def in_bf16(inside):
    rank, model = rank_of(), net().to(torch.bfloat16)
    start = flat(model).float()
    # steps far smaller than bf16 resolves
    opt = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=1e-5) if inside else None,
                         method="flexdemo", lr=None if inside else 1e-5)
    for t in range(100):
        loss = loss_of(model, rank, t)
        loss.backward()
        opt.step(loss)
    masters = torch.cat([place.master.reshape(-1) for place in opt._places])
    assert torch.equal(flat(model), masters.bfloat16())
    return (masters - start).abs().max().item(), all(p.grad is None for p in model.parameters())


def test_bf16_parameters_have_f32_masters():
    for moved, none_left in run(in_bf16, 2, False):
        assert 2e-4 < moved < 2e-3 and none_left


# --- accepted errors ---


def wrong_use():
    model, opt, _ = make("ddp", False)
    loss_of(model, 0, 0).backward()
    with pytest.raises(weft.Error, match="say accumulate=2"):
        loss_of(model, 0, 0).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    with pytest.raises(weft.Error, match="changed after its exchange had begun"):
        opt.step()
    with pytest.raises(weft.Error, match="exchanged already"):
        opt.zero_grad()
    opt.close()
    with pytest.raises(weft.Error, match="mesh.key would come too late here"):
        weft.Optimizer(net(), mesh_key="run.key")
    with pytest.raises(weft.Error, match="no key 'replicator_valuse'"):
        weft.Optimizer(net(), replicator_valuse="int8")
    with pytest.raises(weft.Error, match="expected"):
        weft.Optimizer(net(), replicator_values="int9")


def test_misuse_is_one_sentence():
    run(wrong_use, 1)


def unlike():
    model = net() if rank_of() else torch.nn.Linear(3, 3)
    with pytest.raises(weft.Error, match="on rank 0 and .* on rank 1; all ranks must have the same"):
        weft.Optimizer(model)


def test_other_models_are_told_apart():
    run(unlike, 2)


def accumulated(by):
    rank, model = rank_of(), net()
    opt = weft.Optimizer(model, method="ddp", lr=1e-3, accumulate=3 if by == "argument" else 1)
    for t in range(3):
        for k in range(3):
            loss = loss_of(model, rank, 3 * t + k)
            if by == "argument" or k == 2:
                loss.backward()
            else:
                with opt.no_sync():
                    loss.backward()
        opt.step(loss)
    # tensors that torch forgot, and ones that no loss reaches
    model.zero_grad()
    model.head(model.embed(torch.tensor([rank]))).sum().backward()
    for _ in range(2 if by == "argument" else 0):
        model.head(model.embed(torch.tensor([rank]))).sum().backward()
    opt.step()
    return flat(model)


def test_accumulation_by_argument_is_no_sync():
    a, b = run(accumulated, 2, "argument"), run(accumulated, 2, "context")
    assert torch.equal(a[0], a[1]) and torch.equal(b[0], b[1])
    assert (a[0] - b[0]).abs().max() < 3e-3


# --- signals and deaths ---


def interrupt_when_blocked():
    """SIGINT to this process as soon as its main thread waits for the others in libweft."""
    main, pause = threading.main_thread().ident, threading.Event()
    frame = sys._current_frames()[main]
    while frame is not None or not pause.wait(0.02):
        if frame is None:
            frame = sys._current_frames()[main]
        elif frame.f_code is _library._Waiter.run.__code__:
            return os.kill(os.getpid(), signal.SIGINT)
        else:
            frame = frame.f_back


def interrupted(over):
    model, opt, sched = make("ddp", False)
    train(model, opt, sched, 0, 2)
    if rank_of() == 1:
        over.wait()  # the other one waits for it
        return "idle"
    with pytest.raises(KeyboardInterrupt):
        threading.Thread(target=interrupt_when_blocked, daemon=True).start()
        train(model, opt, sched, 2, 3)
    return "interrupted"


def test_ctrl_c_ends_a_blocked_step():
    over = fork.Event()
    ranks = start(interrupted, 2, over)
    ranks[0].pipe.poll(240)
    over.set()
    assert answers(ranks) == [(True, "interrupted"), (True, "idle")]


def killed(how, trained):
    model, opt, sched = make("flexdemo", False, keys={"mesh.timeout": 20, "mesh.on_loss": "end"})
    train(model, opt, sched, 0, 3)
    trained.wait(240)  # all have the messages of its last step, which its end would lose
    if rank_of() == 1 and how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank_of() == 1:
        raise ValueError("an error of the user's")
    words = "rank 1.*ValueError: an error of the user's" if how == "raise" else "rank 1"
    with pytest.raises(weft.PeerError, match=words):
        train(model, opt, sched, 3, 100)
    return "heard"


@pytest.mark.parametrize("how", ["kill", "raise"])
def test_others_hear_of_a_rank_that_is_gone(how):
    found = answers(start(killed, 3, how, fork.Barrier(3)))
    assert [fine for fine, _ in found] == [True, False, True], found
    assert found[0][1] == found[2][1] == "heard"


# --- under Slurm, whose environment is faked ---

def under_srun():
    model = net(int(os.environ["SLURM_PROCID"]))
    opt = weft.Optimizer(model, method="ddp", lr=1e-3)
    opt.step(loss_of(model, opt.mesh.rank, 0).detach())
    return opt.mesh.rank, opt.mesh.size, os.environ["LOCAL_RANK"], flat(model)


def test_srun_starts_processes_without_torchrun():
    env = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost",
           "SLURM_STEP_TASKS_PER_NODE": "2", "MASTER_PORT": str(free_port())}
    found = answers([Rank(under_srun, r, {**env, "SLURM_PROCID": str(r), "SLURM_LOCALID": str(r)},
                          (), {}) for r in range(2)])
    assert [fine for fine, _ in found] == [True, True], found
    (rank, size, local, a), (other, _, second, b) = found[0][1], found[1][1]
    assert (rank, other, size, local, second) == (0, 1, 2, "0", "1") and torch.equal(a, b)


@pytest.mark.parametrize("nodes,first", [("localhost", "localhost"), ("node[03-05,9],gpu1", "node03"),
                                         ("gpu[2,4]-ib,node1", "gpu2-ib"), ("r[1-2]n[7-9]", "r1n7"),
                                         ("", "")])
def test_the_first_of_slurms_nodes(nodes, first):
    assert weft._world._first_node(nodes) == first


def test_a_batch_script_of_slurm_is_no_task(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    assert weft._world.place() == (0, 1, None)
