# SPDX-License-Identifier: MIT
"""Step times of the user's own model, the probe, and plans from both."""

import math
import types

import pytest
import torch
from models import net
from ranks import run

import weft_sync.torch as weft
from weft_sync import probe as probing
from weft_sync import _copies, _measure
from weft_sync._measure import StepTime, _finish, line_through, usual_device


def mean_square(model, batch):
    return model(batch).square().mean()


def accelerator(kind, said):
    return types.SimpleNamespace(is_available=lambda: True, current_accelerator=lambda: torch.device(kind),
                                 synchronize=lambda device: said.append(device))


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu", "hpu"])
def test_all_kinds_of_devices_are_waited_for(monkeypatch, kind):
    said, device = [], torch.device(kind)
    monkeypatch.setattr(torch, "accelerator", accelerator(kind, said), raising=False)
    _finish(device)
    assert said == [device] and usual_device() == kind
    monkeypatch.delattr(torch, "accelerator")  # before torch 2.6
    module = types.SimpleNamespace(is_available=lambda: True, synchronize=(
        (lambda: said.append(kind)) if kind == "mps" else (lambda device: said.append(kind))))
    monkeypatch.setattr(torch, kind, module, raising=False)
    _finish(device)
    assert said[1:] == [kind]


def test_copies_have_streams_where_the_device_has(monkeypatch):
    calls = {name: lambda *_: None for name in ("Stream", "Event", "stream", "current_stream")}
    monkeypatch.setattr(torch, "xpu", types.SimpleNamespace(**calls), raising=False)
    monkeypatch.setattr(torch, "hpu", types.SimpleNamespace(**calls), raising=False)
    _copies.copies_for.cache_clear()
    kinds = {kind: type(_copies.copies_for(torch.device(kind))) for kind in ("cpu", "mps", "xpu", "hpu")}
    _copies.copies_for.cache_clear()
    assert kinds == {"cpu": _copies.HostCopies, "mps": _copies.HostCopies, "xpu": _copies.CudaCopies,
                     "hpu": _copies.CudaCopies}


def test_copies_are_waited_for_where_a_device_has_no_streams():
    copies = _copies.HostCopies()
    copies.device = torch.device("meta")
    assert copies.up(torch.ones(3)).device.type == "meta"
    assert copies.down(torch.ones(3)).host().device.type == "cpu"


def test_a_step_is_measured_and_the_model_left_as_it_was():
    model = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.BatchNorm1d(20))
    before = [t.clone() for t in model.state_dict().values()]
    first = model[0].weight
    first.grad = torch.ones_like(first)
    state = torch.random.get_rng_state()
    took = weft.measure_step(model, mean_square, [torch.randn(4, 20), torch.randn(16, 20)])
    assert sorted(took.seconds) == [4, 16] and min(took.seconds.values()) > 0
    assert took.fixed_s >= 0 and took.per_example_s >= 0 and took.device == "cpu"
    assert all(torch.equal(a, b) for a, b in zip(before, model.state_dict().values()))
    assert torch.equal(first.grad, torch.ones_like(first))
    assert model[0].bias.grad is None
    torch.random.set_rng_state(state)


def test_first_rounds_do_not_count(monkeypatch):
    """By a clock that only the loss advances; the first calls take longest."""
    now, calls = [0.0], []

    def slow_at_first(model, batch):
        calls.append(batch)
        now[0] += 10.0 if len(calls) <= 2 else 1.0
        return mean_square(model, batch)

    monkeypatch.setattr(_measure.time, "perf_counter", lambda: now[0])
    took = weft.measure_step(torch.nn.Linear(3, 3), slow_at_first, [torch.ones(4, 3)], rounds=3, warmup=2)
    assert took.seconds == {4: 1.0} and took.spread == 0.0 and len(calls) == 5


def test_the_line_is_that_of_least_squares():
    assert line_through({2: 1.2, 4: 1.4, 8: 1.8}) == pytest.approx((1.0, 0.1))
    assert line_through({5: 1.0}) == (0.0, 0.2)
    assert line_through({2: 1.0, 8: 0.9})[1] == 0.0      # noise: nothing falls with the batch
    fixed, per = line_through({1: 0.1, 10: 2.0})         # nothing is below zero
    assert fixed == 0.0 and per == pytest.approx(1.05 / 5.5)
    took = StepTime({2: 1.2, 8: 1.9}, 1.0, 0.1, 0.0, "cpu")
    assert took.at(8) == 1.9 and took.at(20) == pytest.approx(3.0)


