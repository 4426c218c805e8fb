# SPDX-License-Identifier: MIT
"""Rows that differ by process and step (``uneven=True``): each says in its step on how many rows its
gradient is the mean of, before any of it leaves (lib/loop/sync_weigh.c has the rule). And what a loop hands to
``step``: a loss as a tensor or a number, a closure as torch.optim takes it (by place, or as ``closure=``, which
Lightning does), or nothing."""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import _pieces
from ._library import Error
from ._parts import Parts
from ._shares import WHOLE, Said, Shares, divide
from ._world import local


def called(loss: Any, closure: Any = None) -> tuple[Any, Any]:
    """Of a closure what it returned, as torch.optim wants it back (None: there was none), and
    the loss, still where it lies."""
    if closure is None and callable(loss):
        closure = loss
    if closure is None:
        return None, loss
    with torch.enable_grad():
        found = closure()
    return found, found


def number(loss: Any) -> float | None:
    """Of a tensor on a device this waits until all that it has been given is computed."""
    value = loss.detach() if isinstance(loss, torch.Tensor) else loss
    return None if value is None else float(value)


class Uneven:
    """What one optimizer knows of its rows."""

    def __init__(self, on: bool, agree: str, node: Any):
        self.on = on
        self.shares = Shares(1)
        self.listeners: list[Callable[[Said, list[int]], None]] = []
        self.weight = 1.0  #: by which what this process chooses, or its change, is multiplied
        self.rows: int | None = None  #: of this process in the step under way, once they are told
        self.mixes = False  #: whether a mixer alone sends
        self.idles: Callable[[], bool] = lambda: False  #: whether the step to come has no rows for this process
        self.apart: Callable[[], int] = lambda: 0  #: a sampler's least, where others may be in another step than this
        if on and agree == "backward":
            raise Error("argument", "uneven=True with agree='backward', where nobody has said the rows yet; "
                        "expected optimizer.agree(loss, rows=n) before the gradients are clipped")
        if on and node is not None:
            raise Error("argument", "uneven=True with DDP inside a node, whose mean over its processes is plain; "
                        "expected one process for each copy of the model")

    def check(self, rows: int | None) -> None:
        """That rows are said once in a step, where they are asked for."""
        told = self.rows is not None
        if rows is not None and not self.on:
            raise Error("argument", f"rows is {rows}, but rows are said in every step of every process or in "
                        "none: create the optimizer with uneven=True")
        if self.on and told != (rows is None):
            raise Error("argument", f"rows is {rows}, but they are said for this step already: {self.rows}" if told else
                        "rows is left out, but the optimizer was created with uneven=True: expected "
                        "step(loss, rows=n), with 0 for none")
        if rows is not None and (isinstance(rows, bool) or int(rows) != rows or rows < 0):
            raise Error("argument", f"rows is {rows!r}, expected a whole number from 0 on")

    def weigh(self, optimizer: Any, loss: Any, rows: int | None) -> None:
        """Tells the rows, unless that is done, and hears those of all."""
        if rows is None:
            return
        self.weight = optimizer._sync.weigh(number(loss), rows)
        self.rows = rows
        said = optimizer._sync.said()
        _pieces.same_rows(optimizer._group, [n for _, n, _ in said], local(optimizer._places[0].p).device)
        self.shares.heard(said)
        for listener in self.listeners:
            listener(said, self.shares.parts)
        if optimizer._held is not None:
            optimizer._held.weigh(self.weight)

    @property
    def rests(self) -> bool:
        """Where each copy follows its own gradient, no rows are no step."""
        return self.mixes and self.rows == 0

    def clear(self, places: Any) -> None:
        """A gradient of no rows may be anything."""
        for place in places:
            if self.rows == 0 and place.stays and place.p.grad is not None:
                place.p.grad.zero_()


class Shared(Parts):
    """The part of an optimizer that says who takes how many rows."""

    def weigh(self, loss: Any = None, *, rows: int) -> None:
        """Between forward and the last backward of a step, with ``uneven=True``: the loss of this process, and on
        how many rows it is a mean (0: none). The exchange then begins in backward, as with equal rows, and
        ``step(loss)`` or ``agree(loss)`` takes no rows. Waits for the rows of all. Collective: all processes call it
        in a step, or none does. What a process takes for a row (``share``) is measured up to here."""
        if self._left is not None:
            return
        if not self._rows.on:
            raise Error("argument", f"weigh(rows={rows}) without uneven=True, whose steps say their rows")
        self._rows.check(rows)
        with self._unless_left(), torch.no_grad():
            self._look()
            self._open()
            self._rows.weigh(self, loss, rows)

    def share(self, rows: int = WHOLE) -> int:
        """With ``uneven=True``: how many of so many rows of the step to come are this process's (of a
        million, if they are left out), by the speeds of all. All processes together have `rows`."""
        if not self._rows.on:
            raise Error("argument", "share() without uneven=True, whose steps say their rows")
        if self._group is not None:
            raise Error("argument", "share() with process_group: each group measures for itself, and the pieces of a copy "
                        "would get different rows; expected rows of the program's own")
        parts, (rank, size) = self._rows.shares.parts, self.place()
        if len(parts) != size // self.placed:  # somebody has come or gone since
            parts = [1] * (size // self.placed)
        return divide(rows, parts)[rank // self.placed]

    def _joined(self) -> bool:
        """Whether this process has come into the run, and has taken no step yet."""
        return self._sync.said()[self.place()[0] // self.placed][0] < 0


__all__ = ["Shared", "Uneven", "called", "number"]
