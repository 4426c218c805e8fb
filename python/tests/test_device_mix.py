# SPDX-License-Identifier: MIT
"""Mixers with their states and codes where the tensors lie, against libweft's on the host."""

import contextlib
import hashlib
import logging
import math
import os

import pytest
import torch
from models import DEVICE, MixThere, OptimizerThere, flat, loss_of, net
from ranks import run
from test_device import Recorded, StandIn

import weft_sync.torch as weft
from weft_sync import _codes, _decide, _optimizer, _world
from weft_sync._copies import HostCopies

SHAPES = [(20, 26), (7, 11, 5), (33,), (3, 2), (9, 1), (65, 3), (1000,)]  # no multiples of 64
STEPS = 9
VALUES = ["f32", "bf16", "int8", "int4", "sign"]

OUTER = dict(method="diloco", mixer_outer_every=3)
STREAMING = dict(method="streaming-diloco", mixer_outer_every=4, mixer_fragments=2, mixer_delay=2,
                 mesh_min_message=1000)
CHOCO = dict(method="dadam", mixer_kind="choco", mixer_topology="ring")
def coded(keys):
    return [{**keys, "mixer_values": values} for values in VALUES]


OTHERS = [
    dict(method="diloco", mixer_outer_every=2, mixer_values="int8", mixer_feedback=0.7,
         mixer_rounding="stochastic", mesh_min_message=2000),
    dict(CHOCO, mixer_order="atc", mixer_values="int4", mixer_rounding="stochastic",
         mixer_gamma=0.4),
    dict(method="diloco", mixer_outer_every=2, mixer_outer_momentum=0.4, mixer_values="int4"),
    dict(method="sparseloco", mixer_outer_every=2, mixer_feedback=0.9, mixer_merge=0.5),
    dict(method="sparseloco", mixer_outer_every=3, mixer_compression_chunk=64,
         mixer_compression_topk=5),
    dict(method="dadam"), dict(method="dadam", mixer_order="atc", mixer_gamma=0.5),
]
SPARSE, GOSSIP = OTHERS[4], OTHERS[5]


ENDS = {"mesh_on_loss": "end"}  # else libweft keeps what a process that comes would need


def start():
    g = torch.Generator().manual_seed(1)
    return [torch.nn.Parameter(torch.randn(shape, generator=g)) for shape in SHAPES]


def step(params, optimizer, rank, t):
    g = torch.Generator().manual_seed(1000 * t + rank)
    for p in params:
        p.grad = torch.randn(p.shape, generator=g)
    optimizer.step()


def fresh():
    """A mesh without messages that were in flight when another mixer was closed."""
    return _world.founded(next(_world.meshes))


def bits(x):
    """Equal for equal bits; a NaN is a NaN."""
    whole = x.detach().float().nan_to_num(1e30).contiguous().numpy().tobytes()
    return hashlib.sha256(whole).hexdigest()


def mixed(kinds, keys, stop=-1):
    """Hashes of parameters after each step, bytes, and the last state; kinds: what each rank is, and what it
    is after a state that was saved at `stop`."""
    rank = int(os.environ["RANK"])
    kind, later = kinds[rank] if isinstance(kinds, list) else (kinds, kinds)
    params = start()
    optimizer = torch.optim.AdamW(params, lr=0.01)
    keys = {**keys, **ENDS}
    mix = kind(params, optimizer, between="ranks", mesh=fresh(), **keys)
    seen, sent = [], []
    for t in range(STEPS):
        if t == stop:
            saved = mix.state_dict()
            mix.close()
            params = start()
            optimizer = torch.optim.AdamW(params, lr=0.01)
            mix = later(params, optimizer, between="ranks", mesh=fresh(), **keys)
            mix.load_state_dict(saved)
        step(params, optimizer, rank, t)
        seen.append([bits(p) for p in params])
        sent.append(mix.report.wire_bytes)
    saved = mix.state_dict()
    mix.close()
    state = {(i, name): bits(x) for i, arrays in saved["state"].items()
             for name, x in arrays.items()}
    return seen, sent, state, saved["weft"]


def each(kinds, runs, stop=-1):
    return [mixed(kinds, keys, stop) for keys in runs]


def check_same(a, b):
    for one, other in ((x, y) for ours, theirs in zip(a, b) for x, y in zip(ours, theirs)):
        assert one == other and sum(one[1]) > 0


