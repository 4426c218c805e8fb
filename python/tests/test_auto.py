# SPDX-License-Identifier: MIT
"""method="auto": the wire decides, all processes take the same, and what it decides is not said."""

import json
import os
import signal
import subprocess

import pytest
import torch
from ranks import Rank, answers, free_port, run

import weft_sync.torch as weft
from weft_sync import _decide, _record
from weft_sync._sync import Sync


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
    optimizer = weft.Optimizer(model, inner, method="auto", step=max(took.at(8), 0.2),
                               between="ranks", mesh_on_loss="end", decide_time=1, **keys)
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
    assert "in 200 to 20,000 (run_steps= says yours) steps" in first["sentence"]


def train_long(named):
    return train(**named)


def test_the_length_of_the_run_counts(tmp_path):
    (tmp_path / "run.yaml").write_text("run: {steps: 3000}\n")
    assert "in 3000 steps" in run(train_long, 2, {"config": str(tmp_path / "run.yaml")})[0]["sentence"]
    assert "in 4000 steps" in run(train_long, 2, {"run_steps": 4000, "config": str(tmp_path / "run.yaml")})[0]["sentence"]
    short, long = ({way.name: way.steps for way in _decide.candidates(66000, 2, steps)} for steps in (200, 5000))
    assert long["diloco H=50"] < short["diloco H=50"]


def test_beside_a_torch_optimizer_no_method_is_auto():
    model = model_of()
    for inner in (None, torch.optim.SGD(model.parameters(), lr=0.1)):
        optimizer = weft.Optimizer(model, inner)
        assert (optimizer.decision is None) == (inner is None)
        optimizer.close()


def averaging(mixes, fails=False):
    """Parameters after steps in which nothing changes; around Mix gradients stay the loop's own."""
    _decide.follow = lambda *_: None
    model, rank = model_of(), int(os.environ["RANK"])
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mix = weft.Mix(model, inner, between="ranks") if mixes else None
    opt = inner if mix else weft.Optimizer(model, inner, method="hsdp", between="ranks")
    for t in range(4):
        torch.manual_seed(10 * t + rank)
        model(torch.randn(8, 64)).square().mean().backward()
        own = [p.grad.clone() for p in model.parameters()]
        if fails and t == 2:
            handle = inner.register_step_pre_hook(lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                opt.step()
            handle.remove()
            for p, g in zip(model.parameters(), own):  # the loop computes them again
                p.grad = g.clone()
        opt.step()
        assert not mixes or all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), own))
        opt.zero_grad()
    decision = mix and mix.weft.decision.sentence
    (mix or opt).close()
    return decision, torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("fails", [False, True])
def test_around_mix_no_method_is_auto_and_begins_with_the_mean_gradient(fails):
    (_, wanted), _ = run(averaging, 2, False)
    for sentence, found in run(averaging, 2, True, fails):
        assert sentence.startswith("method=auto begins with full synchronization") and torch.equal(found, wanted)


def test_mix_without_a_method_refuses_gradients_that_are_not_there_in_each_step():
    model = model_of(8)
    with pytest.raises(weft.Error, match="a process without rows makes no step of its optimizer; expected the name of one"):
        weft.Mix(model, torch.optim.SGD(model.parameters(), lr=0.1), uneven=True)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    with weft.Mix(model, sgd):
        with pytest.raises(weft.Error, match="this step computes them by a closure, inside .* method='diloco', or weft.Optimizer"):
            sgd.step(lambda: model(torch.ones(1, 8)).sum())
        for scaler in (weft.GradScaler("cpu"), torch.amp.GradScaler("cpu")):
            scaler.scale(model(torch.ones(1, 8)).sum()).backward()
            sgd._step_supports_amp_scaling = isinstance(scaler, weft.GradScaler) is False  # as a fused one
            with pytest.raises(weft.Error, match="a GradScaler leaves steps of the optimizer out; expected the name of one"):
                scaler.step(sgd)


def test_one_process_exchanges_nothing():
    model = model_of()
    optimizer = weft.Optimizer(model, method="auto", step=0.1, lr=1e-3)
    assert optimizer.decision.method == "hsdp"
    optimizer.close()


