# SPDX-License-Identifier: MIT
"""DistributedDataParallel inside a machine: one process of it speaks with other machines."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

from . import _world
from ._library import Context, Error, Mesh
from ._sync import Report


class Node:
    """Ranks that DDP keeps alike inside a machine. The first one, the leader, speaks with
    the leaders of other machines, and tells the others of its node what came of it."""

    def __init__(self, group: Any):
        dist = torch.distributed
        ranks, world = dist.get_process_group_ranks(group), dist.get_world_size()
        n = len(ranks)
        if n == world and not _world.apart():
            raise Error("argument", "DDP already averages between all ranks: leave the wrapper "
                        "out, or confine it to the node with process_group=weft.node_group()")
        if ranks != list(range(ranks[0], ranks[0] + n)) or ranks[0] % n or world % n:
            raise Error("argument", f"DDP runs over ranks {ranks} of {world}; expected "
                        f"neighbours, {n} from a multiple of {n} on")
        self.group, self.leader, self.size = group, ranks[0], n
        #: NCCL carries nothing that lies on the host
        self.device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
        self.leads = dist.get_rank() == self.leader
        number = next(_world.meshes)
        self.mesh = _world.founded(number, leaders=n) if self.leads else Mesh(Context(), 0, 1)

    def tell(self, tensors: Sequence[torch.Tensor], report: Report | None) -> Report | None:
        """The leader's tensors and report to all of the node."""
        told = [0.0] * len(Report._fields) if report is None else \
            [float("nan") if v is None else float(v) for v in report]
        words = torch.tensor(told, dtype=torch.float64, device=self.device)
        flat = torch.cat([t.reshape(-1) for t in tensors]).to(self.device)
        for t in (flat, words):
            torch.distributed.broadcast(t, self.leader, group=self.group)
        if self.leads:
            return report
        at = 0
        for t in tensors:
            t.copy_(flat[at:at + t.numel()].view(t.shape))
            at += t.numel()
        step, lr, loss, loss_step, wire, near, exchange, wait, skipped, n = words.tolist()
        return Report(int(step), lr, None if loss != loss else loss, int(loss_step), int(wire),
                      int(near), exchange, wait, bool(skipped), int(n))


class Follower:
    """In place of a Sync, on ranks that a leader speaks for."""

    goes_on = False

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_arguments: None


__all__ = ["Follower", "Node"]