@pytest.mark.parametrize("runs", [coded(OUTER), coded(STREAMING), coded(CHOCO), OTHERS],
                         ids=["outer", "streaming", "choco", "others"])
def test_all_bits_are_libwefts(runs):
    check_same(run(each, 3, weft.Mix, runs), run(each, 3, MixThere, runs))


SOME = [{**OUTER, "mixer_values": "int4"}, {**STREAMING, "mixer_values": "f32"},
        {**STREAMING, "mixer_values": "int8"}, {**CHOCO, "mixer_values": "sign"}, SPARSE, GOSSIP]


def test_ranks_of_both_kinds_train_together():
    both = [(MixThere, MixThere), (weft.Mix, weft.Mix), (MixThere, MixThere)]
    check_same(run(each, 3, weft.Mix, SOME), run(each, 3, both, SOME))


def test_each_loads_what_the_other_saved():
    """Also a change that is in flight, before and after it was answered."""
    whole = run(each, 2, weft.Mix, SOME)
    kinds = [(MixThere, weft.Mix), (weft.Mix, MixThere)]
    for stop in (4, 5, 6):
        for ours, theirs in zip(whole, run(each, 2, kinds, SOME, stop)):
            for keys, a, b in zip(SOME, ours, theirs):
                assert a[0] == b[0] and a[2:] == b[2:], (stop, keys)


# --- what is not finite ---


def astray(kind, keys):
    """Of rank 1 the second parameter is no number after the first step."""
    rank, params = int(os.environ["RANK"]), start()
    optimizer = torch.optim.SGD(params, lr=0.01)
    mix = kind(params, optimizer, between="ranks", mesh=fresh(), **keys, **ENDS)
    with pytest.raises(weft.Error) as found:
        for t in range(STEPS):
            for p in params:
                p.grad = torch.ones_like(p)
            if rank == 1 and t == 0:
                params[1].grad[3] = math.nan
            optimizer.step()
    return str(found.value), flat_of(params).isfinite().all().item()


def flat_of(params):
    return torch.cat([p.detach().reshape(-1) for p in params])


@pytest.mark.parametrize("keys", [{**OUTER, "mixer_values": "int8"}, {**CHOCO, "mixer_values": "bf16"}, SPARSE],
                         ids=["outer", "choco", "sparse"])
def test_what_is_not_finite_is_named_and_spoils_nobody(keys):
    (theirs, whole), (ours, _) = run(astray, 2, MixThere, keys)
    step = 1 if keys["method"] == "dadam" else 3  # when it would be sent
    assert f"the parameters are not finite at step {step} (learning rate 0.01): tensor parameter 1" in ours
    assert whole and "rank 1" in theirs and f"not finite at step {step}" in theirs


# --- codes of what is not an ordinary number ---


def strange():
    """SGD along given numbers, so that differences are these: what is too large or too small for a
    scale, zeros of both signs. What is not finite ends a rank before it is coded (test_back.py)."""
    params = [torch.nn.Parameter(torch.zeros(64 * 8 + 37))]
    out = []
    for kind in (weft.Mix, MixThere):
        for values in VALUES:
            for keys in (dict(method="diloco", mixer_outer_every=1, mixer_values=values),
                         dict(method="sparseloco", mixer_outer_every=1,
                              mixer_compression_chunk=16, mixer_compression_topk=3)):
                with torch.no_grad():
                    params[0].zero_()
                optimizer = torch.optim.SGD(params, lr=1.0)
                mix = kind(params, optimizer, between="ranks", **keys, **ENDS)
                g = torch.Generator().manual_seed(3)
                x = torch.randn(len(params[0]), generator=g)
                x[130], x[131] = 3e18, -1e17
                x[192:256] *= 1e-33
                x[256:320], x[300:310] = 0.0, -0.0
                x[320:384], x[384:448] = 1.5, 2.0 ** -100
                x[448] = 1.2e18
                for _ in range(2):
                    params[0].grad = x.clone()
                    optimizer.step()
                out.append(params[0].detach().clone())
                mix.close()
    return out


def test_numbers_that_have_no_code_are_treated_alike():
    for found in run(strange, 2):
        half = len(found) // 2
        for a, b in zip(found[:half], found[half:]):
            assert torch.equal(a.isnan(), b.isnan())
            assert torch.equal(a.nan_to_num(7), b.nan_to_num(7))


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("n", [1, 7, 63, 64, 65, 128, 1000])
def test_a_section_gives_back_what_encode_says(values, n):
    x = torch.randn(n, generator=torch.Generator().manual_seed(n))
    coded, decoded = _codes.encode(values, x)
    assert len(coded) == _codes.n_bytes(values, n)
    assert torch.equal(_codes.decode(values, coded, n), decoded)


