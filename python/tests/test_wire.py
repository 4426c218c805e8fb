# SPDX-License-Identifier: MIT
"""A wire that really changes: two processes in network namespaces (bench/netlab), whose links become a thousandth while they
train, or are so slow from the first step on. Computing is emulated by sleeping. Needs to be root. The way back pays in few runs
of two processes: tests/cli has it."""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

import pytest
import torch
from models import DEVICE

import weft_sync.torch as weft
from weft_sync import _decide

HERE = pathlib.Path(__file__).resolve().parent
NETLAB = str(HERE.parents[1] / "bench" / "netlab" / "netlab")
N, WAIT_S = 2, 240
FAST = "nodes: 2\nranks_per_node: 1\nrank_flops: 1e9\nwire: {bandwidth: 10Gbit, latency: 50us}\n"


def train(folder, *measured):
    """Says each form, until a file is there."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(400, 400), torch.nn.Tanh(), torch.nn.Linear(400, 1))
    named = {"method": "auto", "step": 0.05} if measured else {}
    if measured:
        _decide.decide = lambda *_: _decide.Decision("hsdp", {}, "", FAST)
    optimizer = weft.Optimizer(model, torch.optim.AdamW(model.parameters(), lr=1e-3), run_steps=2000, **named)
    rank, told = optimizer.place()[0], 0
    while not (folder / "stop").exists():
        loss = model(torch.randn(8, 400)).square().mean()
        time.sleep(0.05)
        loss.backward()
        optimizer.step(loss)
        optimizer.zero_grad()
        for form in optimizer.forms[told:]:
            with open(folder / f"forms{rank}", "a", encoding="utf-8") as file:
                file.write(f"{form.step} {form.method}\n")
        told = len(optimizer.forms)
        (folder / f"step{rank}").write_text(f"{optimizer.steps}\n")


def carries(lab, rate, burst):
    for i in range(N):
        for name, link in ((f"{lab}{i}", "eth0"), (f"{lab}-switch", f"port{i}")):
            subprocess.run(["tc", "-n", name, "qdisc", "change", "dev", link, "root", "tbf", "rate", rate, "burst", burst,
                            "latency", "50ms"], check=True)


def until(what, processes):
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end and all(p.poll() is None for p in processes), "it does not come to that"
        time.sleep(0.2)


def forms(folder, rank):
    path = folder / f"forms{rank}"
    return [tuple(line.split(" ", 1)) for line in path.read_text().splitlines()] if path.exists() else []


@contextlib.contextmanager
def started(folder, rate, *words):
    lab = f"w{os.getpid()}x"
    environment = {**os.environ, "NETLAB": lab, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(N), "MASTER_ADDR": "10.77.0.1",
                   "MASTER_PORT": "29500", "WEFT_ENCRYPT": "off", "PYTHONPATH": os.pathsep.join((str(HERE.parent), str(HERE)))}
    up = subprocess.run([NETLAB, "up", str(N), "--rate", rate], env=environment, capture_output=True, text=True)
    if up.returncode != 0:
        pytest.skip(up.stderr.splitlines()[0] if up.stderr else "no test network")
    processes = []
    try:
        for r in range(N):
            processes.append(subprocess.Popen([NETLAB, "on", f"{lab}{r}", sys.executable, __file__, str(folder), *words],
                                              env={**environment, "RANK": str(r)}))
        yield lab, processes
        (folder / "stop").write_text("")
    finally:
        for p in processes:
            p.kill()
            p.wait()
        subprocess.run([NETLAB, "down"], env=environment, capture_output=True)


def all_change(folder, processes):
    """To outer steps, before one step."""
    until(lambda: any(form.startswith("diloco") for _, form in forms(folder, 0)), processes)
    n = len(forms(folder, 0))
    until(lambda: len(forms(folder, 1)) >= n, processes)
    assert n >= 2 and forms(folder, 0)[:n] == forms(folder, 1)[:n]


@pytest.mark.skipif(DEVICE != "cpu", reason="where it lies is no matter")
def test_outer_steps_begin_when_the_wire_becomes_slow(tmp_path):
    with started(tmp_path, "10gbit", "measured") as (lab, processes):
        until(lambda: (tmp_path / "step0").exists() and int((tmp_path / "step0").read_text() or 0) > 40, processes)
        assert forms(tmp_path, 0)[0] == ("1", "full sync")  # a busy machine may have left it already
        carries(lab, "10mbit", "2000")
        all_change(tmp_path, processes)


@pytest.mark.skipif(DEVICE != "cpu", reason="where it lies is no matter")
def test_the_first_steps_measure_a_wire_that_nobody_has_measured(tmp_path):
    with started(tmp_path, "10mbit") as (_, processes):
        all_change(tmp_path, processes)
        said = forms(tmp_path, 0)
        assert said[0] == ("1", "full sync") and 6 <= int(said[1][0]) <= 10


@pytest.mark.skipif(DEVICE != "cpu", reason="where it lies is no matter")
def test_the_first_step_is_the_only_full_one_where_more_would_take_long(tmp_path):
    with started(tmp_path, "1mbit") as (_, processes):
        all_change(tmp_path, processes)
        assert forms(tmp_path, 0)[1][0] == "2"


if __name__ == "__main__":
    train(pathlib.Path(sys.argv[1]), *sys.argv[2:])
