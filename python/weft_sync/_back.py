# SPDX-License-Identifier: MIT
"""The way back into a run whose other processes have gone on without this one, which lives: it
stood still (a laptop's lid, SIGSTOP) or could not be heard (a cut network).

    n-th time within ten minutes of the one before:  waits 2^(n-1) s, 60 s at most

What it has is of a step that is past. So it leaves its mesh and comes in as whoever joins: with the
others' parameters, moments, momenta, rates and what is carried."""

from __future__ import annotations

import logging
import time
from typing import Any, Callable

from ._library import Error, LeftBehind
from ._sync import Report

log = logging.getLogger("weft_sync")
LONGEST_WAIT_S, TRAINED_S = 60, 600
now = time.monotonic


class Returns:
    """How often a process comes back, and how seldom: `most` times shortly one after another. Who
    has trained for ten minutes begins to count anew, as with weft train --returns."""

    def __init__(self, most: int, pause: Callable[[float], None] = time.sleep):
        if most < 0:
            raise Error("argument", f"returns is {most}, expected a number from 0 on")
        self.most, self.pause, self.n, self.begun = most, pause, 0, now()

    def wait(self, error: LeftBehind) -> None:
        """Before the next return; the error itself if there were enough of them."""
        self.n = 1 if now() - self.begun > TRAINED_S else self.n + 1
        if self.n > self.most:
            raise error
        seconds = min(2 ** (self.n - 1), LONGEST_WAIT_S)
        log.warning("%s; this process joins the run again in %d s (time %d of %d)", error, seconds,
                    self.n, self.most)
        self.pause(seconds)
        self.begun = now()


def report_of(sync: Any) -> Report:
    """Of a step that was none: this process took up the others' state in its place."""
    return Report(sync.steps(), 0.0, None, 0, 0, 0, 0.0, 0.0, True, sync.place()[1])


__all__ = ["Returns", "report_of"]
