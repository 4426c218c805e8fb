# SPDX-License-Identifier: MIT
"""Who takes how many rows, by speed, and which ones. With its rows each process says for how many seconds it
has been at its step; all hear the same numbers, so all decide alike for the steps to come, without a message
(lib/job/speeds.c).

Steps are planned `ahead` steps before they are done, a piece for each copy. A piece of which nobody has heard
is done again, before all others; who comes takes rows of its own in the steps that are planned already."""

from __future__ import annotations

import ctypes as c
import itertools
from typing import Any, Iterator, Sequence, Sized

import torch

from . import _decide
from ._library import Error, library

WHOLE, MOST = 1_000_000, 1 << 40
Said = Sequence[tuple[int, float, float]]  # of each copy: what Sync.said gives


def whole(numbers: Sequence[int]) -> Any:
    return (c.c_int64 * len(numbers))(*numbers)


def divide(n: int, shares: Sequence[int]) -> list[int]:
    """n in proportion, the rest to whoever is done first with one more, none without any."""
    if not (0 <= n <= MOST and min(shares) >= 0 and 0 < max(shares) <= WHOLE):
        raise Error("argument", f"{n} rows by shares {list(shares)}, expected 0 to {MOST} rows, and shares from 0 to "
                    f"{WHOLE}, one above 0")
    parts = whole(shares)
    library().weft_shares_divide(n, len(shares), whole(shares), parts)
    return list(parts)


class Shares:
    """Of all copies, the same on all."""

    def __init__(self, copies: int, parts: list[int] | None = None):
        self.parts = parts or divide(WHOLE, [1] * copies)  #: millionths
        self.numbers = (c.c_double * library().weft_shares_numbers(copies))()  #: what is known of their speeds
        library().weft_shares_begin(copies, whole(self.parts), self.numbers)

    def heard(self, said: Said) -> None:
        """What all have said of a step."""
        was, copies = [w if w < len(self.parts) else -1 for w, _, _ in said], len(said)
        if was != list(range(len(self.parts))):  # who comes begins with the least
            kept = [self.parts[w] for w in was if w >= 0]
            Shares.__init__(self, copies, divide(WHOLE, [self.parts[w] if w >= 0 else min(kept, default=1) for w in was]))
        told, parts = (c.c_double * (2 * copies))(*[x for _, *pair in said for x in pair]), whole(self.parts)
        if library().weft_shares_update(copies, told, self.numbers, parts):
            self.parts = list(parts)

    def state(self) -> dict[str, Any]:
        return {"parts": list(self.parts), "numbers": list(self.numbers)}

    def take(self, state: dict[str, Any]) -> None:
        Shares.__init__(self, len(state["parts"]), list(state["parts"]))
        if len(state.get("numbers", ())) == len(self.numbers):  # else of a version before, and measured anew
            self.numbers[:] = state["numbers"]


