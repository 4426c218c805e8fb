# SPDX-License-Identifier: MIT
"""The way back into a run whose other processes have gone on without this one, which lives: it
stood still (a laptop's lid, SIGSTOP) or could not be heard (a cut network).

    n-th time within ten minutes of the one before:  waits 2^(n-1) s, 60 s at most

What it has is of a step that is past. So it leaves its mesh and comes in as whoever joins: with the
others' parameters, moments, momenta, rates and what is carried.

Processes of a machine that hold one copy of the model together (FSDP2), when the other machines
have gone on without them: they hear of it one after another, some in backward and some in the next
step, and come back as one.

    at the end of each step     was anybody left behind? (one word to all of the machine)
    if so, all                  leave the mesh -> come in, one after another -> the others' state

A process that comes in gets the lowest place that is free in the new copy, so the turns give each process the
part of the model that it has: the k-th place to the k-th process. A turn is passed on when a
process has its place; it then waits for the rest of its machine to have theirs."""

from __future__ import annotations

import logging
import time
from typing import Any, Callable

import torch

from ._library import Error, LeftBehind, Mesh
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


class Together:
    """`group`: of gloo, the processes that share a copy, in the order of their parts."""

    def __init__(self, group: Any):
        dist = torch.distributed
        self.group, self.ranks = group, dist.get_process_group_ranks(group)
        self.place = self.ranks.index(dist.get_rank())

    def agreed(self, left: LeftBehind | None) -> LeftBehind | None:
        """What one of them has heard, for all. Collective."""
        heard = torch.tensor([left is not None], dtype=torch.int32, device="cpu")
        torch.distributed.all_reduce(heard, torch.distributed.ReduceOp.MAX, group=self.group)
        if not heard.item():
            return None
        said: list[Any] = [None] * len(self.ranks)
        torch.distributed.all_gather_object(said, left and (str(left), left.endpoints),
                                            group=self.group)
        return LeftBehind("peer", *next(words for words in said if words))

    def in_turn(self, enter: Callable[[], Mesh]) -> Mesh:
        """One after another. A process that failed tells the next one, which does not try."""
        if self.place > 0 and not self._hear(self.ranks[self.place - 1]):
            raise Error("peer", "another process of this machine could not come into the run")
        try:
            mesh = enter()
        except BaseException:
            self._tell(False)
            raise
        self._tell(True)
        return mesh

    def _hear(self, other: int) -> bool:
        word = torch.zeros(1, dtype=torch.int32, device="cpu")
        torch.distributed.recv(word, other, group=self.group)
        return bool(word.item())

    def _tell(self, fine: bool) -> None:
        if self.place + 1 < len(self.ranks):
            torch.distributed.send(torch.tensor([fine], dtype=torch.int32, device="cpu"),
                                   self.ranks[self.place + 1], group=self.group)

    def check(self, mesh: Mesh) -> None:
        """That this process came in as the part of a copy that it has."""
        n = len(self.ranks)
        if mesh.joins and mesh.rank % n != self.place:
            raise Error("argument", f"this process has part {self.place} of {n} of a copy of the "
                        f"model, but came into the run as part {mesh.rank % n}: call "
                        "torch.distributed.init_process_group, and create the optimizer, in all "
                        "processes of the machine before weft.mesh()")


def of_machine(n: int) -> Together:
    """This process's n neighbours. Collective over torch.distributed."""
    return Together(torch.distributed.new_subgroups(n, backend="gloo")[0])


__all__ = ["Returns", "Together", "of_machine", "report_of"]
