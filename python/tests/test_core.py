# SPDX-License-Identifier: MIT
"""What needs no torch: configuration, planning, one process alone."""

import ctypes as c
import math
import pathlib
import re
import subprocess
import sys
import types

import pytest

import weft_sync as weft
from weft_sync import _abi, _library, _plan
from weft_sync.__main__ import main
from weft_sync._library import key_name

ROOT = pathlib.Path(__file__).resolve().parents[2]

TENSORS = [("table", 500, 1000, True), ("matrix", 1000, 500, True), ("vector", 500, 1, False)]


@pytest.mark.parametrize("system, name", [("linux", "libweft.so.0"), ("darwin", "libweft.0.dylib")])
def test_the_library_is_looked_for_by_its_name_on_this_system(system, name, monkeypatch, tmp_path):
    monkeypatch.delenv("WEFT_LIBRARY", raising=False)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(_library, "__file__", str(tmp_path / "a" / "weft_sync" / "_library.py"))
    assert _library._candidates() == [name]
    own = tmp_path / "a" / "weft_sync" / ("libweft" + (".dylib" if system == "darwin" else ".so"))
    own.parent.mkdir(parents=True)
    own.touch()
    assert _library._candidates() == [str(own), name]


def test_what_a_format_takes_is_not_declared():
    """arm64 macOS passes it on the stack: ctypes does that with what stands behind the declared ones."""
    headers = "".join(path.read_text() for path in (ROOT / "include" / "weft").glob("*.h"))
    variadic = {name: taken.count(",") + 1
                for name, taken in re.findall(r"(weft_\w+)\(([^()]*?),\s*\.\.\.\)", headers)}
    declared = {name: len(arguments) for name, (_, arguments) in _abi.FUNCTIONS.items() if name in variadic}
    assert "weft_ctx_fail" in declared
    assert declared == {name: variadic[name] for name in declared}
    ctx = _library.Context()
    assert ctx.lib.weft_ctx_fail(ctx.pointer, 1, b"%s and %s", b"one", b"two") == 1
    assert ctx.lib.weft_ctx_message(ctx.pointer) == b"one and two"


def test_leads_shrink_with_the_steps_of_a_plan():
    facts = {"step_seconds": 0.3, "cluster": {"nodes": 2, "link": "100Mbit,1ms"}}
    plans = [weft.plan(TENSORS, **facts, steps=steps) for steps in (None, 200, 1000, 20000)]
    steps = [next(a.way.steps for a in plan if a.way.name == "muloco int4") for plan in plans]
    assert steps[1] < steps[0] < steps[3] and steps[1] < steps[2] < steps[3]
    assert "a run of 20000" in plans[3].answer and "in 20,000; steps= says yours)" in plans[0].answer
    ends = [next(a.way.ends for a in plan if a.way.name == "muloco int4") for plan in plans]
    assert ends == [(steps[1], steps[3]), None, None, None]
    with pytest.raises(weft.Error, match="steps is 0, expected the steps of the run, at least 1"):
        weft.plan(TENSORS, **facts, steps=0)


def test_a_plan_chooses_what_was_measured_near_the_size():
    def known(rows, cluster={"nodes": 2, "link": "1Gbit,1ms"}):
        made = weft.plan([("w", rows, 1000, True)], step_seconds=0.3, cluster=cluster)
        assert made.best.way.known and made.choice.way.known
        return {a.way.name for a in made if a.way.known}

    small, large = known(10_000), known(400_000)
    assert {"one node", "one node, muon", "full sync, muon", "streaming-diloco", "flexdemo"} <= large < small
    assert {"flexdemo int8", "muon int4", "choco int8 muon", "choco aer sign"} <= small - large


def test_plan_has_fewer_bits_behind_a_narrow_way_out(tmp_path):
    def coded(up):
        facts = tmp_path / "cluster.yaml"
        facts.write_text("nodes: 3\nwire: {bandwidth: 100Mbit, latency: 1ms}\n"
                         f"machines: [{{node: 1, bandwidth: 100Mbit, up: {up}}}]\n")
        plan = weft.plan(TENSORS, step_seconds=0.3, cluster=facts)
        return plan, [a for a in plan if "replicator.node_values" in a.keys]

    plan, found = coded("1Mbit")
    assert found and len({a.method for a in found}) == len(found)
    for a in found:
        assert a.keys["replicator.node_values"] in ("1=int4", "1=sign") and a.way.name.startswith("1=")
        assert all(a.faster > 1.01 * b.faster for b in plan if b.method == a.method and b is not a)
    assert coded("60Mbit")[1] == []


