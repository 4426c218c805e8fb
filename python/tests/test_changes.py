# SPDX-License-Identifier: MIT
"""Processes are lost and come where states lie beside parameters on a device: bits are those of the host."""

import os
import signal
import time

import pytest
import torch
from models import MixThere, OptimizerThere, loss_of, net
from ranks import answers, start
from test_device_mix import bits
from test_join import returning
from test_lost import rank_of

import weft_sync.torch as weft

EVERY, AT = 6, 2  # an outer step, and the step of a process's end
MIXED = [{"method": "diloco", "mixer_values": "int8"}, {"method": "diloco"}, {"method": "sparseloco"}]


def kept(opt):
    """Arrays by name: how many numbers are not 0, and a hash of all."""
    state = opt.state_dict()["state"]
    arrays = {name: torch.cat([part[name].reshape(-1) for part in state.values()]) for name in state[0]}
    return {name: (int(x.count_nonzero()), bits(x)) for name, x in arrays.items()}


def losing(there, keys):
    """Rank 1 is killed in step AT; the others have noticed before the next outer step."""
    model = net(rank_of())
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mix = (MixThere(model, inner, between="ranks", mixer_outer_every=EVERY, **keys) if there else
           weft.Mix(model, inner, between="ranks", mixer_outer_every=EVERY, state_device="cpu", **keys))
    assert mix.weft.goes_on and (mix.weft._held is not None) == there
    for t in range(3 * EVERY):
        loss_of(model, rank_of(), t).backward()
        if t == AT and rank_of() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if AT <= t < EVERY - 1:
            time.sleep(0.5)
        inner.step()
        inner.zero_grad()
        assert t < EVERY - 2 or mix.report.processes == 2
    assert (mix.weft._held is not None) == there
    return kept(mix.weft)


@pytest.mark.parametrize("keys", MIXED, ids=["int8", "f32", "sparse"])
def test_what_a_mixer_remembers_goes_through_a_loss(keys):
    here, there = (answers(start(losing, 3, kind, keys)) for kind in (False, True))
    for (fine, a), (_, b) in zip(here[::2], there[::2]):
        assert fine and len(a) > 2, a
        assert a == b


def coming(kind, inside, keys, comes, wanted, dies):
    """All have the same rows, so the same states; rank 1 is killed, and another one comes."""
    model = net(10 * comes)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3) if inside else None
    opt = (MixThere if kind == "mix" else OptimizerThere)(model, *([inner] if inside else []), between="ranks", **keys)
    weft_, lost, together, first = getattr(opt, "weft", opt), comes, 0, None
    first = kept(weft_) if comes else None
    while together < 3 or opt.steps % EVERY:
        loss = loss_of(model, 0, opt.steps)
        loss.backward()
        if rank_of() == 1 and opt.steps == AT and dies and not comes:
            os.kill(os.getpid(), signal.SIGKILL)
        inner.step() if kind == "mix" else opt.step(loss)
        (inner or opt).zero_grad()
        lost = lost or opt.report.processes < wanted
        together += lost and opt.report.processes == wanted
    return kept(weft_), weft_._held is not None, first


CAME = [("mix", True, {"method": "diloco", "mixer_outer_every": EVERY}, "mixer.velocity"),
        ("mix", True, {"method": "sparseloco", "mixer_outer_every": EVERY}, "mixer.error"),
        ("optimizer", False, {"method": "flexdemo", "lr": 1e-3, "replicator_sign": False}, "replicator.momentum"),
        ("optimizer", False, {"method": "ddp", "lr": 1e-3}, "optimizer.v"),
        ("mix", True, {"method": "diloco", "mixer_outer_every": EVERY, "mixer_fragments": 2, "mixer_delay": 1}, None)]


@pytest.mark.parametrize("kind,inside,keys,array", CAME, ids=[str(c[3]) for c in CAME])
def test_who_comes_has_what_the_others_remember(kind, inside, keys, array):
    (a, held, _), (b, _, _), (came, holds, first) = returning(kind, inside, keys, function=coming)
    assert held == holds == (kind == "mix" and array is not None)
    if array is not None:
        assert first[array][0] > 0 and a == b
        # what a process has left out of its own steps differs by the step in which it came
        assert all(came[name] == a[name] for name in a if name != "mixer.error")
