# SPDX-License-Identifier: MIT
"""Gradients of a loss that a GradScaler has multiplied, and steps that it skips.

    backward -> scaler.step                       divided here, before they are exchanged; if they are already: refused
    backward -> scaler.unscale_ -> scaler.step    divided by the scaler, and agreed on then (skips=True)
    agree="backward"                              agreed on before the scaler comes to them, and divided after it"""

from __future__ import annotations

import torch

from . import _pieces
from ._library import Error, log
from ._parts import Parts
from ._world import local


class Scaled(Parts):
    """A part of Optimizer."""

    by_wefts = False  #: whether the scaler is weft.GradScaler
    _told = False     # once is enough
    _unscaled = False  # by it, and not agreed on: a change after that is of this process's own

    def _scale(self) -> float:
        """What a GradScaler says of this step: its scale, and whether it found an infinity."""
        scale, found = getattr(self, "grad_scale", None), float(getattr(self, "found_inf", None) or 0)
        known = self.by_wefts or self._told or self.mesh.size == 1
        if self._skips and hasattr(self, "found_inf") and not known:
            self._told = True
            log.warning("a scaler of torch's with skips=True lowers its scale in one process alone, and what is clipped after "
                        "its unscale_ is each process's own gradient; expected weft.GradScaler")
        if self._skips:
            found, = _pieces.most(self._group, [found], local(self._places[0].p).device)
        if found > 0:
            if not self._skips:
                raise Error("argument", "a GradScaler wants to skip a step: create the "
                            "optimizer with skips=True, so that all ranks can")
            self._sync.skip()
            return 1.0
        scale = 1.0 if scale is None else float(scale)
        if scale != 1 and self._agreed is None and any(
                place.version is not None or place.packet is not None and place.packet.sent for place in self._places):
            raise Error("argument", f"a GradScaler has multiplied the loss by {scale:g}, and gradients were exchanged in backward "
                        "before it could divide them: create the optimizer with skips=True and use weft.GradScaler")
        return scale

    def _unscale(self) -> None:
        """What was agreed on before a scaler came to its step."""
        scale = 1.0 if self._skips else self._scale()  # else it was asked when all agreed
        if scale != 1:
            self._check_linear()
        for place in self._places if scale != 1 else ():
            if place.p.grad is not None:
                local(place.p.grad).mul_(1 / scale)

    def _check_linear(self) -> None:
        """That what was agreed on grows with the scale, and nothing of other scales is in it."""
        kinds = {self._config.number(f"{where}replicator.kind") for where in ("", "site_")}
        changes = self.decision is not None and self.decision.may_change
        kept = "replicator.error" in (self._sync.states() or ()) or changes
        if "optimizer.clip" in self._asked_keys and self._config.number("optimizer.clip") > 0:
            raise Error("argument", "optimizer.clip bounds the norm of gradients that a scaler has multiplied; expected clipping "
                        "of your own after scaler.unscale_, by weft.GradScaler with skips=True")
        if not kinds <= {"full", "none"} or kept:
            raise Error("argument", f"method {self._config.number('method')} agreed on gradients that a scaler had multiplied, "
                        "and its signs, momenta or what coding lost can not be divided by the scale; expected skips=True "
                        "with weft.GradScaler, and agree='backward' left out")

    @torch.no_grad()
    def agree_unscaled(self, found: torch.Tensor | int) -> None:
        """As `agree`, where a scaler has unscaled this process's gradients, and has found this many infinities:
        what is clipped then is what all have."""
        if not self._skips or self._agreed is not None or self._left is not None:
            return
        if self._theirs is None or self._node is not None or self._rows.on:
            self._unscaled = True
            for place in self._places:
                place.left = place.p.grad._version if place.p.grad is not None else None
            return
        self.found_inf = found
        self._gather()
        del self.found_inf
        self._blind = True
        self._agree(None)


__all__ = ["Scaled"]
