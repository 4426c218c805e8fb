# SPDX-License-Identifier: MIT
"""That model, optimizer and gradients are in a step what the exchange takes them for."""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import _places
from ._library import Error, log
from ._parts import Parts


class Checked(Parts):
    """A part of Optimizer."""

    _frozen: list[tuple[torch.Tensor, str]]
    _take_in: Callable[[], None]
    _show_inside: Callable[[], None]
    _now: Callable[[str], Any]
    _listens: bool
    _unscaled: bool
    _looked = False  # in this step
    _warned = False  # once is enough
    _spent = False   # the step before had gradients, and the program has not dropped them since

    @torch.no_grad()
    def _look(self) -> None:
        """Once in a step: that model and optimizer are those that were given."""
        if self._looked:
            return
        self._looked = True
        self._show_inside()
        n = sum(len(group["params"]) for group in self.param_groups)
        if n != len(self._places):
            raise Error("argument", f"the optimizer has {n} parameters, {len(self._places)} when "
                        "it was created: what is added later would not be exchanged; create the "
                        "optimizer anew")
        for p, name in self._frozen:
            if p.requires_grad:
                raise Error("argument", f"'{name}' was frozen when the optimizer was created, and is not now: it would "
                            "not be exchanged; create the optimizer anew")
        for place in self._places:
            place.look()
        self._take_in()

    def _mark(self) -> None:
        """Now and then, in steps 1, 2, 3, 5, 9, ... 129, 257, 385, ...: what one process alone has loaded would stay its own."""
        done = self._sync.steps()
        alone = self.mesh.size == 1 and not self._sync.goes_on  # who has come has a mesh of its own
        if (done & (done - 1) == 0 or done % 128 == 0) and not alone and self._now("mixer.kind") == "none":
            self._sync.mark(_places.mark(self._places, done.bit_length() + done // 128))

    def _check_unchanged(self) -> None:
        for place in self._places:
            if place.changed():
                raise Error("argument", "a gradient was changed after its exchange had begun (clipped, unscaled or "
                            "zeroed?); to clip what all agree on, as under DDP, create the optimizer with agree='backward' "
                            "around a torch optimizer, or clip by weft: optimizer_clip=1.0")
        full = self._now("replicator.kind") == "full"  # others clip so, too
        if (self._skips and not self._unscaled) or self._warned or self.mesh.size == 1 or not full:
            return
        self._warned = any(place.left is not None and place.p.grad is not None
                         and place.p.grad._version != place.left for place in self._places)
        if self._warned:
            log.warning(
                "gradients were changed between backward and step (clipped?): with overlap=False or skips=True each "
                "process changes its own, before they are agreed on; to clip what all agree on, as under DDP, say "
                "agree='backward' around a torch optimizer, or optimizer_clip=1.0")

    def _check_reached(self) -> None:
        """A step without any gradient may be one; or the model has other parameters now, or torch would use the last
        ones again."""
        reached = any(place.backwards or place.p.grad is not None for place in self._places)
        again = self._spent and not reached and self._listens and self._rows.rows is None
        self._spent = reached
        if again:
            raise Error("argument", "a second step() after one backward: torch would step along the same gradients again, which "
                        "are gone here after a step; expected a backward before it, or, for a step without rows, "
                        "optimizer.zero_grad()")
        if self._module is None or reached:
            return
        ours, theirs = {id(place.p) for place in self._places}, self._module.parameters()
        if not any(id(p) in ours for p in theirs):
            raise Error("argument", "the model has other parameters than when the optimizer was "
                        "created (load_state_dict(assign=True)?); create the optimizer last")


__all__ = ["Checked"]