def test_batches_are_refused_in_one_sentence():
    model = net()
    for batches, words in (([], "expected one batch or more"),
                           ([torch.zeros(2, 3), torch.ones(2, 3)], "each of another size"),
                           ([3.0], "a batch is a float"), ([[1, 2]], "has no tensor")):
        with pytest.raises(weft.Error, match=words):
            weft.measure_step(model, mean_square, batches)
    with pytest.raises(weft.Error, match="expected 1 or more"):
        StepTime({1: 1.0}, 0.0, 1.0, 0.0, "cpu").at(0)


def test_a_plan_takes_what_was_measured():
    took = StepTime({4: 0.1, 8: 0.3}, 0.0, 0.0375, 0.0, "cpu")
    model, cluster = net(), {"nodes": 2, "link": "10Mbit,1ms"}
    assert weft.plan(model, step_seconds=took, cluster=cluster) == \
        weft.plan(model, step_seconds=0.3, cluster=cluster)
    assert weft.plan(model, step_seconds=took, examples=4, cluster=cluster) == \
        weft.plan(model, step_seconds=0.1, cluster=cluster)
    with pytest.raises(weft.Error, match="what measure_step returned"):
        weft.plan(model, step_seconds=0.3, examples=4, cluster=cluster)


TINY = probing.Shape(1, 64, 16, (1, 4))


def test_flops_are_those_of_the_weights_and_of_attention():
    # a layer has 12 width^2 weights; a token meets each six times, and `length` others
    assert TINY.flops(3) == 3 * 16 * (6 * 12 * 64 * 64 + 12 * 64 * 16)


def read(path):
    lines = path.read_text().splitlines()
    return {line.split(": ", 1)[0]: line.split(": ", 1)[1] for line in lines
            if ": " in line and not line.startswith(("#", " "))}


def all_probe(path):
    found = probing.probe(seconds=1, device="cpu", shape=TINY,
                          keys={"mesh.nodes": 2, "mesh.ranks_per_node": 1})
    if not found.figures:
        return None
    found.write(path)
    return {f.name: f.value for f in found.figures}, found.device


def test_processes_are_probed_together_and_plan_reads_it(tmp_path):
    path = tmp_path / "cluster.yaml"
    (figures, device), other = run(all_probe, 2, str(path))
    assert other is None
    assert figures["wire bandwidth"] > 0 and "pair of 2, 1024 B" in figures
    assert any(name.startswith("all-reduces of a step of 2") for name in figures)
    facts = read(path)
    assert facts["nodes"] == "2" and facts["source"] == "'probe'"
    assert math.isclose(float(facts["rank_flops"].removesuffix("FLOP/s")), device.flops,
                        rel_tol=1e-6)
    assert device.flops > 0 and device.copy_Bps > 0 and sorted(device.seconds) == [1, 4]
    plan = weft.plan([("w", 2000, 500, True)], step_seconds=0.01, cluster=path)
    hsdp = next(a for a in plan if a.method == "hsdp" and a.nodes == 2 and not a.keys)
    rate = float(facts["wire"].split("bandwidth: ")[1].split("B/s")[0])
    assert math.isclose(rate, figures["wire bandwidth"], rel_tol=1e-6)
    assert hsdp.step_s >= 0.01 and hsdp.wire_bytes > 1e6
    # what sending takes the processor: gloo's here, from 10 GB/s to 1 MB/s
    assert 1e-10 < device.sending_s < 1e-6
    assert math.isclose(float(facts["collective_cpu"].removesuffix("s")), device.sending_s,
                        rel_tol=1e-6)
    assert 1e-10 < figures["processor of a collective"] < 1e-6  # weft's own, over its sockets


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    assert probing.main(["--device", "none", "--seconds", "0.1"]) == 1
    assert "0.1 seconds to measure in, expected 1 to" in capsys.readouterr().err
    out = str(tmp_path / "none" / "cluster.yaml")
    assert probing.main(["--device", "none", "-o", out]) == 1
    assert f"there is no folder {tmp_path / 'none'} for cluster.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("words,said", [
    (["--device", "gpu"], "torch has no device gpu here, expected cpu or none: "),
    (["--nodes", "2", "--link", "fast"], "fast"),
    (["--link", "100Mbit,1ms"], "--link 100Mbit,1ms of one process alone, which has no wire; expected --nodes, too"),
])
def test_the_command_refuses_before_it_measures(capsys, monkeypatch, words, said):
    monkeypatch.setattr(probing, "_usual_device", lambda: "cpu")
    monkeypatch.setattr(probing, "measure_device", lambda *_: pytest.fail("measured first"))
    assert probing.main(words) == 1
    assert said in capsys.readouterr().err
