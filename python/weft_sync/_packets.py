# SPDX-License-Identifier: MIT
"""Compression where parameters lie on devices: the momentum stays there, the coefficients that are sent go to
the host, and those of all come back, to be transformed back there. For demo and topk. Coding, routes, order
of sums and counting of bytes are libweft's."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

import torch

from . import _alike
from ._compress import Runs, Squares, Whole
from ._abi import OFFERS, TRANSFORMS
from ._library import Config, Error
from ._own import plainly
from ._places import Place, Storage
from ._sync import Sync
from ._world import dense


class Kind(NamedTuple):
    """The replicator's keys."""

    transforms: bool
    chunk: int
    k: int
    dims: int
    dense_below: int
    decay: float
    alpha: float
    mean: bool    # m <- decay m + (1 - decay) g
    sign: bool
    exact: bool   # what is sent is what is decoded
    sharded: bool


def kind_of(config: Config) -> Kind | None:
    """None: what is sent is chosen on the host, of whole gradients."""
    def of(key: str) -> Any:
        return config.number(f"replicator.{key}")
    if not config.has(OFFERS):
        return None
    return Kind(config.has(TRANSFORMS), of("compression_chunk"), of("compression_topk"), of("compression_dims"),
                of("dense_below"), of("compression_decay"), of("alpha"), of("momentum_style") == "mean",
                of("sign"), of("values") == "f32" and not of("node_values"), of("exchange") == "sharded")


def alike(kind: Kind, places: Sequence[Place]) -> str:
    """What all must have in common to round alike."""
    if not kind.transforms or kind.sharded:
        return ""
    return "".join(f"transformed back (by any with replicator_exchange='sharded') by: {by}\n"
                   for by in sorted({_alike.rounding(place.p.device) for place in places}))