def step_of_one(who):
    model = model_of(8)
    said = [" with step=" if rank == who else "" for rank in range(2)]
    with pytest.raises(weft.Error, match=f"method= is 'auto'{said[0]} on rank 0 and 'auto'{said[1]} on rank 1; all ranks must"):
        weft.Optimizer(model, torch.optim.AdamW(model.parameters(), lr=1e-3), between="ranks",
                       step=0.1 if int(os.environ["RANK"]) == who else None)


@pytest.mark.parametrize("who", [0, 1])
def test_a_step_that_one_process_alone_says_is_named(who):
    run(step_of_one, 2, who)


def test_what_is_decided_is_not_said(tmp_path):
    model = model_of()
    (tmp_path / "run.yaml").write_text("decide: {loss: 0.02}\n")
    with pytest.raises(weft.Error, match="run.yaml sets decide.loss, .* expected decide_loss=0.02"):
        weft.Optimizer(model, method="auto", step=0.1, config=tmp_path / "run.yaml")
    for named, words in (({"step": 0.1, "mixer_kind": "gossip"}, "mixer.kind is set, but method auto"),
                         ({"decide_keep": "any"}, "where decide.keep is any; expected step="),
                         ({"skips": True}, "where nothing can change during the run; expected step=")):
        with pytest.raises(weft.Error, match=words):
            weft.Optimizer(model, method="auto", **named)
    with pytest.raises(weft.Error, match="decide.loss is set, but method hsdp does not read it, expected auto"):
        weft.Optimizer(model, method="hsdp", decide_loss=0.02)
    with pytest.raises(weft.Error, match="step is said, but method is 'hsdp'"):
        weft.Optimizer(model, method="hsdp", step=0.1)


def test_what_is_kept_bounds_the_choice():
    """decide.keep, alone, loss and bytes_per_day, as in weft train."""
    made = weft.plan(model_of(256), step_seconds=0.05, cluster={"nodes": 2, "link": "20Mbit,5ms"}, steps=1000)

    def answer(**said):
        limits = _decide.Limits(1000.0, **said)
        return _decide.choose(made, _decide.candidates(66000, 2, 1000, limits.keep), limits.keep == "optimizer", limits)

    usual, any_other = answer(), answer(keep="any")
    assert not usual.same and not usual.way.muon and any_other.way.muon
    assert answer(keep="exact") is None and answer(keep="exact", alone="together").same
    assert answer(loss=0.0, alone="together").same
    sends = _decide.Limits(1000.0).day_of(usual)
    assert sends == usual.wire_bytes * 1000  # the run is shorter than a day
    assert _decide.Limits(1000.0, bytes_per_day=1).why(usual).endswith(" in this run")
    assert _decide.Limits(bytes_per_day=1).why(usual).endswith(" in a day")
    assert answer(bytes_per_day=int(sends)) == usual
    less = answer(bytes_per_day=int(sends) - 1)
    assert less.wire_bytes < usual.wire_bytes
    assert answer(bytes_per_day=1, alone="together") is None
    assert "sends least" in _decide._refusal([a for a in made if a.nodes > 1], _decide.Limits(1000.0, bytes_per_day=1), 2)
    several = [a for a in made if a.nodes > 1]
    said = _decide._refusal(several, _decide.Limits(1000.0, loss=0.0), 2)
    first = next(a for a in several if a.way.steps > 1)
    assert f"; {first.way.name} ({first.faster:.2g} times) is left out: it needs {100 * (first.way.steps - 1):.3g} % more steps; " in said
    bound = [a.way.name for a in made if a.nodes > 1 and _decide.Limits(busy="18:00-23:30,2Mbit").allow(a)]
    assert bound and bound == [a.way.name for a in made if a.nodes > 1 and _decide.moves(a)]
    long = _decide.Limits(1e9)
    assert long.day_of(usual) == pytest.approx(usual.wire_bytes * 86400 / usual.step_s)


