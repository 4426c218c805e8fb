# SPDX-License-Identifier: MIT
"""What an accelerator would show, by a device that does all as late as one may (late/device.cpp)."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from models import DEVICE, batch, net
from ranks import fork, run

import weft_sync.torch as weft
from weft_sync import _copies

HERE = pathlib.Path(__file__).resolve().parent
on_it = pytest.mark.skipif(DEVICE != "late", reason="run by test_the_package_on_a_late_device")
#: what of other files is run there beside this one
TESTS = ["test_methods.py::test_demo_is_the_published_rule", "test_methods.py::test_agreed_rows", "test_average.py",
         "test_clip.py::test_clipping_each_processes_own_gradients_is_told",
         "test_forms.py::test_outer_steps_are_left_and_begun", "test_forms.py::test_outer_steps_are_begun_and_left",
         "test_device.py::test_demo_is_libwefts", "test_device.py::test_topk_and_agreed_rows_are_libwefts",
         "test_device.py::test_random_rows_are_the_same_everywhere",
         "test_lost.py::test_the_others_go_on_when_one_is_killed", "test_lost.py::test_who_has_fewer_steps_is_gone_on_without",
         "test_join.py::test_a_killed_process_comes_back_into_the_running_loop", "test_again.py::test_a_cell_runs_again",
         "test_life.py::test_scaler_skips_on_all_ranks",
         "test_back.py::test_who_has_a_gradient_that_is_no_number_comes_back"]


CAN_BUILD = shutil.which("ninja") and shutil.which("c++") and hasattr(torch, "accelerator")


@pytest.mark.skipif(DEVICE != "cpu", reason="it is where this runs")
@pytest.mark.skipif(not CAN_BUILD, reason="it wants ninja, a compiler of C++ and torch 2.6")
def test_the_package_on_a_late_device():
    """In a process of its own: autograd must not have begun before a device is registered."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, *(str(HERE / t) for t in TESTS)]
    done = subprocess.run(words, env={**os.environ, "WEFT_TEST_DEVICE": "late"}, capture_output=True,
                          text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


@on_it
def test_it_is_late_and_counts():
    import late
    with late.counted() as cost:
        x = torch.ones(1000).to("late")
        y = x * 2
        event = torch.Event("late")
        event.record()
        assert not event.query()
        host = torch.empty(1000, pin_memory=True).zero_()
        host.copy_(y, non_blocking=True)
        assert host.sum() == 0
        event.synchronize()
        assert event.query() and host.sum() == 0
        assert y.sum().item() == 2000 and host.sum() == 2000
    assert cost[0][:3] == (4000, 4000, 3)  # to("late") waits, synchronize, and item


@on_it
def test_its_memory_is_not_the_hosts():
    import ctypes
    x = torch.ones(4, device="late")
    reader = fork.Process(target=lambda: ctypes.c_float.from_address(x.data_ptr()).value)
    reader.start()
    reader.join()
    assert reader.exitcode == -signal.SIGSEGV


@on_it
def test_it_computes_what_the_host_computes():
    (tokens, wanted), grads = batch(0, 0), []
    for device in ("cpu", "late"):
        model = net().to(device)
        model.head.weight = model.embed.weight
        loss = torch.nn.functional.cross_entropy(model(tokens.to(device)).flatten(0, 1), wanted.to(device).flatten())
        loss.backward()
        grads.append([p.grad.cpu() for p in model.parameters()])
    for a, b in zip(*grads, strict=True):
        assert (a - b).abs().max() < 1e-5


def wrong(copies):
    """What goes wrong with these copies: words, none if all is well."""
    import late
    found = []
    numbers = torch.arange(5000.)
    x = numbers.to("late")
    with late.counted() as cost:
        made = x * 2
        arrival = copies.down(made)
        del made
    found += ["down waits"] * (cost[0].waits > 0)
    torch.accelerator.synchronize() if arrival.here() else torch.accelerator.current_stream().synchronize()
    torch.ones(5000, device="late")  # where it was
    found += ["down"] * (not torch.equal(arrival.host(), numbers * 2))
    arrival = copies.down(x * 3)  # nobody has waited for computing here
    found += ["down of the stream"] * (not torch.equal(arrival.host(), numbers * 3))
    with late.counted() as cost:
        came = copies.up(numbers)
        made = came * 5
        del came
    found += ["up waits"] * (cost[0].waits > 0)
    copies._up.synchronize()
    found += ["up freed"] * (not torch.equal(made.cpu(), numbers * 5))
    made = copies.up(numbers) * 7
    found += ["up"] * (not torch.equal(made.cpu(), numbers * 7))
    kept = torch.zeros(5000, pin_memory=True)
    kept.copy_(numbers)
    went, event = copies.lent(kept)
    back = copies.down(x * 0, kept, event)
    found += ["up overwritten"] * (not torch.equal(back.host(), numbers * 0) or not torch.equal(went.cpu(), numbers))
    return found


MUTATIONS = {
    "down before it is computed": ("self._down.wait_event(computed)", "pass"),
    "down of what is freed": ("self._used_by(tensor, self._down)", "pass"),
    "down to pageable memory": ("host = self._pinned(tensor)", "host = torch.empty_like(tensor, device='cpu')"),
    "down without waiting": ("self._event.synchronize()", "pass"),
    "up that is used before": ("current.wait_event(arrived)", "pass"),
    "up that is freed": ("self._used_by(there, current)", "pass"),
    "up from pageable memory": ("pinned = self._pinned(host).copy_(host)", "pinned = host"),
}


@on_it
def test_copies_are_right_and_each_wait_of_theirs_is_needed():
    device = torch.device("late")
    assert wrong(_copies.copies_for(device)) == []
    source = pathlib.Path(_copies.__file__).read_text()
    for name, (line, instead) in MUTATIONS.items():
        assert source.count(line) == 1, line
        mutant = {"__name__": "weft_sync._mutant", "__package__": "weft_sync"}
        exec(source.replace(line, instead), mutant)
        assert wrong(mutant["copies_for"](device)), name


ENDS = {"mesh_on_loss": "end"}  # a mixer's states are on the device then
ON_HOST = {"state_device": "cpu"}
WAYS = {"ddp, AdamW inside": (weft.Optimizer, True, dict(method="ddp")),
        "ddp": (weft.Optimizer, False, dict(method="ddp", lr=1e-3)),
        "flexdemo": (weft.Optimizer, False, dict(method="flexdemo", lr=1e-3, replicator_sign=False)),
        "signs": (weft.Optimizer, False, dict(method="flexdemo", lr=1e-3, replicator_values="int8")),
        "topk, AdamW inside": (weft.Optimizer, True, dict(method="topk", replicator_sign=False)),
        "striding": (weft.Optimizer, False, dict(method="striding", lr=1e-3, replicator_sign=False)),
        "muloco": (weft.Optimizer, False, dict(method="muloco", lr=1e-3, mixer_outer_every=2)),
        "muloco, clipped": (weft.Optimizer, False, dict(method="muloco", lr=1e-3, mixer_outer_every=2, optimizer_clip=0.1,
                                                        optimizer_polynomial="polar_express")),
        "signs, clipped": (weft.Optimizer, False, dict(method="flexdemo", lr=1e-3, optimizer_clip=0.1)),
        "accumadam": (weft.Optimizer, False, dict(method="accumadam", lr=1e-3, optimizer_accumulate=2)),
        "adam": (weft.Optimizer, False, dict(method="ddp", lr=1e-3, optimizer_kind="adam", optimizer_weight_decay=1e-4)),
        "gossip": (weft.Mix, True, dict(method="dadam")),
        "choco": (weft.Mix, True, dict(method="dadam", mixer_kind="choco", mixer_topology="ring", mixer_values="int8")),
        "diloco": (weft.Mix, True, dict(method="diloco", mixer_outer_every=2)),
        "diloco int8": (weft.Mix, True, dict(method="diloco", mixer_outer_every=2, mixer_values="int8", **ENDS)),
        "muloco int8": (weft.Optimizer, False, dict(method="muloco", lr=1e-3, mixer_outer_every=2, mixer_values="int8", **ENDS)),
        "ddp, states here": (weft.Optimizer, False, dict(method="ddp", lr=1e-3, **ON_HOST)),
        "signs, states here": (weft.Optimizer, False, dict(method="flexdemo", lr=1e-3, replicator_values="int8", **ON_HOST)),
        "diloco int8, states here": (weft.Mix, True, dict(method="diloco", mixer_outer_every=2, mixer_values="int8", **ENDS, **ON_HOST)),
        "choco there": (weft.Mix, True, dict(method="dadam", mixer_kind="choco", mixer_topology="ring", mixer_values="int8", **ENDS))}


def trained(way, device):
    kind, inside, keys = WAYS[way]
    rank, model = int(os.environ["RANK"]), net().to(device)
    model.head.weight = model.embed.weight
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3) if inside else None
    opt = kind(model, *([inner] if inside else []), between="ranks", **keys)
    for t in range(5):
        tokens, wanted = (x.to(device) for x in batch(rank, t))
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten())
        loss.backward()
        inner.step() if isinstance(opt, weft.Mix) else opt.step(loss)
        (inner or opt).zero_grad()
    return [p.detach().cpu() for p in model.parameters()]


