# SPDX-License-Identifier: MIT
"""method="auto": the wire decides, all processes take the same, and what it decides is not said."""

import pytest
import torch
from ranks import run

import weft_sync.torch as weft
from weft_sync import _decide


def model_of(width=64):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh(),
                               torch.nn.Linear(width, 1))


def taken(link, step_s=0.05, nodes=2):
    model = model_of(256)
    made = weft.plan(model, step_seconds=step_s, cluster={"nodes": nodes, "link": link})
    n = sum(p.numel() for p in model.parameters())
    return _decide.choose(made, _decide.candidates(n, nodes))


def test_the_wire_decides_and_the_optimizer_stays():
    fast, slow = taken("25Gbit,10us"), taken("1Mbit,5ms")
    assert fast.same and fast.method == "hsdp"
    assert slow.method != "hsdp" and slow.nodes == 2
    assert taken("1Mbit,5ms") == slow
    names = {way.name for way in _decide.candidates(66000, 2)}
    assert {"full sync", "diloco H=50", "dadam aer", "choco aer int8"} <= names
    assert not any("muon" in name or "muloco" in name or "demo" in name for name in names)


def test_what_can_follow_the_wire_is_taken_where_it_is_level():
    made = weft.plan(model_of(256), step_seconds=0.05, cluster={"nodes": 2, "link": "1Mbit,5ms"}, steps=1000)
    by = {a.way.name: a for a in made if a.nodes == 2}
    ways = [way for way in _decide.candidates(66000, 2, 1000) if way.name in ("diloco H=50", "streaming-diloco")]
    plain, streaming = by["diloco H=50"], by["streaming-diloco"]
    assert _decide.moves(plain) and _decide.moves(by["full sync"]) and not _decide.moves(streaming)
    assert not _decide.moves(by["choco aer int8"])
    level = [a._replace(faster=3 * (1.02 if a is streaming else 1), error=0.1) for a in (plain, streaming)]
    ahead = [a._replace(faster=3 * (1.5 if a is streaming else 1), error=0.1) for a in (plain, streaming)]
    one = plain._replace(nodes=1, faster=1.0)
    assert _decide.choose([one, *level], ways).method == "diloco"
    assert _decide.choose([one, *level], ways, False).method == "streaming-diloco"  # where nothing changes anyway
    assert _decide.choose([one, *ahead], ways).method == "streaming-diloco"


@pytest.mark.parametrize("named,kind,may", [({}, "AdamW", True), ({"uneven": True}, "AdamW", False),
                                            ({"skips": True}, "AdamW", False), ({}, "Rprop", False)])
def test_it_is_said_whether_what_crosses_the_wire_may_change(named, kind, may, monkeypatch):
    heard, model = [], model_of()
    monkeypatch.setattr(_decide, "decide", lambda *given: heard.append(given[-1]) or _decide.Decision("hsdp", {}, ""))
    weft.Optimizer(model, getattr(torch.optim, kind)(model.parameters(), lr=0.1), method="auto", step=0.1, **named).close()
    assert heard == [may]


def test_one_process_alone_is_an_answer():
    assert taken("1kbit,500ms", step_s=0.0001) is None


def train(**keys):
    model = model_of()
    x = torch.randn(8, 64)
    took = weft.measure_step(model, lambda m, b: m(b).square().mean(), [x], rounds=2)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    _decide.SECONDS = 1.0
    optimizer = weft.Optimizer(model, inner, method="auto", step=max(took.at(8), 0.2),
                               between="ranks", mesh_on_loss="end", **keys)
    for _ in range(4):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step(loss)
        optimizer.zero_grad()
    optimizer.close()
    return optimizer.decision._asdict()


def test_all_processes_take_the_same():
    first, second = run(train, 2)
    assert first == second
    assert first["sentence"].startswith("method=auto takes ")
    assert "in 200 to 5,000 (run_steps= says yours) steps" in first["sentence"]


def train_long(named):
    return train(**named)


def test_the_length_of_the_run_counts(tmp_path):
    (tmp_path / "run.yaml").write_text("run: {steps: 3000}\n")
    assert "in 3000 steps" in run(train_long, 2, {"config": str(tmp_path / "run.yaml")})[0]["sentence"]
    assert "in 4000 steps" in run(train_long, 2, {"run_steps": 4000, "config": str(tmp_path / "run.yaml")})[0]["sentence"]
    short, long = ({way.name: way.steps for way in _decide.candidates(66000, 2, steps)} for steps in (200, 5000))
    assert long["diloco H=50"] < short["diloco H=50"]


def test_one_process_exchanges_nothing():
    model = model_of()
    optimizer = weft.Optimizer(model, method="auto", step=0.1, lr=1e-3)
    assert optimizer.decision.method == "hsdp"
    optimizer.close()


def test_what_is_decided_is_not_said(tmp_path):
    model = model_of()
    (tmp_path / "run.yaml").write_text("decide: {loss: 0.02}\n")
    with pytest.raises(weft.Error, match="run.yaml sets decide.loss, .* expected decide_loss=0.02"):
        weft.Optimizer(model, method="auto", step=0.1, config=tmp_path / "run.yaml")
    with pytest.raises(weft.Error, match="^method='auto' may exchange gradients in each step, and Mix has none"):
        weft.Mix(model, torch.optim.SGD(model.parameters(), lr=0.1), method="auto", step=0.1)
    for named, words in (({"step": 0.1, "mixer_kind": "gossip"}, "mixer.kind is set, but method auto"),
                         ({}, "has to know how long a step computes")):
        with pytest.raises(weft.Error, match=words):
            weft.Optimizer(model, method="auto", **named)
    with pytest.raises(weft.Error, match="decide.loss is set, but method hsdp does not read it, expected auto"):
        weft.Optimizer(model, method="hsdp", decide_loss=0.02)
    with pytest.raises(weft.Error, match="step is said, but method is 'hsdp'"):
        weft.Optimizer(model, method="hsdp", step=0.1)