def test_limits_are_keys(tmp_path):
    given = {"decide.keep": "exact", "decide.alone": "together", "decide.bytes_per_day": "2GB", "decide.time": 3, "lr": 1}
    assert _decide.limits(None, given) == (0.0, 10.0, "exact", "together", 3.0, 2_000_000_000, "")
    assert given == {"lr": 1}  # what is taken reads none of them
    model = model_of()
    with pytest.raises(weft.Error, match="decide.keep is set, but method ddp does not read it, expected auto"):
        weft.Optimizer(model, method="ddp", decide_keep="exact")
    with pytest.raises(weft.Error, match="decide.busy is '18:00-19:00,1Mbit', but with decide.keep exact nothing"):
        weft.Optimizer(model, method="auto", step=0.1, decide_keep="exact", decide_busy="18:00-19:00,1Mbit")
    with pytest.raises(weft.Error, match="decide.keep is any, but SGD steps, whatever is chosen"):
        weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1), method="auto", step=0.1, decide_keep="any")
    with pytest.raises(weft.Error, match="optimizer.lr is set, but method auto decides it with decide.keep any"):
        weft.Optimizer(model, lr=0.1, method="auto", step=0.1, decide_keep="any")
    (tmp_path / "run.yaml").write_text("decide: {keep: exact}\n")
    with pytest.raises(weft.Error, match="run.yaml sets decide.keep, .* expected decide_keep='exact'"):
        weft.Optimizer(model, method="auto", step=0.1, config=tmp_path / "run.yaml")


WIRE = "nodes: 2\nranks_per_node: 1\nrank_flops: 1e9\nwire: {bandwidth: %s, latency: 5ms}\n"


