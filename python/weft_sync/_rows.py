# SPDX-License-Identifier: MIT
"""Whether all processes learn from the same rows: then each one's loss is the mean of all, step by step.
The report brings the mean anyway. In place of a loss that a loop does not tell, the first parameter's
gradient, by its norm.

    five steps alike, from the first on     a warning, once
    one that is not                         nobody looks any more"""

from __future__ import annotations

import logging
import math

log = logging.getLogger("weft_sync")
ENOUGH, MOST_LATE = 5, 32  # steps; gossip learns of losses some steps later


class Rows:
    def __init__(self) -> None:
        self.asks = True  # whether it is not known yet
        self.instead: float | None = None  # what is sent where there is no loss
        self._own: dict[int, float] = {}
        self._alike, self._value = 0, 0.0

    def said(self, loss: float | None) -> float:
        """What this process says of the step under way."""
        instead = self.instead if self.asks and self.instead is not None else 0.0
        self._value = instead if loss is None else loss
        return self._value

    def heard(self, step: int, mean_step: int, mean: float, processes: int) -> None:
        """Steps that are done; the mean of what all said of one of them."""
        if not self.asks:
            return
        self._own[step] = self._value
        own = self._own.pop(mean_step, 0.0)
        self._own.pop(step - MOST_LATE, None)
        if own == 0 or processes < 2 or not math.isfinite(mean):
            return
        self._alike += 1
        self.asks = math.isclose(own, mean, rel_tol=1e-12)
        if self.asks and self._alike == ENOUGH:
            self.asks = False
            log.warning("all %d processes had the same loss or gradient in %d steps: they learn from the same "
                        "rows, so all learn what one does; give each its own: "
                        "DistributedSampler(data, weft.mesh().size, weft.mesh().rank) in the loader, or "
                        "another seed of its order", processes, ENOUGH)


__all__ = ["Rows"]
