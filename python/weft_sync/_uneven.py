# SPDX-License-Identifier: MIT
"""Rows that differ by process and step (``uneven=True``): each says in its step on how many rows its
gradient is the mean of, before any of it leaves (lib/loop/sync_weigh.c has the rule)."""

from __future__ import annotations

from typing import Any

from ._library import Error
from ._loss import number


class Uneven:
    """What one optimizer knows of its rows."""

    def __init__(self, on: bool, agree: str, node: Any):
        self.on = on
        self.weight = 1.0  #: by which what this process chooses, or its change, is multiplied
        if on and agree == "backward":
            raise Error("argument", "uneven=True with agree='backward', where nobody has said the rows yet; "
                        "expected optimizer.agree(loss, rows=n) before the gradients are clipped")
        if on and node is not None:
            raise Error("argument", "uneven=True with DDP inside a node, whose mean over its processes is plain; "
                        "expected one process for each copy of the model")

    def check(self, rows: int | None, agreed: bool) -> None:
        """That rows are said once in a step, where they are asked for."""
        if rows is not None and not self.on:
            raise Error("argument", f"rows is {rows}, but rows are said in every step of every process or in "
                        "none: create the optimizer with uneven=True")
        if self.on and agreed != (rows is None):
            raise Error("argument", f"rows is {rows}, but agree has them already" if agreed else
                        "rows is left out, but the optimizer was created with uneven=True: expected "
                        "step(loss, rows=n), with 0 for none")
        if rows is not None and (isinstance(rows, bool) or int(rows) != rows or rows < 0):
            raise Error("argument", f"rows is {rows!r}, expected a whole number from 0 on")

    def weigh(self, optimizer: Any, loss: Any, rows: int | None) -> None:
        """Tells the rows, and hears those of all."""
        if rows is None:
            return
        self.weight = optimizer._sync.weigh(number(loss), rows)
        if optimizer._held is not None:
            optimizer._held.weigh(self.weight)
        for place in optimizer._places:
            if rows == 0 and place.stays and place.p.grad is not None:
                place.p.grad.zero_()  # of no rows it may be anything


__all__ = ["Uneven"]