def exact(wire, **more):
    """On a wire that is found to be so."""
    def write(_found, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(WIRE % wire)

    _decide.probe.Probe.write = write
    try:
        return train(decide_keep="exact", **more)
    except weft.Error as error:
        return str(error)


def exact_together(wire):
    return exact(wire, decide_alone="together")


def test_one_process_alone_ends_all_or_all_train():
    first, second = run(exact, 2, "20kbit")
    assert first == second and first.startswith("one process alone is expected to be faster than all nodes: the best of them, full sync")
    assert first.endswith("start one process, set decide_alone='together', or name a method")
    decision, _ = run(exact_together, 2, "20kbit")
    assert decision["method"] == "hsdp" and decision["keys"] == {}


def said_alone(local="0", **named):
    """The steps in which it is said, and the words with which a step ends the run."""
    os.environ["LOCAL_RANK"] = local
    sentences = iter(["", "one process alone", ""])
    Sync.alone = lambda _sync: next(sentences)
    model, said = model_of(), []
    _decide.log.warning = lambda text, *words: said.append(text % words)
    optimizer = weft.Optimizer(model, torch.optim.AdamW(model.parameters(), lr=1e-3), between="ranks", **named)
    try:
        for _ in range(3):
            model(torch.ones(1, 64)).sum().backward()
            optimizer.step()
    except weft.Error as error:
        said.append(str(error))
    steps = optimizer.report.step
    optimizer.close()
    return steps, said


def said_alone_and_ends():
    return said_alone(decide_alone="end")


def test_one_process_alone_is_said_by_all_and_ends_all_who_asked_for_that():
    words = "method=auto: one process alone; decide_alone='end' ends such a run"
    assert run(said_alone, 2) == [(3, [words])] * 2
    assert run(said_alone, 2, "1") == [(3, [])] * 2  # once on a machine
    assert run(said_alone_and_ends, 2) == [(2, ["one process alone; start one process, set decide_alone='together', or name a method"])] * 2


def test_the_time_of_measuring_bounds_the_first_steps():
    class Sync:
        def replan(self, *said):
            self.said = said

    sync = Sync()
    _decide.follow(sync, _decide.Decision("hsdp", {}, "", waits=True), _decide.Limits(time=3.0))
    assert sync.said[0] is None and sync.said[-1] == 3.0


AUTO = "a wire that is measured"



def comes_in(rank, comes):
    """Rank 1 is killed in step 4; all end four steps after another has come for it."""
    model = model_of(8)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if not comes:
        _decide.decide = lambda *_: _decide.Decision("diloco", {"mixer.outer_every": 2}, AUTO, WIRE % "10Gbit")
    optimizer = weft.Optimizer(model, inner, method="auto", between="ranks", step=None if comes else 0.1)
    together, lost = 0, comes
    while together < 4:
        loss = model(torch.ones(2, 8)).square().mean()
        loss.backward()
        if rank == 1 and optimizer.steps == 4 and not comes:
            os.kill(os.getpid(), signal.SIGKILL)
        report = optimizer.step(loss)
        optimizer.zero_grad()
        lost = lost or report.processes < 3
        together += lost and report.processes == 3
    told = optimizer.decision.sentence, optimizer._sync.follows(), optimizer.steps
    optimizer.close()
    return told


def test_who_joins_is_told_by_a_member():
    port, endpoint = free_port(), free_port()
    env = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    all = [Rank(comes_in, r, {**env, "RANK": str(r), **({"WEFT_PORT": str(endpoint)} if r == 0 else {})},
                (r, False), {}) for r in range(3)]
    assert not all[1].finish(120)[0]
    late = Rank(comes_in, 1, {"RANK": "1", "WEFT_JOIN": f"127.0.0.1:{endpoint}"}, (1, True), {})
    found = answers([all[0], all[2], late])
    assert [fine for fine, _ in found] == [True] * 3, found
    first, other, came = (told for _, told in found)
    assert first == other == came
    assert came[:2] == (AUTO, True)


class Told:
    """A mesh of which a member says this."""

    def __init__(self, text):
        self.joins, self.text = True, text

    def decided(self):
        return self.text


def test_who_joins_a_run_that_decided_nothing_is_refused():
    decided = _decide.Decision("diloco", {"mixer.outer_every": 2}, "why", "a cluster")
    rest = {}, _decide.Limits(), None, True
    for text, expected in (("", "the run was begun with the name of its method; expected that name"),
                           ("1 10 method=hsdp", "the run is none of weft_sync's")):
        with pytest.raises(weft.Error, match=expected):
            _decide.decide(None, None, Told(text), *rest)
    assert _decide.decide(None, None, Told(decided.told()), *rest) == decided._replace(cluster="")


def recorded(folder, kind):
    """Two changes, in the folder."""
    model = model_of(40)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    made = getattr(weft, kind)(model, inner, step=10.0, between="ranks", mesh_on_loss="end", folder=folder,
                               decide_time=1, decide_alone="together")
    optimizer, steps = (made, made.step) if kind == "Optimizer" else (made.weft, inner.step)
    rank = optimizer.place()[0]
    for step in range(10):
        if rank == 0 and step in (2, 6):
            optimizer._sync.ask_form("full f32" if step == 6 else "full int8" if kind == "Optimizer" else "outer f32 7 0.4")
        torch.manual_seed(100 * step + rank)
        model(torch.randn(2, 40)).square().mean().backward()
        steps()
        inner.zero_grad()
    made.close()
    return optimizer.decision.sentence, [form.method for form in optimizer.forms], [float(p.sum()) for p in model.parameters()]


@pytest.mark.parametrize("kind,between", [("Optimizer", "full sync int8"), ("Mix", "diloco H=7")])
def test_the_folder_explains_what_was_decided(tmp_path, kind, between):
    (sentence, *found), (_, *other) = run(recorded, 2, tmp_path, kind)
    assert found == other and found[0] == ["full sync", between, "full sync"]
    program = os.path.join(os.path.dirname(os.environ.get("WEFT_LIBRARY", "")), "weft")
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], row["steps"]) for row in rows] == [(3, 2), (7, 4), (10, 3)]
    if not os.path.exists(program):
        pytest.skip("the program is not built beside libweft")
    said = subprocess.run([program, "plan", str(tmp_path)], capture_output=True, text=True, check=True).stdout
    lines = said.splitlines()
    assert lines[0] == sentence and "method=hsdp" in said
    changes = [line for line in lines if line.startswith("from step")]
    assert [line.partition(";")[0] for line in changes] == [f"from step 4 on {between}", "from step 8 on full sync"]
    assert all("measured since then: " in line for line in changes)


class Members:
    """A sync, and its mesh, of which so many take part, of three who began."""

    rank, size, joins = 0, 3, False

    def __init__(self, left=3):
        self.mesh, self.left = self, left

    def place(self):
        return 0, self.left

    def host_of(self, rank):
        return f"host{rank}"


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def begun(folder):
    """A folder of an earlier run."""
    record = _record.Record(folder)
    layout = {"mesh.nodes": 2, "mesh.ranks_per_node": 1}
    record.decided(_decide.Decision("hsdp", {}, "why", "a: cluster"), layout, "optimizer", "")
    return record


