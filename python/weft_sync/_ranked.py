# SPDX-License-Identifier: MIT
"""State that differs by rank in a checkpoint of torch.distributed.checkpoint, which takes
tensors of one name for copies of one tensor and keeps one of them."""

from __future__ import annotations

from typing import Any

import torch


class PerRank:
    """Around an optimizer of weft's (or anything whose state_dict has tensors under "state"), so
    that every rank saves and loads its own::

        torch.distributed.checkpoint.save({"model": model.state_dict(),
                                           "opt": weft.PerRank(optimizer)}, checkpoint_id=path)

    load likewise, before the first step, with the same number of processes. Momenta and masters
    are tensors of the checkpoint; all else, an inner optimizer's state too, is one object."""

    def __init__(self, optimizer: Any):
        self.optimizer = optimizer

    def _name(self) -> str:
        dist = torch.distributed
        if dist.is_available() and dist.is_initialized():
            return f"rank {dist.get_rank()} of {dist.get_world_size()}"
        mesh = self.optimizer.mesh
        return f"rank {mesh.rank} of {mesh.size}"

    def state_dict(self) -> dict[str, Any]:
        packed = self.optimizer.state_dict()
        tensors = {f"{i}.{name}": tensor for i, part in packed["state"].items()
                   for name, tensor in part.items()}
        rest = {key: value for key, value in packed.items() if key != "state"}
        return {self._name(): {"tensors": tensors, "rest": _Object(rest)}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        own = state_dict[self._name()]
        state: dict[int, dict[str, torch.Tensor]] = {}
        for key, tensor in own["tensors"].items():
            i, name = key.split(".", 1)
            state.setdefault(int(i), {})[name] = tensor
        self.optimizer.load_state_dict({"state": state, **own["rest"].value})


class _Object:
    """One value, not a dict of many: torch would look for its keys before they are there."""

    def __init__(self, value: dict[str, Any]):
        self.value = value


__all__ = ["PerRank"]
