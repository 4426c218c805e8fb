# SPDX-License-Identifier: MIT
"""A process that slept until the others had ended, and longer than their guards live, finds in the run's
folder that the run is over."""

import contextlib
import os
import pathlib
import signal

import pytest
from models import loss_of, net
from ranks import Rank, answers, fork, free_port, run
from test_lost import rank_of

import weft_sync.torch as weft

AT, MORE = 4, 3


def end_guards():
    """Of the processes that were started in this folder: they speak for those that have ended."""
    ended = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if (process / "comm").read_text() == "run-guard\n" and (process / "cwd").readlink() == pathlib.Path.cwd():
                os.kill(int(process.name), signal.SIGKILL)
                ended += 1
    return ended


def trained(folder, lost, goes_on):
    """Rank 2 stops at step AT; the others train on without it, and end."""
    model = net(rank_of())
    opt = weft.Optimizer(model, method="flexdemo", between="ranks", lr=1e-3, returns=3, folder=folder,
                         keys={"elastic.silence": 2, "elastic.pause": 500})
    alone = 0
    while alone < MORE:
        if rank_of() == 2 and opt.steps == AT:
            os.kill(os.getpid(), signal.SIGSTOP)
        loss_of(model, rank_of(), opt.steps).backward()
        if opt.step().processes < 3:
            lost.set()
            goes_on.wait(60)
            alone += 1
    return opt.steps


@contextlib.contextmanager
def waking(folder, ends):
    """The process that slept. `ends`: the others end by themselves, else they are killed."""
    lost, goes_on, port = fork.Event(), fork.Event(), free_port()
    ranks = [Rank(trained, r, {"RANK": str(r), "WORLD_SIZE": "3", "LOCAL_RANK": str(r), "MASTER_ADDR": "127.0.0.1",
                               "MASTER_PORT": str(port)}, (folder, lost, goes_on), {}) for r in range(3)]
    try:
        assert lost.wait(100)
        if ends:
            goes_on.set()
        else:
            for rank in ranks[:2]:
                rank.process.kill()
        others = answers(ranks[:2])
        assert [fine for fine, _ in others] == [ends] * 2, others
        assert end_guards() > 0
        os.kill(ranks[2].process.pid, signal.SIGCONT)
        yield ranks[2]
    finally:
        for rank in ranks:
            rank.process.kill()


def test_who_slept_past_the_end_reads_it_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with waking(tmp_path, ends=True) as rank:
        fine, said = rank.finish(60)
    assert not fine and "the run has ended without it, while it was not heard; its results are in " \
        f"{tmp_path}" in said, said
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["ended"]


def test_who_slept_while_the_others_were_killed_waits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with waking(tmp_path, ends=False) as rank:
        assert not rank.pipe.poll(8) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("what,error", [("nothing", "No such file or directory"), ("file", "Not a directory")])
def test_a_folder_that_is_none_is_refused(tmp_path, what, error):
    (tmp_path / "file").write_text("")
    with pytest.raises(weft.Error, match=f"could not write into .*: {error}"):
        weft.Optimizer(net(), method="flexdemo", lr=1e-3, folder=tmp_path / what)


def ending(folder, named):
    with pytest.raises(weft.Error, match="folder is .*, but this run ends when a process is lost"):
        weft.Optimizer(net(), method="ddp", lr=1e-3, folder=folder, **named)
    weft.Optimizer(net(), method="ddp", lr=1e-3, **named).close()


@pytest.mark.parametrize("named", [{"between": "ranks", "skips": True}, {"between": "ranks", "mesh_on_loss": "end"}])
def test_a_folder_where_a_loss_ends_the_run_is_refused(named, tmp_path):
    run(ending, 2, str(tmp_path), named)
    assert not list(tmp_path.iterdir())