@on_it
@pytest.mark.parametrize("way", WAYS)
def test_training_is_what_it_is_on_the_host(way):
    """A wait that is missing is a NaN, or far off; an order of sums is not."""
    for ours, theirs in zip(run(trained, 2, way, "late"), run(trained, 2, way, "cpu")):
        for a, b in zip(ours, theirs, strict=True):
            assert ((a - b).abs() < 1e-4).float().mean() > 0.99


def without_rows(device):
    """Steps after which the next has no backward, and zero for a gradient: where the last direction still leaves from."""
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64).to(device)
    opt = weft.Optimizer(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), method="ddp", between="ranks")
    for t in range(8):  # no mark of the parameters is read in steps 4, 6, 7
        if t not in (3, 6):
            model(torch.ones(2, 64).to(device) * (t + 1)).pow(2).mean().backward()
        opt.step()
        opt.zero_grad()
    return [p.detach().cpu() for p in model.parameters()]


@on_it
def test_a_step_without_rows_leaves_the_direction_before_alone():
    for ours, theirs in zip(run(without_rows, 2, "late"), run(without_rows, 2, "cpu")):
        for a, b in zip(ours, theirs, strict=True):
            assert (a - b).abs().max() < 1e-4 * b.abs().max()


def crossed(way, dtype):
    """Bytes over the bus for each parameter, down and up, and waits of the host in backward, of steps 2 to 5."""
    import late
    kind, inside, keys = WAYS[way]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.Tanh(), torch.nn.Linear(128, 128)).to("late", dtype)
    n = sum(p.numel() for p in model.parameters())
    inner = torch.optim.SGD(model.parameters(), lr=1e-3) if inside else None
    opt = kind(model, *([inner] if inside else []), between="ranks", **keys)
    x, found = torch.randn(8, 128, dtype=dtype).to("late"), []
    for t in range(13):
        loss = model(x).float().pow(2).mean()
        with late.counted() as backward:
            loss.backward()
        with late.counted() as step:
            inner.step() if isinstance(opt, weft.Mix) else opt.step()
        (inner or opt).zero_grad()
        found.append((round((backward[0].down + step[0].down) / n, 2), round((backward[0].up + step[0].up) / n, 2),
                      backward[0].waits))
    return found[9:]  # no mark of the parameters is read in these steps


