# SPDX-License-Identifier: MIT
"""When processes are lost or come: what lies on devices goes into libweft's arrays, by whose ways it gets into the next
world, and to who comes; there it is taken up again. So all have the bits that they would have on the host.

    settle     between two steps, for all who were there     parameters, momenta, moments, a mixer's states
    take_up    the same ones, for who comes                  and a mixer is held again, where nothing of it is in flight"""

from __future__ import annotations

import zlib
from typing import Any, Iterator

import torch

from . import _buffers, _decide, _places
from ._held import KINDS, Choco, Held, Mixer
from ._abi import HOLDS, MEETS
from ._library import log
from ._own import Own
from ._parts import Parts
from ._places import floats
from ._world import local


# --- the mean of optimizers' states, where outer steps are left (docs/methods.md section 12) ---

_APART = ("master",)  #: what follows from parameters
_NONE = ("Rprop", "ASGD")  #: sizes of steps, by the signs or the number of one process's gradients
_LAYOUTS = 4093  #: that the number of numbers tells apart, by zeros behind them


def have_mean(inner: Any) -> bool:
    """Whether the mean of several optimizers' states is a state: sums, means and maxima of gradients, and counters. Of
    another class than torch's own it is not known."""
    return inner is None or isinstance(inner, Own) or (
        type(inner).__module__.startswith("torch.optim") and type(inner).__name__ not in _NONE)


