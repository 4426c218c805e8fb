# SPDX-License-Identifier: MIT
"""No key is taken and not applied: over all keys of weft's and all methods each is refused, or changes
parameters or bytes."""

import contextlib
import functools

import pytest
import torch
from models import batch
from ranks import run

import weft_sync.torch as weft
from weft_sync._library import config_keys

METHODS = ("ddp", "hsdp", "flexdemo", "topk", "signsgd", "powersgd", "random", "striding", "slicing",
           "deto-adamw", "dadam", "accumadam", "diloco", "streaming-diloco", "muloco", "noloco",
           "sparseloco")
#: a value that differs from every method's own, for keys that are no numbers
WORDS = {"exchange": "all_gather", "values": "int8", "indices": "raw", "rounding": "stochastic",
         "topology": "complete", "order": "atc", "momentum_style": "mean", "adjust": "original",
         "groups": "body* optimizer=sgd",
         "dense_below": 100000}
#: they leave no trace in parameters and bytes: where their effect is shown
NO_TRACE = {
    "mesh.kernels": "contract/kernels", "mesh.threads": "dist/threads", "mesh.timeout": "test_life.py",
    "mesh.on_loss": "test_lost.py", "mesh.join_steps": "refused unless it is 0 or -1",
    "mesh.link": "chooses an exchange", "mesh.overlap": "the same bits: dist/meshes",
    "mixer.deadline": "dist/gossip: when neighbours are late", "mixer.gamma_power": "of a later step",
    "optimizer.whole_every": "with optimizer.rows", "mixer.gamma_start": "with gamma_power", "mixer.consensus_bound": "of copies that are far apart",
    "replicator.momentum_style": "a factor, which signs do not see: test_methods.py",
    "model.heads": "what model.width is a multiple of"}


@functools.cache
def sections():
    found = {}
    for name in config_keys():
        found.setdefault(name.partition(".")[0], []).append(name)
    return found


def other(name, own):
    """Values beside the method's own, the likely one first."""
    return [value for value in _others(name, own) if value != own]


def _others(name, own):
    last = name.rpartition(".")[2]
    if last in WORDS:
        return [WORDS[last]]
    if isinstance(own, bool):
        return [not own]
    if isinstance(own, int):
        return [own + 1, 2 * own, own // 2, 3]
    if isinstance(own, float):
        return [own / 2 if own else 0.25, 0.5, 0.75, 2.0]
    return []


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embed = torch.nn.Embedding(32, 64)
        self.body = torch.nn.Linear(64, 64)
        self.head = torch.nn.Linear(64, 32)

    def forward(self, x):
        return self.head(torch.tanh(self.body(self.embed(x))))


def trace(mesh, method, key=None, value=None):
    """Of nine steps; None: the key is refused."""
    model = Small()
    keys = {"mesh.on_loss": "end", "replicator.dense_below": 1, "run.steps": 24,
            "mesh.min_message": 1000}
    if method in ("diloco", "muloco", "noloco", "sparseloco", "streaming-diloco"):
        keys["mixer.outer_every"] = 4
    if method == "streaming-diloco":
        keys.update({"mixer.delay": 1, "mixer.fragments": 2})
    keys = {name: v for name, v in keys.items() if name != "replicator.dense_below"
            or method in ("flexdemo", "deto-adamw")}
    try:
        opt = weft.Optimizer(model, method=method, between="ranks", mesh=mesh,
                             keys={**keys, **({key: value} if key else {})})
    except weft.Error:
        if key is None:
            raise
        return None
    sent = 0
    for t in range(9):
        x, wanted = batch(mesh.rank, t)
        torch.nn.functional.cross_entropy(model(x).flatten(0, 1), wanted.flatten()).backward()
        sent += opt.step().wire_bytes
    opt.average()
    own = opt._config.number
    here = {name: own(name) for name, k in config_keys().items() if k.type < 4}
    opt.close()
    return [p.detach().clone() for p in model.parameters()], sent, here


def same(a, b):
    return a[1] == b[1] and all(torch.equal(p, q) for p, q in zip(a[0], b[0]))


def over_all(method):
    """(keys that count, keys that are taken and left no trace)"""
    mesh, counts, silent = weft.mesh(), [], []
    base = trace(mesh, method)
    for section in ("replicator", "mixer", "optimizer", "run", "model"):
        for name in sections()[section]:
            if name.endswith(".kind"):
                continue
            taken = []
            for value in other(name, base[2].get(name))[:2]:
                one = trace(mesh, method, name, value)
                if one is not None:
                    taken.append(same(one, base))
                if taken and not taken[-1]:
                    break
            if taken:
                (silent if all(taken) else counts).append(name)
    return counts, silent


def test_each_key_counts_somewhere_or_is_refused():
    counts, silent = set(), {}
    for method in METHODS:
        (mine, quiet), theirs = run(over_all, 2, method)
        assert (mine, quiet) == theirs
        counts.update(mine)
        for name in quiet:
            silent.setdefault(name, []).append(method)
    never = {name: silent[name] for name in silent if name not in counts and name not in NO_TRACE}
    assert len(counts) > 35
    assert not never, never


def patient(on_loss):
    with pytest.raises(weft.Error) if on_loss == "end" else contextlib.nullcontext() as caught:
        weft.Optimizer(Small(), method="ddp", elastic_patience=50, mesh_on_loss=on_loss).close()
    return caught and str(caught.value)


def test_what_is_said_of_losses_is_refused_where_one_ends_the_run():
    assert run(patient, 2, "go_on") == [None, None]
    for said in run(patient, 2, "end"):
        assert "elastic.patience is set, but this run ends when a process is lost" in said