def _code(kind: Kind, shape: torch.Size) -> Any:
    """What chooses of a tensor."""
    if not kind.transforms:
        return Runs(kind.chunk, kind.k, transformed=False)
    if shape.numel() < kind.dense_below:
        return Whole()
    if kind.dims == 2 and len(shape) > 1 and shape.numel() > shape[0]:
        return Squares(kind.chunk, kind.k)
    return Runs(kind.chunk, max(1, kind.k // kind.chunk) if kind.dims == 2 else kind.k)


def _check(place: Place, code: Any, sync: Sync) -> None:
    """That both sides cut the tensor alike."""
    shape, n = sync.offer_shape(place.index), place.shape.numel()
    wanted = (True, n, n) if isinstance(code, Whole) else (False, code.k, code.c)
    if n and (shape.whole, shape.k, shape.elements) != wanted:
        raise Error("internal", f"parameter {place.index}: libweft sends {shape.k} of "
                    f"{shape.elements}, this package otherwise")


class Packet:
    """Tensors of one device whose momenta lie in one array [elements], which are sent by one operation, once
    the gradients of all of them are there: as many launches as for one tensor."""

    def __init__(self, tensors: Sequence[Place], code: Any, kind: Kind):
        self.tensors, self.code, self.kind = tensors, code, kind
        self.copies: Any = tensors[0].copies
        self._lay()
        self.forget()

    def forget(self) -> None:
        """Before a step: gradients that are not here, directions that are not named, whether it is sent."""
        self.waits, self.told, self.sent = len(self.tensors), 0, False

    def _lay(self) -> None:
        """From bytes' first bits on, because signs are bits; runs are whole."""
        self.first, end = [], 0
        unit = 8 * self.code.c if type(self.code) is Runs else 8
        for t in self.tensors:
            self.first.append(end)
            end += -(-t.shape.numel() // unit) * unit
        self.flat = torch.zeros(end, dtype=torch.float32, device=self.tensors[0].p.device)
        gaps = torch.ones(end, dtype=torch.bool, device="cpu")
        for t, first in zip(self.tensors, self.first):
            t.momentum = self.flat[first:first + t.shape.numel()].view(t.shape)
            gaps[first:first + t.shape.numel()] = False
        self.gaps = gaps.nonzero().view(-1).to(self.flat.device)
        self.room: list[torch.Tensor] = []  # [ranks, chunks, k]: places and values that others sent, too

    def send(self, gain: float, weight: float) -> None:
        """m <- decay m + gain weight g; and what is chosen of it leaves. Gradients stay in p.grad to be looked at: who
        changes them now is told (`Place.changed`)."""
        with plainly(self.flat.device):
            self._send(gain, weight)

    def _send(self, gain: float, weight: float) -> None:
        gain = weight * (1 - self.kind.decay if self.kind.mean else gain)
        self.flat.mul_(self.kind.decay)
        grads = [(t, dense(t.p)) for t in self.tensors if t.p.grad is not None]
        if grads and weight > 0:  # gradients of no rows may be anything
            torch._foreach_add_([t.momentum for t, _ in grads], [g.to(torch.float32) for _, g in grads], alpha=gain)
        for t, grad in grads:
            t.kept, t.version = (grad, grad._version), grad._version
        places, values = self.code.choose(self._one())
        if self.kind.exact:
            self._lose(places, values)
        self.on_device = None if self.kind.exact else places
        self.places = None if places is None else self.copies.down(places)
        self.values = self.copies.down(values)
        self.sent = True

    def _one(self) -> torch.Tensor:
        """What is chosen of: squares are of a matrix."""
        return self.tensors[0].momentum if isinstance(self.code, Squares) else self.flat

    def arrived(self) -> bool:
        return all(t is None or t.here() for t in (self.places, self.values))

    def _lose(self, places: Any, values: torch.Tensor) -> None:
        one = self._one()
        one.sub_(self.code.expand(places, values, one.shape), alpha=self.kind.alpha)
        if not isinstance(self.code, Squares):
            self.flat[self.gaps] = 0  # a transform back is not zero there

    def hand_over(self, sync: Sync) -> None:
        self.host = (None if self.places is None else self.places.host(), self.values.host())
        places, values = self.host
        if self.code.transformed:
            self._make_room(sync, places, values)
        for t, first in zip(self.tensors, self.first):
            at = first if places is None else first // self.code.c * self.code.k
            if self.room and t.shape.numel():
                there, numbers = (one.view(-1)[at:].data_ptr() for one in self.room)
                sync.hear(t.index, there, numbers, values.numel())
            sync.offer(t.index, None if places is None else places.view(-1)[at:].data_ptr(),
                       values.view(-1)[at:].data_ptr())

    def _make_room(self, sync: Sync, *chosen: Any) -> None:
        """Anew in each step: what is on its way up stays as it is."""
        ranks = sync.place()[1] // sync.config.number("mesh.shards")
        self.room = [self.copies.room(torch.empty(ranks, *one.shape, dtype=one.dtype, device="cpu"))
                     for one in chosen]

    def tell(self, sync: Sync, storage: Storage) -> None:
        """One more tensor is agreed on. After the last all have their directions in p.grad, and the momentum
        loses what the others decode."""
        self.told += 1
        if self.told < len(self.tensors):
            return
        with plainly(self.flat.device):
            for t, found in zip(self.tensors, self._directions(sync, storage)):
                t.p.grad = t.as_grad(found)

    def _directions(self, sync: Sync, storage: Storage) -> list[torch.Tensor]:
        if not self.kind.exact:
            self._lose(self.on_device, self.copies.up(self.host[1]))
        heard = [sync.heard(t.index) if self.room else 0 for t in self.tensors]
        ends = [first + t.shape.numel() for t, first in zip(self.tensors, self.first)]
        found, other = self.flat, None
        if not all(n or first == end for n, first, end in zip(heard, self.first, ends)):
            found = other = self._signs(sync) if self.kind.sign else self._numbers(sync, storage)
        if any(heard):
            found = self._transformed_back(heard).reshape(-1)
        for n, first, end in zip(heard, self.first, ends):
            if n == 0 and other is not None and other is not found:
                found[first:end] = other[first:end]
        return [found[first:end].view(t.shape) for t, first, end in zip(self.tensors, self.first, ends)]

    def _transformed_back(self, heard: Sequence[int]) -> torch.Tensor:
        """Of what each process sent; of tensors that are not `heard`, and of gaps, 0."""
        there = torch.zeros(self.room[0].shape[:2], dtype=torch.bool, device="cpu")
        for t, first, n in zip(self.tensors, self.first, heard):
            begin, long = first // self.code.c, -(-t.shape.numel() // self.code.c)
            there[:n, begin:begin + long if type(self.code) is Runs else None] = True
        for one in self.room:
            one[~there] = 0
        places, values = (self.copies.lent(one[:max(heard)])[0] for one in self.room)
        return self.code.agreed(places, values, self._one().shape, self.kind.sign)

    def _numbers(self, sync: Sync, storage: Storage) -> torch.Tensor:
        found = torch.empty(self.flat.shape, dtype=torch.float32, device="cpu")
        for t, first in zip(self.tensors, self.first):
            n = t.shape.numel()
            found[first:first + n] = storage.tensor(sync.gradients(t.index), t.shape).view(-1)
        return self.copies.up(found)

    def _signs(self, sync: Sync) -> torch.Tensor:
        bits = torch.zeros(2, self.flat.numel() // 8, dtype=torch.uint8, device="cpu")
        wrong = []
        for t, first in zip(self.tensors, self.first):
            if not sync.signs(t.index, bits[0, first // 8:].data_ptr(), bits[1, first // 8:].data_ptr()):
                wrong.append((first, first + t.shape.numel()))
        there = self.copies.up(bits)
        each = torch.arange(8, dtype=torch.uint8, device=there.device)
        below, moves = ((there.unsqueeze(-1) >> each) & 1).view(2, -1).to(torch.float32)
        found = moves * (1 - 2 * below)
        for first, end in wrong:
            found[first:end] = math.nan
        return found


TOGETHER = 1 << 22  # elements of a packet, which leaves when it is full


def packed(places: Sequence[Place], kind: Kind, sync: Sync) -> list[Packet]:
    """In the order in which gradients come, which is about that of the parameters turned round."""
    found: list[Packet] = []
    open_: dict[Any, list[Place]] = {}

    def close(key: Any, code: Any) -> None:
        found.append(Packet(open_.pop(key), code, kind))
        for place in found[-1].tensors:
            place.packet = found[-1]

    codes: dict[Any, Any] = {}
    for place in reversed(places):
        code = _code(kind, place.shape)
        _check(place, code, sync)
        alone = isinstance(code, Squares) or place.shape.numel() == 0
        key = (place.index if alone else type(code), getattr(code, "k", 0), place.p.device)
        codes[key] = code
        open_.setdefault(key, []).append(place)
        if alone or sum(one.shape.numel() for one in open_[key]) >= TOGETHER:
            close(key, code)
    for key in list(open_):
        close(key, codes[key])
    return found


__all__ = ["Kind", "Packet", "alike", "kind_of", "packed"]