BYTES = {"ddp, AdamW inside": [(4, 4, 0)] * 4, "ddp": [(4, 4, 0)] * 4, "flexdemo": [(0.53, 1.02, 0)] * 4,
         "muloco, clipped": [(4, 4, 0), (0, 0, 0)] * 2,
         "gossip": [(4, 4, 0)] * 4, "choco": [(4, 8, 0)] * 4, "diloco": [(4, 4, 0), (0, 0, 0)] * 2,
         "signs": [(0.53, 1.27, 0)] * 4, "striding": [(4, 4, 0)] * 4,
         "ddp, states here": [(4, 4, 1)] * 4, "signs, states here": [(4, 4, 1)] * 4,  # what the program has written
         "diloco int8, states here": [(4, 4, 0), (0, 0, 0)] * 2,
         "diloco int8": [(1.03, 6, 0), (0, 0, 0)] * 2, "muloco int8": [(1.03, 6, 0), (0, 0, 0)] * 2, "choco there": [(1.03, 1.03, 0)] * 4}


def bytes_there(way):
    """Of a device's memory that weft's optimizer takes beside parameters, for each of them."""
    kind, inside, keys = WAYS[way]
    model = torch.nn.Linear(512, 512).to("late")
    inner = torch.optim.SGD(model.parameters(), lr=1e-3) if inside else None
    opt = kind(model, *([inner] if inside else []), between="ranks", **keys)
    opt = getattr(opt, "weft", opt)
    lying = [t for state in (opt._own.state.values() if opt._own else []) for t in state.values()]
    lying += [packet.flat for packet in opt._packets] + list(opt._held.states.values() if opt._held else [])
    return sum(t.numel() * 4 for t in lying if t.device.type == "late") // sum(p.numel() for p in model.parameters())


