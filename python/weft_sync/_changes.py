# SPDX-License-Identifier: MIT
"""When processes are lost or come: what lies on devices goes into libweft's arrays, by whose ways it gets into the next
world, and to who comes; there it is taken up again. So all have the bits that they would have on the host.

    settle     between two steps, for all who were there     parameters, momenta, moments, a mixer's states
    take_up    the same ones, for who comes                  and a mixer is held again, where nothing of it is in flight"""

from __future__ import annotations

from typing import Any

import torch

from . import _buffers, _decide, _moments, _places
from ._held import KINDS, Choco, Held, Mixer
from ._library import HOLDS, MEETS, Config, Mesh
from ._node import Node
from ._places import Place, floats


class Changes:
    """A part of Optimizer."""

    inner: Any
    _sync: Any
    _config: Config
    _node: Node | None
    _places: list[Place]
    _held: Mixer | None
    _skips: bool
    _shards: int
    _chooses: Any
    _asked_keys: set[str]
    _own: Any
    _keeps_here: bool
    _returns: Any
    _mixes_before: bool
    _mixes_after: bool
    _asked_buffers: str | None
    _buffers: list[torch.Tensor]
    _module: torch.nn.Module | None
    placed: int
    decision: _decide.Decision | None
    _limits: tuple[float, float]
    mesh: Mesh
    _moves_forms = False  # what crosses the wire may change
    _form = ""            # what does
    _mean: torch.Tensor | None = None  # of the states of the optimizer inside, until the form is another one
    _averages = False  # the masters are what is averaged
    _let_go = False    # of a mixer, in a world that has ended

    def _there(self, place: Place, name: str) -> torch.Tensor | None:
        raise NotImplementedError

    # --- what crosses the wire changes ---

    def _now(self, key: str) -> Any:
        """A key of the configuration, as it is in the step under way."""
        now = _decide.keys_of(self._form) if self._moves_forms else {}
        return now[key] if key in now else self._config.number(key)

    def _follows(self, uneven: bool) -> bool:
        """Whether any form could be left, before one is taken (lib/loop/sync_replan.c)."""
        return not uneven and not self._skips and self._shards == 1 and _moments.have_mean(self.inner)

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
        for place in self._places:
            place.alone = self._theirs is not None and of("replicator.kind") == "none"
        for place in far:
            place.rests = not gossips
            place.stays = of("replicator.kind") == "none" and \
                (of("optimizer.clip") == 0 if self._own is not None else "optimizer.clip" not in self._asked_keys)
            place.own = self._own
            place.straight = place.could and not place.stays and self._chooses is None

    def _meets(self) -> Any:
        """What libweft asks when outer steps are left; None: they are not."""
        moves = self.decision is not None or self.mesh.joins
        return self._give_moments if moves and self.inner is not None and _moments.have_mean(self.inner) else None

    def _give_moments(self) -> tuple[int, int]:
        """Called by libweft, in the thread that waits for others, which leaves the mean there."""
        self._mean, n = _moments.flat(self.inner)
        return self._mean.data_ptr(), n

    def _may_change(self) -> None:
        """Before the first step."""
        if self.decision is not None and not self.mesh.joins:
            _decide.follow(self._sync, self.decision, *self._limits)
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
            _moments.take(self.inner, mean)
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
        if self._sync.goes_on and (kind is Choco or self._config.number("mixer.delay") > 0):
            return None
        return kind if len({place.p.device for place in self._places}) == 1 else None

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


__all__ = ["Changes"]
