# SPDX-License-Identifier: MIT
"""Compression by torch's operations where the tensor lies, against libweft's on the host."""

import os

import pytest
import torch
from models import DEVICE, OptimizerThere, flat, loss_of, net
from ranks import run
from test_methods import STEPS, Recorder, gradients

import weft_sync.torch as weft
from weft_sync._copies import CudaCopies

SHAPES = [(20, 26), (7, 11, 5), (33,), (3, 2), (9, 1)]  # nothing fits the chunks


def directions(make, method, keys, shapes=SHAPES):
    rank = int(os.environ["RANK"])
    device = DEVICE if make is OptimizerThere else "cpu"
    params = [torch.nn.Parameter(torch.zeros(shape, device=device)) for shape in shapes]
    recorder = Recorder(params)
    opt = make(params, recorder, method=method, between="ranks", keys=keys)
    for t in range(STEPS):
        for p, g in zip(params, gradients(shapes, rank, t)):
            p.grad = g.clone().to(device)
        if t == 3:  # a step in which a rank has nothing to say of a tensor
            params[1].grad = None if rank else params[1].grad
        opt.step()
    return recorder.seen, opt.report.wire_bytes


def both(method, keys, ranks=3):
    keys = {"replicator.compression_decay": 0.9, **keys}
    return run(directions, ranks, weft.Optimizer, method, keys), \
        run(directions, ranks, OptimizerThere, method, keys)


TOPK = {"replicator.compression_chunk": 8, "replicator.compression_topk": 3}
DEMO = [{**TOPK, "replicator.compression_dims": 1},
        {**TOPK, "replicator.compression_dims": 2, "replicator.compression_topk": 11}]


@pytest.mark.parametrize("exchange", ["all_gather", "sharded"])
@pytest.mark.parametrize("values", ["f32", "int8"])
@pytest.mark.parametrize("keys", DEMO)
def test_demo_is_libwefts(keys, values, exchange):
    keys = {**keys, "replicator.values": values, "replicator.dense_below": 8, "replicator.exchange": exchange}
    for sign in (False, True):
        host, device = both("flexdemo", {**keys, "replicator.sign": sign})
        for r in range(3):
            assert host[r][1] == device[r][1] > 0  # bytes
            for t in range(STEPS):
                for a, b, plain in zip(host[r][0][t], device[r][0][t], host[0][0][t]):
                    if sign:  # where the direction is not close to 0
                        assert (a != b).float().mean() < (0.02 if values == "f32" else 0.06)
                    elif values == "f32":
                        assert (a - b).abs().max() < 1e-5
                    else:  # a rounding may fall to the other side
                        assert ((a - b).abs() > 2e-2 * a.abs().max()).float().mean() < 0.05
                    assert torch.equal(device[0][0][t][0], device[r][0][t][0])


@pytest.mark.parametrize("kind", ["topk", "striding"])
def test_topk_and_agreed_rows_are_libwefts(kind):
    for sign in (False, True):
        keys = TOPK if kind == "topk" else {"replicator.compression_rate": 0.3}
        host, device = both(kind, {**keys, "replicator.sign": sign}, ranks=2)
        for r in range(2):
            assert host[r][1] == device[r][1] > 0
            for t in range(STEPS):
                for a, b in zip(host[r][0][t], device[r][0][t]):
                    assert (a - b).abs().max() < 1e-6, (kind, t)


def drawn():
    params = [torch.nn.Parameter(torch.zeros(40, 3, device=DEVICE))]
    opt = OptimizerThere(params, method="random", between="ranks", lr=1.0,
                          replicator_compression_rate=0.25)
    rows = []
    for _ in range(4):
        before = params[0].detach().clone()
        params[0].grad = torch.ones(40, 3, device=DEVICE)
        opt.step()
        rows.append(((params[0] != before).sum(1) == 3).nonzero().flatten().tolist())
    return rows


def test_random_rows_are_the_same_everywhere():
    a, b = run(drawn, 2)
    assert a == b and all(len(rows) == 10 for rows in a) and len({tuple(r) for r in a}) == 4


def trained(stop, folder, dtype):
    rank, path = int(os.environ["RANK"]), os.path.join(folder, os.environ["RANK"])
    model = net(rank).to(dtype)
    opt = OptimizerThere(model, lr=2e-3, between="ranks", replicator_values="int8")
    first = 0
    losses = []
    for t in range(30):
        if t == stop:
            torch.save({"opt": opt.state_dict(), "model": model.state_dict()}, path)
            opt.close()
            model = net(rank).to(dtype)
            opt = OptimizerThere(model, lr=2e-3, between="ranks", replicator_values="int8")
            saved = torch.load(path)
            model.load_state_dict(saved["model"])
            opt.load_state_dict(saved["opt"])
        with opt.no_sync():
            loss_of(model, rank, 2 * t).backward()
        loss = loss_of(model, rank, 2 * t + 1)
        loss.backward()
        losses.append(opt.step(loss).loss)
        opt.zero_grad()
    return flat(model), losses, first


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_learns_and_resumes_with_the_same_bits(dtype, tmp_path):
    whole, resumed = run(trained, 2, -1, tmp_path, dtype), run(trained, 2, 17, tmp_path, dtype)
    for (a, losses, _), (b, _, _) in zip(whole, resumed):
        assert torch.equal(a, b) and torch.equal(a, whole[0][0])
        assert losses[-1] < losses[0] - 0.3