class Sampler(torch.utils.data.Sampler[list[int]]):
    """A batch sampler whose batches follow the agreed shares of the processes: each row of ``data`` (or of
    so many rows) exactly once in an epoch, over all processes.

        sampler = weft.Sampler(optimizer, data, rows=64)
        loader = DataLoader(data, batch_sampler=sampler)

    ``optimizer`` is a ``weft.Optimizer`` or ``weft.Mix`` with ``uneven=True``; ``rows``: of a step, of all
    processes together. ``ahead``: how many batches the loader draws before they are used, num_workers *
    prefetch_factor. Each batch is one step, in which all take part. ``least``: no batch has fewer rows, but
    those of an epoch's first and last step; a process that gets fewer has none in some steps, which its ``step`` of
    the step before makes as well: a slow machine makes fewer inner steps (H_i below H) of as many rows. Loops
    are then over the loader, or ``while optimizer.steps < n`` with ``run_steps=n``. ``averaged`` is refused but at the end
    of an epoch or run: a call of ``step`` may be several steps, so no loop sees each number of
    ``optimizer.steps``, and schedules are set by it (``schedule.step()`` for each call is called less often).
    ``state_dict`` between two steps is where the next one goes on, and is the same in all processes;
    ``optimizer.carry(sampler)`` for who comes. Rows of a process that is lost before the others hear of them are
    done again. ``log`` is who took how much from which step on; a sampler that is given it takes the same rows,
    whatever is measured. :class:`Error` "argument" of another optimizer, too few rows, or another sampler's
    state."""

    def __init__(self, optimizer: Any, data: Sized | int, rows: int, *, shuffle: bool = True, seed: int = 0,
                 ahead: int = 0, least: int = 1, log: Sequence[tuple[int, Sequence[int]]] | None = None):
        self._of = getattr(optimizer, "weft", optimizer)
        self._n, self._rows, self._shuffle, self._seed = data if isinstance(data, int) else len(data), rows, shuffle, seed
        self._data = [self._n, rows, shuffle, seed, ahead, least]
        copies = self._of.place()[1]
        if not 1 <= least <= max(1, rows // copies) or (least > 1 and ahead > 0):
            raise Error("argument", f"least is {least} with ahead={ahead}, expected 1 to {rows // copies} (rows in equal "
                        "shares), and 1 where the loader draws ahead")
        self._least = least
        #: steps of the run, if that is said: behind the last one no step of the others' comes
        self._most = _decide.steps_of(*self._of._asked[1:]) if least > 1 else 0.0
        self._owed = [0] * copies  #: to each, in rows times WHOLE, of steps in which it had none
        if not self._of._rows.on or self._of.placed > 1:
            raise Error("argument", "Sampler needs an optimizer with uneven=True, whose steps say their rows, and "
                        "one process for each copy of the model")
        if self._of._group is not None and log is None:
            raise Error("argument", "Sampler with process_group: each group measures for itself, and the pieces of a copy "
                        "would get different rows; expected rows of the program's own, or a log of one")
        self._fits(copies)
        self._ahead, self._given = ahead, log
        self.steps = self._drawn = self._at = self._epoch = 0
        self._past: int | None = None  # epoch of the last step
        self._came: list[int] | None = None  # as whom this process has admitted itself
        self._copy: int | None = None if self._of._joined() else self._of.place()[0]
        self._left: list[int] = []
        self._orders: dict[int, list[int]] = {}
        self.log: list[tuple[int, list[int]]] = []
        self._plan: list[tuple[int, list[list[int]]]] = []  # of each step: its epoch, and a piece for each copy
        for step in range(1 + ahead):
            self._add(step, divide(WHOLE, [1] * copies))
        self._of._rows.listeners.append(self._heard)
        self._of._rows.idles, self._of._rows.apart = self._idles, self._apart

    def _fits(self, copies: int) -> None:
        if not copies <= self._rows <= self._n:
            raise Error("argument", f"a step has {self._rows} of {self._n} rows for {copies} processes; expected "
                        "a row for each process, and no more than there are")

    # --- which rows ---

    def _row(self, at: int) -> int:
        """Number `at` of the endless sequence of rows."""
        epoch, place = divmod(at, self._n)
        if not self._shuffle:
            return place
        if epoch not in self._orders:
            order = torch.randperm(self._n, generator=torch.Generator().manual_seed(self._seed * 1_000_003 + epoch))
            self._orders = {e: o for e, o in self._orders.items() if e >= epoch - 1} | {epoch: order.tolist()}
        return self._orders[epoch][place]

    def _next(self, n: int) -> list[int]:
        self._at += n
        return list(range(self._at - n, self._at))

    def _add(self, step: int, shares: list[int]) -> None:
        """Plans a step. An epoch's last one takes the rest, if that has not a row for each."""
        copies, last = len(shares), self.log[-1][1] if self.log else []
        if self._given is not None:
            shares = next((list(s) for first, s in reversed(self._given) if first <= step), shares)
            if len(shares) != copies:
                raise Error("argument", f"log has shares of {len(shares)} processes in step {step + 1}, but there "
                            f"are {copies}")
        if shares != last:
            self.log.append((step, shares))
        self._fits(copies)
        rest = max(0, (self._epoch + 1) * self._n - self._at)
        while len(self._left) + rest < copies:
            self._epoch += 1
            rest = max(0, (self._epoch + 1) * self._n - self._at)
        again = min(len(self._left), self._rows)
        wanted = min(rest, self._rows - again)
        n, ends_here = again + wanted, rest - wanted < copies
        parts = self._whole(n, shares) if not ends_here and rest < self._n else []
        if not parts or sum(parts) > len(self._left) + rest:
            n = again + rest if ends_here else n
            self._owed, parts = [0] * copies, divide(n, shares)
        n = sum(parts)
        again = min(len(self._left), n)
        rows, self._left = self._left[:again], self._left[again:]
        rows += self._next(n - again)
        ends = list(itertools.accumulate(parts))
        self._plan.append((self._epoch, [rows[a:b] for a, b in zip([0, *ends], ends)]))

    def _whole(self, n: int, shares: list[int]) -> list[int]:
        """Of a step of n rows on average, where no batch has less than the least; [] without one."""
        if self._least == 1:
            return []
        total = sum(shares)
        self._owed = [owed + n * share * WHOLE // total for owed, share in zip(self._owed, shares)]
        parts = [owed // WHOLE if owed >= self._least * WHOLE else 0 for owed in self._owed]
        self._owed = [owed - part * WHOLE for owed, part in zip(self._owed, parts)]
        return parts

    def _idles(self) -> bool:
        """Whether the step to come is one of the others' alone, and comes."""
        return (self._copy is not None and self._of._left is None and not self._plan[0][1][self._copy]
                and (self._most == 0 or self.steps < self._most))

    def _apart(self) -> int:
        """The least, but at the ends of an epoch and of the run, where all have rows or stop."""
        meets = self._plan[0][0] != self._past or 0 < self._most <= self.steps
        return 0 if self._least == 1 or meets else self._least

    def _admit(self, was: list[int]) -> None:
        """Copies are numbered anew; who has come has rows in all steps that are planned."""
        gone = [i for i in range(len(self._plan[0][1])) if i not in was]
        self._owed = [self._owed[w] if w >= 0 else 0 for w in was]
        for k, (epoch, pieces) in enumerate(self._plan):
            for i in gone:
                self._left += pieces[i]
            each = max(1, self._rows // len(pieces))
            self._plan[k] = epoch, [pieces[w] if w >= 0 else self._next(each) for w in was]
        self._fits(len(was))

    def _heard(self, said: Said, shares: list[int]) -> None:
        """All know who has taken part in a step."""
        copies = len(self._plan[0][1])
        was = [w if w < copies else -1 for w, _, _ in said]
        if self._came not in (None, was):
            raise Error("argument", "others were lost or came while this process did, so its rows are not those "
                        "that the others know of; expected it to come again")
        if self._came is None and was != list(range(copies)):
            self._admit(was)
        self._came, self._copy = None, self._of.place()[0]
        self._past, pieces = self._plan.pop(0)
        for piece, (_, rows, _) in zip(pieces, said, strict=True):
            if rows < 0:
                self._left += piece
        self.steps += 1
        self._drawn = max(self._drawn, self.steps)
        self._add(self.steps + self._ahead, list(shares))

    # --- what the loader asks ---

    def _piece(self, k: int) -> list[int]:
        if self._copy is None:
            self._came = [w for w, _, _ in self._of._sync.said()]
            self._admit(self._came)
            self._copy = self._of.place()[0]
        return [self._row(at) for at in self._plan[k][1][self._copy]]

    def __iter__(self) -> Iterator[list[int]]:
        epoch, self._drawn = self.epoch, self.steps
        while True:
            k = 0 if self._of._left is not None else self._drawn - self.steps
            if k >= len(self._plan):
                raise Error("argument", f"the loader draws {k} batches before they are used, expected at most "
                            f"ahead={self._ahead}: num_workers * prefetch_factor")
            if self._plan[k][0] != epoch:
                return
            self._drawn += 1
            yield self._piece(k)

    def __len__(self) -> int:
        """Steps of an epoch, while nobody comes or goes."""
        return self._n // self._rows + (self._n % self._rows >= self._of.place()[1])

    @property
    def epoch(self) -> int:
        """Of the next step."""
        return self._plan[0][0]

    def state_dict(self) -> dict[str, Any]:
        """Between two steps; the same in all processes."""
        return {"steps": self.steps, "at": self._at, "epoch": self._epoch, "left": list(self._left),
                "plan": [(e, [list(p) for p in pieces]) for e, pieces in self._plan],
                "log": [(step, list(s)) for step, s in self.log], "data": self._data, "owed": list(self._owed),
                "past": self._past, "shares": self._of._rows.shares.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Of a sampler that was made alike. Of another number of processes they take the same rows by equal
        shares."""
        if list(state["data"]) != self._data:
            raise Error("argument", f"the state is of rows, rows of a step, shuffle, seed, ahead and least {state['data']}, "
                        f"expected {self._data}")
        self.steps = self._drawn = state["steps"]
        self._at, self._epoch, self._left = state["at"], state["epoch"], list(state["left"])
        self._plan = [(e, [list(p) for p in pieces]) for e, pieces in state["plan"]]
        self.log = [(step, list(s)) for step, s in state["log"]]
        self._owed = list(state["owed"])
        joined, copies = self._of._joined(), self._of.place()[1]
        self._past = state.get("past")  # not in states of a version before
        self._came, self._copy = None, None if joined else self._of.place()[0]
        if joined:
            return
        if len(self._plan[0][1]) == copies:
            return self._of._rows.shares.take(state["shares"])
        planned, self._plan = self._plan, []
        self._left += [at for _, pieces in planned for piece in pieces for at in piece]
        self._owed = [0] * copies
        self._epoch = planned[0][0]
        for k in range(1 + self._ahead):
            self._add(self.steps + k, divide(WHOLE, [1] * copies))


__all__ = ["Sampler", "Shares", "divide"]