@pytest.mark.parametrize("values", ["int8", "int4", "sign"])
def test_scales_are_those_of_the_page(values):
    """docs/wire-format.md: none from 2^100 on, and of signs the mean of those that are there."""
    x = torch.ones(64)
    for largest, has in ((2.0 ** 100, False), (2.0 ** 100 * (1 - 2.0 ** -24), True)):
        x[5] = largest
        decoded = _codes.encode(values, x)[1]
        assert bool(decoded.isfinite().all()) == has and (has or bool(decoded.isnan().all()))
    assert torch.equal(_codes.encode("sign", torch.full((67,), 2.0))[1], torch.full((67,), 2.0))


# --- what goes to the host ---


class Counted(HostCopies):
    def __init__(self):
        self.copies, self.bytes_down, self.bytes_up = 0, 0, 0

    def down(self, tensor, *into):
        self.copies += 1
        self.bytes_down += tensor.numel() * tensor.element_size()
        return super().down(tensor, *into)

    def up(self, host):
        self.bytes_up += host.numel() * host.element_size()
        return super().up(host)


@contextlib.contextmanager
def no_other_way_to_the_host():
    """Nothing but `copies` may wait for a device."""
    names = ["item", "cpu", "tolist", "numpy", "__bool__", "__float__", "__int__"]
    before = {name: getattr(torch.Tensor, name) for name in names}

    def refuse(tensor, *_, **__):
        raise AssertionError("a device would be waited for")
    for name in names:
        setattr(torch.Tensor, name, refuse)
    try:
        yield
    finally:
        for name in names:
            setattr(torch.Tensor, name, before[name])


def counted(keys):
    params, copies = start(), Counted()
    optimizer = torch.optim.SGD(params, lr=0.1)
    mix = MixThere(params, optimizer, between="ranks", copies=copies, **keys, **ENDS)
    found = []
    for t in range(5):
        for p in params:
            p.grad = torch.ones_like(p)
        before = (copies.copies, copies.bytes_down, copies.bytes_up)
        with no_other_way_to_the_host():
            optimizer.step()
        now = (copies.copies, copies.bytes_down, copies.bytes_up)
        found.append(tuple(b - a for a, b in zip(before, now)))
    mix.close()
    return found


