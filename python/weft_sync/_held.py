# SPDX-License-Identifier: MIT
"""The mixers that code what they send, with their states where the parameters are: DiLoCo
(lib/mix/outer.c), SparseLoCo (lib/mix/sparseouter.c), gossip of coded differences
(lib/mix/choco.c). Their arithmetic, operation by operation, in the order of libweft's.

A state is one tensor [all elements] in libweft's order; `x` is a bucket's part of the
parameters, also float32. `give` returns what is sent: bytes, and places or None; `take` takes what
has arrived and returns the bucket's new parameters, or None where they stay. A `Mixer` brings both to
and from libweft."""

from __future__ import annotations

import ctypes as c
import math
from typing import Any, Sequence

import torch

from . import _codes
from ._codes import Rounding
from ._abi import Parcel
from ._library import Config
from ._places import Place
from ._sync import Sync

MEAN, LOST, HEARD = 1, 2, 3


class Held:
    """What the three have in common."""

    def __init__(self, config: Config, x: torch.Tensor, partners: int):
        def of(key: str) -> Any:
            return config.number(f"mixer.{key}")
        self.of, self.partners, self.weight = of, partners, 1.0
        self.values = of("values")
        self.stochastic = of("rounding") == "stochastic"
        #: by their names in a checkpoint
        self.states: dict[str, torch.Tensor] = self._states(x)

    def _states(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        raise NotImplementedError

    def give(self, parcel: Parcel, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        raise NotImplementedError

    def take(self, parcel: Parcel, came: torch.Tensor, x: torch.Tensor) -> torch.Tensor | None:
        raise NotImplementedError

    def _part(self, name: str, parcel: Parcel) -> torch.Tensor:
        return self.states[name][parcel.first:parcel.first + parcel.n]

    def _change(self, parcel: Parcel, x: torch.Tensor) -> torch.Tensor:
        change = self._part("start", parcel) - x
        return change if self.weight == 1 else change * _f32(self.weight)

    def _code(self, parcel: Parcel, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        how = Rounding(parcel.seed, parcel.exchange, parcel.place) if self.stochastic else None
        return _codes.encode(self.values, x, how)


def _merged(keep: float, x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """theta <- keep theta + (1 - keep) s"""
    return s.clone() if keep == 0 else x * _f32(keep) + s * _f32(1 - _f32(keep))


def _f32(x: float) -> float:
    """Rounded as libweft rounds its knobs."""
    return c.c_float(x).value


class Outer(Held):
    """DiLoCo, also with Muon inside (MuLoCo) and in fragments (Streaming DiLoCo)."""

    def _states(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.loses = self.values != "f32"
        states = {"start": x.clone(), "velocity": torch.zeros_like(x)}
        if self.loses:
            states["error"] = torch.zeros_like(x)
        if self.of("delay") > 0:
            states["pending"] = torch.full_like(x, math.nan)
        return states

    def give(self, parcel: Parcel, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        pending = self._part("pending", parcel) if "pending" in self.states else None
        if parcel.again:
            assert pending is not None
            return self._code(parcel, pending)[0], None
        change = self._change(parcel, x)
        if self.loses:
            error, keep = self._part("error", parcel), _f32(1 - (1 - self.of("feedback")))
            if keep < 1:
                error.mul_(keep)
            change = change + error
        if pending is not None:
            pending.copy_(change)
        coded, decoded = self._code(parcel, change)
        if self.loses:
            error.copy_(change - decoded)
        return coded, None

    def take(self, parcel: Parcel, came: torch.Tensor, x: torch.Tensor) -> torch.Tensor | None:
        came = came.view(torch.float32)
        if parcel.kind == LOST:
            self._part("error", parcel).add_(came)
            return None
        mu, eta = _f32(self.of("outer_momentum")), _f32(self.of("outer_lr"))
        s, v = self._part("start", parcel), self._part("velocity", parcel)
        v.mul_(mu).add_(came)
        s.sub_((v * mu + came) * eta)
        if "pending" in self.states:
            self._part("pending", parcel).fill_(math.nan)
        return _merged(self.of("merge"), x, s)


class SparseOuter(Held):
    """SparseLoCo."""

    def _states(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"start": x.clone(), "error": torch.zeros_like(x)}

    def give(self, parcel: Parcel, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        e, chunk = self._part("error", parcel), self.of("compression_chunk")
        e.mul_(_f32(1 - (1 - self.of("feedback")))).add_(self._change(parcel, x))
        places, values = _codes.choose(e, chunk, self.of("compression_topk"))
        coded, decoded = _codes.encode_bins(values.view(-1))
        runs = torch.zeros(places.shape[0], chunk, dtype=e.dtype, device=e.device)
        runs.scatter_(1, places.long(), decoded.view(values.shape))
        e.sub_(runs.view(-1)[:e.numel()])
        return coded, places

    def take(self, parcel: Parcel, came: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        s = self._part("start", parcel)
        s.sub_(came.view(torch.float32) * _f32(self.of("outer_lr")))
        return _merged(self.of("merge"), x, s)


class Choco(Held):
    """Gossip of coded differences."""

    def _states(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.sent: dict[tuple[int, int], torch.Tensor] = {}  # decoded, until they are mixed
        return {f"{what}.{k}": x.clone() for k in reversed(range(self.partners))
                for what in ("told", "heard")}

    def give(self, parcel: Parcel, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        told = self._part(self._name("told", parcel), parcel)
        coded, self.sent[parcel.bucket, parcel.partner] = self._code(parcel, x - told)
        return coded, None

    def take(self, parcel: Parcel, came: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        told = self._part(self._name("told", parcel), parcel)
        heard = self._part(self._name("heard", parcel), parcel)
        heard.add_(_codes.decode(self.values, came, parcel.n))
        told.add_(self.sent.pop((parcel.bucket, parcel.partner)))
        return x + (heard - told) * parcel.share

    def _name(self, what: str, parcel: Parcel) -> str:
        """libweft names states so that the first partner has the highest number."""
        return f"{what}.{self.partners - 1 - parcel.partner}"


#: by mixer.kind
KINDS: dict[str, type[Held]] = {"outer": Outer, "sparse_outer": SparseOuter, "choco": Choco}


class Mixer:
    """Parameters are what libweft has of them: one after another, in its order. Made after `Sync.begin`;
    `partners` is of `Sync.hold_mixer`."""

    def __init__(self, kind: type[Held], config: Config, places: Sequence[Place], sync: Sync, partners: int):
        self._sync, self._first = sync, not sync.goes_on  # there nothing is in flight when a step opens
        self._copies: Any = places[0].copies
        at = {place: sync.parameters(place.index) for place in places}
        base = min(at.values())
        self._at = {place: (address - base) // 4 for place, address in at.items()}
        self._order = sorted((place for place in places if place.shape.numel()), key=self._at.__getitem__)
        self._held = kind(config, self._read(0, sum(place.shape.numel() for place in places)), partners)
        self.states = self._held.states

    def weigh(self, weight: float) -> None:
        """By what the changes of the step under way are multiplied."""
        self._held.weight = weight

    def _inside(self, first: int, n: int) -> list[Place]:
        return [place for place in self._order if first <= self._at[place] < first + n]

    def _read(self, first: int, n: int) -> torch.Tensor:
        """[n] float32, a copy on the device."""
        found = [place.there().reshape(-1).to(torch.float32) for place in self._inside(first, n)]
        return torch.cat(found) if found else torch.empty(0, device=self._order[0].p.device)

    def _write(self, values: torch.Tensor, first: int) -> None:
        for place in self._inside(first, values.numel()):
            at = self._at[place] - first
            place.put(values[at:at + place.shape.numel()].view(place.shape))

    def part(self, name: str, place: Place) -> torch.Tensor:
        at = self._at[place]
        return self.states[name][at:at + place.shape.numel()].view(place.shape)

    def hand_over_first(self) -> list[Any]:
        """What the first step's opening sends."""
        first, self._first = self._first, False
        return self.hand_over() if first else []

    def hand_over(self) -> list[Any]:
        """All that is sent, coded, on its way to the host, and given to libweft. What is returned
        has to live until it is sent."""
        underway, sound = [], []
        parcels = self._sync.outgoing()
        for parcel in parcels:  # all first: one is coded while another is copied
            x = self._read(parcel.first, parcel.n)
            sound.append(x.isfinite().all())
            coded, places = self._held.give(parcel, x)
            underway.append([self._copies.down(t) for t in (coded, places) if t is not None])
        if parcels:
            self._check(parcels, self._copies.down(torch.stack(sound)).host())
        there = [[arrival.host() for arrival in arrivals] for arrivals in underway]
        for k, found in enumerate(there):
            self._sync.hand(k, found[0].data_ptr(), found[1].data_ptr() if len(found) > 1 else None)
        return there

    def _check(self, parcels: Sequence[Parcel], sound: torch.Tensor) -> None:
        """As on the host, this process fails before it has sent what is not finite."""
        for parcel, fine in zip(parcels, c.string_at(sound.data_ptr(), len(parcels))):
            for place in () if fine else self._inside(parcel.first, parcel.n):
                if not place.there().isfinite().all():
                    self._sync.not_finite(place.index)

    def take_in(self) -> None:
        for parcel in self._sync.incoming():
            came = self._copies.up(_bytes_of(parcel))
            mixed = self._held.take(parcel, came, self._read(parcel.first, parcel.n))
            if mixed is not None:
                self._write(mixed, parcel.first)


def _bytes_of(parcel: Parcel) -> torch.Tensor:
    """A copy of what libweft has of a parcel."""
    if parcel.n_bytes == 0:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    block = (c.c_char * parcel.n_bytes).from_address(parcel.bytes)
    return torch.frombuffer(block, dtype=torch.uint8).clone()


__all__ = ["KINDS", "Held", "Mixer"]