def test_a_run_that_goes_on_replaces_what_it_does_again(tmp_path, caplog):
    begun(tmp_path)
    metrics, views = tmp_path / "metrics.jsonl", tmp_path / "views.jsonl"
    old = [json.dumps({"step": n, "step_s": 1.0, "steps": 5}) for n in (5, 10, 15, 20)]
    metrics.write_text("\n".join([old[0], '{"note": "mine"}', "# mine", *old[1:], '{"step": 25, "st']))
    views.write_text('{"step": 1, "form": "full f32"}\n{"step": 12, "form": "full int8"}')  # of before names were written
    record = _record.Record(tmp_path)
    for step in range(12, 19):  # after a checkpoint of step 11
        record.step(Members(), step, "full sync" if step == 12 else "", "", [])
    record.close()
    assert metrics.read_text().splitlines()[:4] == [old[0], '{"note": "mine"}', "# mine", old[1]]
    last = metrics.read_text().splitlines()[4:]
    assert [(json.loads(line)["step"], json.loads(line)["steps"]) for line in last] == [(18, 6)]
    assert [(line["step"], line.get("name")) for line in lines_of(views)] == [(1, None), (12, "full sync")]
    assert not caplog.records


@pytest.mark.parametrize("name", ["metrics.jsonl", "views.jsonl", "cluster.yaml", "decision.json"])
def test_a_folder_of_something_else_is_refused(tmp_path, name):
    (tmp_path / name).write_text("{}\n")
    with pytest.raises(weft.Error, match=f"where {name} is not of a program with method='auto'; expected an existing folder"):
        weft.Optimizer(model_of(), lr=1e-3, method="auto", step=0.1, folder=tmp_path)
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_text() == "{}\n"


def test_a_folder_that_is_not_there_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(_decide, "decide", lambda *_: pytest.fail("it measures"))
    for folder in (tmp_path / "a" / "b", __file__):
        with pytest.raises(weft.Error, match="there is no such folder; expected an existing folder"):
            weft.Optimizer(model_of(), lr=1e-3, method="auto", step=0.1, folder=folder)


def test_a_folder_serves_again(tmp_path):
    for _ in range(2):
        weft.Optimizer(model_of(), lr=1e-3, method="auto", step=0.1, folder=tmp_path).close()
    assert json.loads((tmp_path / "decision.json").read_text())["program"] == "weft_sync"


def test_a_step_raises_nothing(tmp_path, caplog):
    record, sync = begun(tmp_path), Members()
    sync.host_of = lambda _rank: 1 / 0
    for step in (1, 2, 3):
        record.step(sync, step, "full sync", "", [])
    record.close()
    assert [entry.getMessage() for entry in caplog.records] == [f"{tmp_path} gets no more lines: division by zero"]
    (tmp_path / "views.jsonl").mkdir()
    caplog.clear()
    record = _record.Record(tmp_path)
    for step in (1, 2):
        record.step(Members(), step, "full sync", "", [])
    record.close()
    assert len(caplog.records) == 1


def test_the_folder_says_that_one_alone_is_faster(tmp_path):
    record = begun(tmp_path)
    record.step(Members(), 1, "full sync", "", [])
    sync = Members()
    sync.alone, sync.form = lambda: "one process alone is faster", lambda: "full sync"
    with pytest.raises(weft.Error, match="^one process alone is faster; start one process"):
        _decide.look_alone(sync, 5, True, record)
    views = lines_of(tmp_path / "views.jsonl")
    assert [(view["step"], view["name"], view.get("why")) for view in views] == [
        (1, "full sync", None), (5, "full sync", "one process alone is faster")]


def test_a_view_says_what_is_known(tmp_path):
    record = begun(tmp_path)
    forms = ("full sync", "full sync int8", "diloco H=50", "diloco H=20 int4")
    for step, size, form in zip((1, 2, 3, 4), (3, 3, 2, 3), forms):
        record.step(Members(size), step, form, "why" if step > 1 else "", [])
    views = lines_of(tmp_path / "views.jsonl")
    assert tuple(view["name"] for view in views) == forms
    assert [[host for *_, host in view["members"]] for view in views] == [
        ["host0", "host1", "host2"], ["host0", "host1", "host2"], ["", ""], ["", "", ""]]