def _states(inner: torch.optim.Optimizer) -> Iterator[tuple[int, str, torch.Tensor]]:
    """Each with the number of its parameter, and its name."""
    params = [p for group in inner.param_groups for p in group["params"]]
    for i, p in enumerate(params):
        for name, value in sorted(inner.state.get(p, {}).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point() and name not in _APART:
                yield i, name, local(value)


@torch.no_grad()
def flat(inner: torch.optim.Optimizer) -> tuple[Any, int]:
    """[n] float32 on the host, one after another, a copy, and n. Of processes that have states of other parameters (experts
    that no row has reached) n differs, nearly always: then there is no mean."""
    found = list(_states(inner))
    layout = repr([(i, name, value.numel()) for i, name, value in found])
    numbers = torch.cat([value.reshape(-1).to("cpu", torch.float32) for _, _, value in found] +
                        [torch.zeros(1 + zlib.crc32(layout.encode()) % _LAYOUTS, device="cpu")])
    return numbers, numbers.numel()


@torch.no_grad()
def take(inner: torch.optim.Optimizer, mean: torch.Tensor) -> None:
    """The states become what `flat` gave, as it is now; counters whole numbers."""
    at = 0
    for _, name, value in _states(inner):
        now = mean[at:at + value.numel()].view(value.shape)
        value.copy_(now.round() if name == "step" else now)
        at += value.numel()


class Changes(Parts):
    """A part of Optimizer."""

    _moves_forms = False  # what crosses the wire may change
    _form = ""            # what does
    _mean: torch.Tensor | None = None  # of the states of the optimizer inside, until the form is another one
    _averages = False  # the masters are what is averaged
    _let_go = False    # of a mixer, in a world that has ended
    _instead = ""      # keys that keep what is written between steps; empty: all do
    _told = False      # that these do not

    # --- what crosses the wire changes ---

    def _now(self, key: str) -> Any:
        """A key of the configuration, as it is in the step under way."""
        now = _decide.keys_of(self._form) if self._moves_forms else {}
        return now[key] if key in now else self._config.number(key)

    def _follows(self, uneven: bool) -> bool:
        """Whether any form could be left, before one is taken (lib/loop/sync_replan.c)."""
        return not uneven and not self._skips and self._shards == 1 and have_mean(self.inner)

    def _settle_places(self) -> None:
        """Where torch steps on a device, parameters and gradients come down only to be sent."""
        def of(key: str) -> Any:
            return self._now(key)
        far = [] if self.inner is None or self._node is not None else \
            [place for place in self._places if place.copies is not None]
        gossips = self._config.has(MEETS)
        plain = gossips and not self._config.has(HOLDS)
        #: whether a mixer changes parameters before the optimizer steps, and after it
        self._mixes_before = not far or (gossips and not (plain and of("mixer.order") != "awc"))
        self._mixes_after = not far or not (plain and of("mixer.order") == "awc")
        #: keys with which the next step would not mix in what was sent before a write
        self._instead = "mixer_order='atc'" if gossips and of("mixer.order") == "awc" else \
            "mixer_delay=0" if of("mixer.delay") > 0 else ""
        for place in self._places:
            place.alone = self._theirs is not None and of("replicator.kind") == "none"
            place.watched = place.in_place and self._instead != "" and not self._told
        for place in far:
            place.rests = not gossips
            place.stays = of("replicator.kind") == "none" and \
                (of("optimizer.clip") == 0 if self._own is not None else "optimizer.clip" not in self._asked_keys)
            place.own = self._own
            place.straight = place.could and not place.stays and self._chooses is None

    @torch.no_grad()
    def _take_in(self) -> None:
        """What the program has written; of which a part is undone where others' copies are from before."""
        if not _places.take_in(self._places) or not self._instead or self.report is None or self._told \
                or self.place()[1] < 2:
            return
        self._told = True
        log.warning("parameters were written to between two steps (clamped, swapped, loaded?), but steps mix in what other "
                    "processes sent before that, which undoes a part of it; expected %s for writes that stay", self._instead)
        for place in self._places:
            place.watched = False

    def _meets(self) -> Any:
        """What libweft asks when outer steps are left; None: they are not."""
        moves = self.decision is not None or self.mesh.joins
        return self._give_moments if moves and self.inner is not None and have_mean(self.inner) else None

    def _give_moments(self) -> tuple[int, int]:
        """Called by libweft, in the thread that waits for others, which leaves the mean there."""
        self._mean, n = flat(self.inner)
        return self._mean.data_ptr(), n

    def _may_change(self) -> None:
        """Before the first step."""
        if self.decision is not None and not self.mesh.joins:
            _decide.follow(self._sync, self.decision, self._limits)
        self._moves_forms = self._sync.follows()

    def _change_form(self, entered: bool = False) -> None:
        """When a step opens. `entered`: before the first one; who has come hears of it then."""
        if entered:
            self._moves_forms = self._sync.follows()
        form = self._sync.form() if self._moves_forms else ""
        mean, self._mean = None if entered else self._mean, None  # what was left of a world that has ended
        if form == self._form:
            return
        self._form = form
        equal = self._now("mixer.kind") == "none"
        if mean is not None and equal:
            take(self.inner, mean)
        self._settle_places()
        self._buffers = _buffers.of(None if equal else self._asked_buffers, self._module, self._config, self.placed, equal)

    # --- members change ---

    def _held_kind(self) -> type[Held] | None:
        """What a mixer remembers is kept on the device that all parameters are on; where the run goes on without
        lost processes, if nothing of it is in flight between steps."""
        kind = KINDS.get(self._config.number("mixer.kind"))
        alone = self.inner is not None and self._node is None and not self._skips and not self._keeps_here
        if self._moves_forms:  # what libweft has of it is left and begun there
            return None
        if not alone or self._config.number("replicator.kind") != "none" or any(p.near for p in self._places):
            return None
        why = ""
        if self._sync.goes_on and (kind is Choco or self._config.number("mixer.delay") > 0):
            why = "the run goes on when a process is lost; expected mesh_on_loss='end'"
        elif len({place.p.device for place in self._places}) > 1:
            why = "parameters are on several devices; expected one"
        if kind is not None and why:
            log.warning("what mixer.kind %s remembers lies on the host, and all parameters cross the bus to it, as %s, or "
                        "state_device='cpu' where that is meant", self._config.number("mixer.kind"), why)
        return None if why else kind

    def _hold(self, kind: type[Held]) -> int:
        partners = int(self._sync.hold_mixer())
        self._mixes_before = self._mixes_after = False
        for place in self._places:
            place.rests = True
        return partners

    @torch.no_grad()
    def _settle(self) -> None:
        """Called by libweft, in the thread that waits for others."""
        for copies in {place.copies for place in self._places if place.copies is not None}:
            copies.settle()
        if not self._averages:
            _places.bring_down([place for place in self._places if place.rests])
        for name, k in self._in_arrays():
            for place in self._places:
                there = self._there(place, name)
                if there is not None:
                    _places.write(self._sync.state(k, place.index), there.detach())
        if self._held is not None:
            self._held, self._let_go = None, True
            self._settle_places()

    def _in_arrays(self) -> list[tuple[str, int]]:
        """Names and numbers of arrays of libweft's, but of the parameters."""
        return [(name, k) for k, name in enumerate(self._sync.states()) if k > 0]

    @torch.no_grad()
    def _take_up(self, came: bool) -> None:
        """`came`: this process has come, and has what the others gave."""
        kind = self._held_kind() if came or self._let_go else None
        self._let_go = False
        if not came and kind is None:
            return
        found = {(name, place.index): floats(self._sync.state(k, place.index), place.shape.numel()).view(place.shape)
                 for name, k in self._in_arrays() for place in self._places if came or name.startswith("mixer.")}
        for place in self._places if came else ():
            for (name, index), values in found.items():
                there = self._there(place, name) if index == place.index else None
                if there is not None:
                    there.copy_(values)
        if kind is None:
            return
        self._held = Mixer(kind, self._config, self._places, self._sync, self._hold(kind))
        for name in self._held.states:
            for place in self._places:
                self._held.part(name, place).copy_(found[f"mixer.{name}", place.index])


__all__ = ["Changes", "flat", "have_mean", "take"]