def test_a_plan_is_of_a_run_of_its_steps():
    """The interval of outer steps follows from the run's length: 100 in a long one, 31 in one of 1,000."""
    sent = 1_000_500 / 2  # 4 bits of each parameter in an interval
    for steps, interval in ((None, 31), (1000, 31), (5000, 100)):
        made = weft.plan(TENSORS, step_seconds=0.3, cluster={"nodes": 2, "link": "1Mbit,1ms"}, steps=steps)
        streaming = next(a for a in made if a.way.name == "streaming-diloco")
        assert sent / interval < streaming.wire_bytes < 1.15 * sent / interval
        assert (f"run_steps={steps})" in made.answer) == (steps is not None), made.answer


def test_plan_ranks_by_the_wire():
    slow = weft.plan(TENSORS, step_seconds=0.3, cluster={"nodes": 2, "link": "10Mbit,1ms"})
    fast = weft.plan(TENSORS, step_seconds=0.3, cluster={"nodes": 2, "link": "100Gbit,1us"})
    known = [a.faster for a in slow if a.way.known]
    assert len(slow) == len(fast) > 25 and known == sorted(known, reverse=True)

    def of(plan, method, nodes=2):
        return next(a for a in plan if a.method == method and a.nodes == nodes and not a.keys)

    alone = of(slow, "hsdp", 1)
    assert math.isclose(alone.step_s, 0.3, rel_tol=1e-6) and alone.speedup == 1
    assert of(slow, "hsdp").speedup < 1 < of(fast, "hsdp").speedup <= 2
    assert of(slow, "hsdp").bound == "wire" and of(slow, "hsdp").same
    assert 4e6 < of(slow, "hsdp").wire_bytes < 4.1e6
    assert of(slow, "flexdemo").speedup > 3 * of(slow, "hsdp").speedup
    for a in slow:
        assert math.isclose(a.faster, a.speedup / a.way.steps)
        exchange = max(0.0, 1 - alone.step_s / a.step_s) * _plan.EXCHANGE_ERROR
        assert math.isclose(a.error, math.hypot(a.way.error, exchange))


def test_what_is_frozen_or_empty_is_not_exchanged():
    def parameter(trained, *shape):
        return types.SimpleNamespace(requires_grad=trained, shape=shape, numel=lambda: math.prod(shape))

    model = types.SimpleNamespace(named_parameters=lambda: [
        ("a", parameter(True, 4, 3, 2)), ("frozen", parameter(False, 9)), ("b", parameter(True, 5)),
        ("empty", parameter(True, 0))])
    assert _plan.sizes(model) == [("a", 4, 6, True), ("b", 5, 1, True)]


def test_plan_has_the_candidates_of_the_program_and_ends_in_an_answer():
    slow = weft.plan(TENSORS, step_seconds=0.3, cluster={"nodes": 2, "link": "10Mbit,1ms"})
    fast = weft.plan(TENSORS, step_seconds=0.3, cluster={"nodes": 2, "link": "100Gbit,1us"})
    names = {a.way.name for a in slow}
    assert {"full sync", "muloco", "muloco int4", "sparseloco", "choco aer int8", "topk", "powersgd",
            "one node", "one node, muon"} <= names and "dadam ring" not in names  # which wants three
    *_, answer, line = str(slow).splitlines()
    assert answer.startswith(f"Take {slow.choice.way.name} on 2 nodes: ") and "with Muon" in answer
    assert line == '    weft.Optimizer(model, method="muloco", mixer_values="int4")'
    assert slow.choice.method == "muloco" and fast.choice.way.name != slow.choice.way.name
    for line in str(slow).split("\n\n")[0].splitlines()[1:]: # of a node alone no exchange is hidden
        if "more, see" not in line:
            assert line.split()[-2].endswith("%") == (not line.startswith("one node")), line
    alone = weft.plan(TENSORS, step_seconds=0.3, cluster={})
    assert alone.answer.startswith("There is one node") and {a.nodes for a in alone} == {1}
    gossip = [("dadam", {}, True)]
    apart = weft.plan(TENSORS, step_seconds=0.3, cluster={"nodes": 2, "link": "100kbit,1ms"},
                      candidates=gossip)
    assert apart.answer.startswith("Stay on one node: the fastest with more, dadam on 2, is ")


def test_plan_refuses_a_wire_that_it_does_not_know(tmp_path):
    """It said 2.00x over it."""
    words = "the wire between the 2 nodes is not known, expected link, as in --link 1Gbit,50us"
    with pytest.raises(weft.Error, match=words):
        weft.plan(TENSORS, step_seconds=0.3, cluster={"nodes": 2})
    (tmp_path / "one.yaml").write_text("nodes: 1\nwire: {bandwidth: 0B/s, latency: 0s}\n")
    assert weft.plan(TENSORS, step_seconds=0.3, cluster=tmp_path / "one.yaml").choice.nodes == 1
    with pytest.raises(weft.Error, match=words):
        weft.plan(TENSORS, step_seconds=0.3, cluster=tmp_path / "one.yaml", nodes=2)