# --- the copies, with a stand-in that writes down what is asked of the device ---


class Recorded:
    """torch.cuda, as far as it is used."""

    def __init__(self):
        self.said, self.now = [], "compute"
        outer = self

        class Stream:
            def __init__(self, _device):
                self.name = ("down", "up")[sum(s.startswith("stream") for s in outer.said)]
                outer.said.append(f"stream {self.name}")

            def wait_event(self, event):
                outer.said.append(f"{self.name} waits for {event.at}")

        class Event:
            at = None

            def record(self, stream):
                self.at = stream if isinstance(stream, str) else stream.name
                outer.said.append(f"event in {self.at}")

            def query(self):
                return False

            def synchronize(self):
                outer.said.append(f"host waits for {self.at}")

        self.Stream, self.Event = Stream, Event

        class Current(Stream):
            def __init__(self):
                self.name = "compute"

        self.current_stream = lambda _device: Current()

    def stream(self, stream):
        import contextlib

        @contextlib.contextmanager
        def inside():
            self.now, before = stream.name, self.now
            yield
            self.now = before
        return inside()


class StandIn(CudaCopies):
    def _pinned(self, like):
        self.cuda.said.append(f"pinned in {self.cuda.now}")
        return torch.empty_like(like)

    def _to_device(self, pinned):
        self.cuda.said.append(f"copy up in {self.cuda.now}")
        return pinned.clone()

    def _used_by(self, _tensor, stream):
        self.cuda.said.append(f"kept for {stream.name}")


def test_copies_wait_for_what_they_copy():
    cuda = Recorded()
    copies = StandIn("cuda:0", cuda)
    arrival = copies.down(torch.arange(3))
    assert not arrival.here() and torch.equal(arrival.host(), torch.arange(3)) and arrival.here()
    assert cuda.said == ["stream down", "stream up", "event in compute", "pinned in compute",
                         "down waits for compute", "kept for down", "event in down",
                         "host waits for down"]
    across = torch.arange(6).view(2, 3).t()  # goes down as it is read there
    assert torch.equal(copies.down(across).host(), across) and \
        copies.down(across).host().is_contiguous()
    cuda.said.clear()
    assert torch.equal(copies.up(torch.arange(4)), torch.arange(4))
    assert cuda.said == ["pinned in compute", "copy up in up", "event in up",
                         "compute waits for up", "kept for compute"]
    cuda.said.clear()
    ours = torch.arange(4)  # lent, and written to again once it is up
    _, event = copies.lent(ours)
    assert copies.down(torch.arange(4, 8), ours, event).host() is ours and ours[0] == 4
    assert cuda.said[4:] == ["event in compute", "down waits for compute", "down waits for up", "kept for down",
                             "event in down", "host waits for down"]


def through_stand_in():
    model = net()
    cuda = Recorded()
    opt = OptimizerThere(model, copies=StandIn("cuda:0", cuda), lr=1e-3, between="ranks",
                          replicator_values="int8")
    for t in range(3):
        loss_of(model, int(os.environ["RANK"]), t).backward()
        opt.step()
    return flat(model)


def plainly():
    model = net()
    opt = OptimizerThere(model, lr=1e-3, between="ranks", replicator_values="int8")
    for t in range(3):
        loss_of(model, int(os.environ["RANK"]), t).backward()
        opt.step()
    return flat(model)


@pytest.mark.skipif(DEVICE != "cpu", reason="the stand-in copies nothing")
def test_steps_through_copies_are_the_same():
    assert torch.equal(run(through_stand_in, 2)[0], run(plainly, 2)[0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_cuda_device_does_what_the_host_does():
    run(on_both, 1)


def on_both():
    a, b = net(), net().cuda()
    ours = [OptimizerThere(m, lr=1e-3) for m in (a, b)]
    for t in range(5):
        for m, opt in zip((a, b), ours):
            for p, g in zip(m.parameters(), gradients([p.shape for p in a.parameters()], 0, t)):
                p.grad = g.to(p.device)
            opt.step()
    assert (flat(a) != flat(b).cpu()).float().mean() < 0.01