@on_it
def test_states_on_the_host_leave_the_device_to_parameters():
    for way, there in (("ddp", 8), ("signs", 4), ("diloco int8", 12)):
        assert run(bytes_there, 2, way) == [there] * 2
        assert run(bytes_there, 2, way + ", states here") == [0, 0]


HALF = {"ddp, AdamW inside": [(2, 2, 0)] * 4, "gossip": [(2, 2, 0)] * 4, "diloco": [(4, 4, 0), (0, 0, 0)] * 2}


@on_it
def test_bytes_over_the_bus_are_those_of_the_docs():
    for dtype, table in ((torch.float32, BYTES), (torch.bfloat16, HALF)):
        for way, wanted in table.items():
            for found in run(crossed, 2, way, dtype):
                assert found == wanted, (way, dtype)


def resumed(way, first, then, dtype):
    """Parameters after three steps on one device and two on another, by the state that was saved between."""
    kind, _inside, keys = WAYS[way]
    rank, saved, weights = int(os.environ["RANK"]), None, None
    for device, begin, end in ((first, 0, 3), (then, 3, 5)):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.Tanh(), torch.nn.Linear(64, 48)).to(dtype)
        if weights:
            model.load_state_dict(weights)
        model = model.to(device)
        opt = kind(model, between="ranks", **keys)
        if saved:
            opt.load_state_dict(saved)
        for t in range(begin, end):
            x = torch.randn(8, 48, generator=torch.Generator().manual_seed(2 * t + rank)).to(dtype).to(device)
            model(x).float().pow(2).mean().backward()
            opt.step()
        saved = opt.state_dict()
        weights = {name: value.cpu() for name, value in model.state_dict().items()}
        opt.close()
    return [saved["state"][i]["parameters"].float() for i in saved["state"]]


@on_it
@pytest.mark.parametrize("way", ["ddp", "muloco", "accumadam", "flexdemo", "muloco int8"])
def test_a_state_that_was_saved_on_one_device_is_taken_on_another(way):
    """The master of a parameter of 16 bits and the moments, too."""
    for dtype, most in ((torch.float32, 1e-4), (torch.bfloat16, 4e-3)):
        whole = run(resumed, 2, way, "cpu", "cpu", dtype)
        for first, then in (("late", "cpu"), ("cpu", "late"), ("late", "late")):
            for ours, theirs in zip(run(resumed, 2, way, first, then, dtype), whole):
                for a, b in zip(ours, theirs, strict=True):
                    assert ((a - b).abs() < most).float().mean() > 0.99