def test_keys_are_listed_with_meaning_values_and_default(capsys):
    assert main(["keys"]) == 0
    listed = capsys.readouterr().out
    assert "mixer.outer_every: outer kinds: steps between two outer steps" in listed
    assert "    none, gossip, choco, tracking, outer, gossip_outer or sparse_outer; default none" in listed
    assert "data.path" not in listed and len(listed.splitlines()) > 200
    assert main(["keys", "outer_mom"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    for name in ("mixer.outer_momentum", "mixer_outer_momentum", "replicator_values", "mesh.nodes"):
        assert main(["keys", name]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 2 and lines[0].startswith(f"{key_name(name)}: ")
    assert main(["keys", "mixer_outer_evry"]) == 1
    assert "did you mean 'mixer_outer_every'?" in capsys.readouterr().err
    assert main(["keys", "nothing like it"]) == 1 and main([]) == 2


@pytest.mark.parametrize("words", [["--help"], ["keys", "--help"], ["help"]])
def test_help_names_every_command(capsys, words):
    assert main(words) == 0
    said = capsys.readouterr().out
    assert all(f"python -m weft_sync{command} " in said for command in (" keys", " key", ".probe", ".run"))


def test_a_misspelled_command_is_told_which_is_meant(capsys):
    assert main(["kyes"]) == 2
    assert "'kyes' is no command; did you mean 'keys'?" in capsys.readouterr().err


def test_the_key_of_a_run_is_for_its_owner_alone(tmp_path):
    made = []
    here = pathlib.Path(weft.__file__).parents[1]
    for name in ("a", "b"):
        with open(tmp_path / name, "w") as file:
            subprocess.run([sys.executable, "-m", "weft_sync", "key"], stdout=file, check=True, cwd=here)
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        made.append(bytes.fromhex((tmp_path / name).read_text().strip()))
    assert len(made[0]) == 32 and made[0] != made[1]


@pytest.mark.parametrize("wrong,right", [
    ("replicator_valuse", "replicator_values"), ("outer_every", "mixer_outer_every"),
    ("mixer.outer_evry", "mixer.outer_every"), ("accumulat", "accumulate"), ("zzzz", None)])
def test_an_unknown_key_is_told_what_it_may_be(wrong, right):
    with pytest.raises(weft.Error) as caught:
        key_name(wrong)
    assert f"no key '{wrong}'" in str(caught.value)
    assert ("did you mean" in str(caught.value)) == (right is not None)
    assert right is None or f"(did you mean '{right}'?)" in str(caught.value)


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="no source tree")
def test_the_packages_page_has_no_dead_links_and_the_archive_no_foreign_files():
    tomllib = pytest.importorskip("tomllib")
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    page = (ROOT / told["project"]["readme"]).read_text()
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert links and all(link.startswith("https://") for link in links)
    kept = told["tool"]["scikit-build"]["sdist"]
    assert all(p.startswith("/") for p in kept["include"]) and "/build" in kept["exclude"]


def test_plan_takes_the_nodes_of_its_file(tmp_path):
    path = tmp_path / "cluster.yaml"
    ctx, cluster = weft.Context(), c.c_void_p()
    ctx.call("weft_cluster_create", ctx.pointer, c.byref(cluster))
    for key, value in (b"nodes", b"5"), (b"link", b"100Mbit,1ms"):
        ctx.call("weft_cluster_set", ctx.pointer, cluster, key, value)
    ctx.call("weft_cluster_write", ctx.pointer, cluster, str(path).encode())
    ctx.lib.weft_cluster_destroy(ctx.pointer, cluster)
    hsdp = [("hsdp", {}, True)]
    read = weft.plan(TENSORS, step_seconds=0.3, cluster=path, candidates=hsdp)
    said = weft.plan(TENSORS, step_seconds=0.3, cluster={"nodes": 5, "link": "100Mbit,1ms"},
                     candidates=hsdp)
    assert sorted(a.nodes for a in read) == [1, 5] and read == said


def test_plan_refuses_in_one_sentence(tmp_path):
    with pytest.raises(weft.Error, match="a step's computing takes 0 s"):
        weft.plan(TENSORS, step_seconds=0, cluster={"nodes": 1})
    with pytest.raises(weft.Error, match="nodse"):
        weft.plan(TENSORS, step_seconds=1, cluster={"nodse": 2})
    with pytest.raises(weft.Error, match="cluster.yaml"):
        weft.plan(TENSORS, step_seconds=1, cluster=tmp_path / "cluster.yaml")


def test_plan_takes_an_effort_and_says_one():
    facts = {"cluster": {"nodes": 2, "link": "1Gbit,1ms"}, "accelerator": "A100", "tokens": 8192}
    said = weft.plan(TENSORS, effort=0.38, **facts)
    alone = next(a for a in said if a.way.name == "one node")
    flop = 6 * 1_000_500 * 8192
    assert math.isclose(alone.step_s, flop / (0.38 * 312e12), rel_tol=1e-6)
    assert math.isclose(said.effort, 0.38) and "computing: 38 % of" in str(said)
    back = weft.plan(TENSORS, step_seconds=alone.step_s, **facts)
    assert math.isclose(back.effort, 0.38, rel_tol=1e-6)
    assert [a.way for a in back] == [a.way for a in said]
    assert all(math.isclose(a.step_s, b.step_s, rel_tol=1e-6) for a, b in zip(back, said))
    muon = next(a for a in said if a.way.name == "one node, muon")
    assert 1.05 * alone.step_s < muon.step_s < 1.3 * alone.step_s  # of tensors that are mostly matrices
    reported = weft.plan(TENSORS, **facts)
    assert math.isclose(reported.effort, math.sqrt(0.40 * 0.62))
    assert weft.plan(TENSORS, step_seconds=1, cluster={}).effort is None


@pytest.mark.parametrize("facts, sentence", [
    ({}, "how long a step computes is not known; expected step_seconds"),
    ({"effort": 0.3}, "expected accelerator="),
    ({"tokens": 64, "step_seconds": 1}, "expected accelerator="),
    ({"effort": 0.3, "step_seconds": 1, "accelerator": "A100", "tokens": 64}, "both say how long"),
    ({"effort": 38, "accelerator": "A100", "tokens": 64}, "effort is 38; expected a share"),
    ({"effort": 0, "accelerator": "A100", "tokens": 64}, "effort is 0; expected a share"),
    ({"effort": math.nan, "accelerator": "A100", "tokens": 64}, "effort is nan; expected a share"),
    ({"effort": 0.3, "accelerator": "A100"}, "tokens of a step is None"),
    ({"effort": 0.3, "accelerator": "A100", "tokens": -4}, "tokens of a step is -4"),
    ({"accelerator": "Z80", "tokens": 64}, "accelerator is 'Z80'; expected one of V100, "),
])
def test_plan_refuses_efforts_that_say_nothing_or_too_much(facts, sentence):
    with pytest.raises(weft.Error, match=sentence):
        weft.plan(TENSORS, cluster={"nodes": 2}, **facts)


class Told(dict):
    """A store as Mesh expects it, of one process."""

    def set(self, key, text):
        self[key] = text


def test_a_network_needs_a_key(monkeypatch):
    monkeypatch.delenv("WEFT_KEY_FILE", raising=False)
    monkeypatch.delenv("WEFT_ENCRYPT", raising=False)
    there = "192.0.2.1"  # of documentation: nothing is sent before the refusal
    with pytest.raises(weft.Error, match=f"{there} is reached.*WEFT_KEY_FILE=run.key in the"):
        weft.Mesh(weft.Context(), 0, 2, there, Told())
    monkeypatch.setenv("WEFT_ENCRYPT", "no")
    with pytest.raises(weft.Error, match="WEFT_ENCRYPT is 'no', expected on or off"):
        weft.Mesh(weft.Context(), 0, 2, there, Told())
    monkeypatch.setenv("WEFT_ENCRYPT", "on")
    monkeypatch.setenv("WEFT_KEY_FILE", "absent.key")
    with pytest.raises(weft.Error, match="absent.key"):
        weft.Mesh(weft.Context(), 0, 2, there, Told())


def test_one_process_alone():
    ctx = weft.Context()
    mesh, config = weft.Mesh(ctx), weft.Config(ctx)
    for key, value in {"method": "ddp", "optimizer.kind": "sgd", "optimizer.weight_decay": 0,
                       "optimizer.clip": 0, "schedule.warmup": 0}.items():
        config.set(key, value)
    config.finish()
    assert config.number("optimizer.kind") == "sgd" and config.number("optimizer.clip") == 0
    sync = weft.Sync(ctx, mesh, config, [("a", 2, 3, True), ("b", 4, 1, False)])
    p = (c.c_float * 6).from_address(sync.parameters(0))
    g = (c.c_float * 6).from_address(sync.gradients(0))
    p[0] = 3.0
    sync.begin()
    sync.set_rate(0.5)
    g[0] = 2.0
    report = sync.step(1.25)
    assert p[0] == 2.0 and g[0] == 0.0
    assert (report.step, report.loss, report.wire_bytes) == (1, 1.25, 0)
    assert sync.states() == ["parameters"] and sync.numbers() == []
    with pytest.raises(weft.Error, match="tensor 9"):
        sync.ready(9)
    sync.destroy()


def test_keys_are_checked():
    config = weft.Config(weft.Context())
    with pytest.raises(weft.Error, match="optimizer.lr"):
        config.set("optimizer.lr", "fast")