def test_only_what_is_sent_goes_to_the_host():
    n = sum(math.prod(shape) for shape in SHAPES)
    one = {"mesh_min_message": 1 << 20}  # one bucket: with it a byte says whether all of it is finite
    section = _codes.n_bytes("int8", n)
    for rank, steps in enumerate(run(counted, 2, dict(OUTER, mixer_values="int8", **one))):
        lost = n // 2 // 64 * 64 if rank == 0 else n - n // 2 // 64 * 64
        assert steps[0] == steps[1] == (0, 0, 0) and steps[3] == (0, 0, 0)
        assert steps[2][:2] == (2, section + 1)  # and up come the mean, and what coding it lost
        assert abs(steps[2][2] - 4 * (n + lost)) <= 4 * 64
    for steps in run(counted, 2, dict(CHOCO, mixer_values="int4", **one)):
        section = _codes.n_bytes("int4", n)
        assert steps[0][:2] == (4, 2 * section + 2)  # the first step's, before it, too
        assert steps[1:] == [(2, section + 1, section)] * 4
    keys = dict(method="sparseloco", mixer_outer_every=1, mixer_compression_chunk=64,
                mixer_compression_topk=4, **one)
    for steps in run(counted, 2, keys):
        k = -(-n // 64) * 4
        bins = k // 512 * 136 + (8 + -(-(k % 512) // 4) if k % 512 else 0)
        assert steps == [(3, 4 * k + bins + 1, 4 * n)] * 5


def through(copies, keys):
    model = net(int(os.environ["RANK"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mix = MixThere(model, optimizer, copies=StandIn("cuda:0", Recorded()) if copies else None,
                   between="ranks", **keys, **ENDS)
    for t in range(6):
        loss_of(model, int(os.environ["RANK"]), t).backward()
        optimizer.step()
        optimizer.zero_grad()
    with mix.averaged():
        mean = flat(model).clone()
    own = flat(model).clone()
    mix.average()
    assert torch.equal(mean, flat(model))
    return own, mean


@pytest.mark.parametrize("keys", [SOME[0], SOME[3], SPARSE, GOSSIP],
                         ids=["outer", "choco", "sparse", "gossip"])
@pytest.mark.skipif(DEVICE != "cpu", reason="the stand-in copies nothing")
def test_streams_and_pinned_memory_change_nothing(keys):
    a, b = run(through, 2, False, keys), run(through, 2, True, keys)
    for (own, mean), (other, the_mean) in zip(a, b):
        assert torch.equal(own, other) and torch.equal(mean, the_mean)
    assert torch.equal(a[0][1], a[1][1])


def back_and_forth():
    """An exchange that may change: whether memory is pinned, and where gradients go with outer steps and without."""
    pins, storage = [], _optimizer.Storage
    _optimizer.Storage = lambda pinned: pins.append(pinned) or storage()
    _decide.decide = lambda *_: _decide.Decision("diloco", {}, "")
    model = net()
    optimizer = OptimizerThere(model, torch.optim.AdamW(model.parameters()), method="auto", step=0.1,
                               copies=StandIn("cuda:0", Recorded()))
    optimizer._moves_forms, straight = True, []
    for optimizer._form in ("diloco H=50", "full sync", "diloco H=50", "full sync"):
        optimizer._settle_places()
        straight.append({place.straight for place in optimizer._places})
    return pins, straight


@pytest.mark.skipif(DEVICE != "cpu", reason="the stand-in copies nothing")
def test_gradients_go_straight_again_when_outer_steps_are_left():
    assert run(back_and_forth, 1) == [([True], [{False}, {True}] * 2)]


def bf16(kind):
    model = net(0).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    kind(model, optimizer, between="ranks", **SOME[0], **ENDS)
    for t in range(7):
        loss_of(model, int(os.environ["RANK"]), t).backward()
        optimizer.step()
        optimizer.zero_grad()
    return flat(model)


def test_parameters_of_16_bits_are_as_with_mix():
    assert torch.equal(run(bf16, 2, weft.Mix)[1], run(bf16, 2, MixThere)[1])


# --- wrong use ---


def wrong_use():
    params = [torch.nn.Parameter(torch.zeros(4))]
    sgd = torch.optim.SGD(params, lr=1.0)
    mix = MixThere(params, sgd, method="diloco", mixer_outer_every=1)
    with pytest.raises(weft.Error, match="parcel 0 of 0 is handed over"):
        mix.weft._sync.hand(0, params[0].data_ptr(), None)
    with pytest.raises(weft.Error, match="comes after weft_sync_begin"):
        mix.weft._sync.hold_mixer()
    saved = mix.state_dict()
    mix.close()
    other = MixThere(params, sgd, method="diloco", mixer_outer_every=1, mixer_values="int8")
    with pytest.raises(weft.Error, match="saved by rank 0 of 1 with arrays parameters.*error"):
        other.load_state_dict(saved)
    other.weft._held.hand_over = lambda: None  # a program that forgets
    params[0].grad = torch.ones(4)
    with pytest.raises(weft.Error, match="bucket 0 is sent now, but the program has not handed"):
        sgd.step()
    other.close()
    host = weft.Mix(params, sgd, method="diloco")
    with pytest.raises(weft.Error, match="asked for without weft_sync_hold_mixer"):
        host.weft._sync.incoming()
    host.close()


def test_what_it_cannot_do_is_said():
    run(wrong_use, 1)


def told(keys):
    """What is said where mixers that may have something in flight lie on the host."""
    said, handler = [], logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("weft_sync").addHandler(handler)
    params = start()
    with MixThere(params, torch.optim.SGD(params, lr=0.1), between="ranks", **keys):
        return said


@pytest.mark.skipif(DEVICE != "cpu", reason="where it lies is no matter")
@pytest.mark.parametrize("keys", [CHOCO, {**OUTER, "mixer_delay": 1}])
def test_states_that_lie_on_the_host_unasked_are_told(keys):
    for said in run(told, 2, keys):
        assert len(said) == 1 and "remembers lies on the host" in said[0] and "mesh_on_loss='end'" in said[0]
    for fine in ({**keys, **ENDS}, {**keys, "state_device": "cpu"}, OUTER):
        assert run(told, 2, fine) == [[], []]
