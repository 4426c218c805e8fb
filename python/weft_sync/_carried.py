# SPDX-License-Identifier: MIT
"""What a process that comes into a run gets beside parameters and weft's own state: rates and
weight decays of all groups, the state of a torch optimizer inside, and what the program has named
(``Optimizer.carry``), a learning-rate schedule above all; and the model's buffers.

    gives:  pack() -> bytes, when somebody comes      takes: unpack(bytes) -> brought
                                                             add(objects)  each gets its state
                                                             check()       before the first step

Rows of FSDP2 travel as plain tensors: a DTensor names the processes of the machine that saved it."""

from __future__ import annotations

import io
from typing import Any

import torch

from . import _buffers, _saved
from ._library import Error
from ._world import DTensor, local


class Carried:
    """Of one optimizer of weft's."""

    def __init__(self, optimizer: Any):
        self.optimizer = optimizer
        self.objects: list[Any] = []
        self.brought: dict[str, Any] | None = None  # by the others, until the first step

    def add(self, *objects: Any) -> None:
        for thing in objects:
            if not (hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")):
                raise Error("argument", f"{type(thing).__name__} has no state to carry: expected "
                            "state_dict and load_state_dict, as a schedule of torch's has")
            self.objects.append(thing)
            if self.brought is None:
                continue
            if len(self.objects) > len(self.brought["carried"]):
                raise Error("argument", f"this process carries {len(self.objects)} objects, the "
                            f"others {len(self.brought['carried'])}")
            thing.load_state_dict(self.brought["carried"][len(self.objects) - 1])
        if self.brought is not None:
            self._take_groups(self.brought["groups"])

    def pack(self) -> bytes:
        inner = self.optimizer._theirs
        return _bytes_of({"groups": [{k: v for k, v in g.items() if k != "params"}
                                     for g in self.optimizer.param_groups],
                          "carried": [thing.state_dict() for thing in self.objects],
                          "buffers": {name: b.cpu() for name, b in self._buffers().items()},
                          "shares": self.optimizer._rows.shares.state(),
                          "inner": None if inner is None else _plain(_saved.plain(inner))})

    def _buffers(self) -> dict[str, torch.Tensor]:
        return _buffers.handed_over(self.optimizer._asked_buffers, self.optimizer._module)

    def for_followers(self) -> bytes:
        """What was brought, for processes whose leader steps for them; empty: nothing was."""
        return b"" if self.brought is None else _bytes_of({**self.brought, "inner": None})

    def unpack(self, data: bytes) -> None:
        self.brought = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        self.optimizer._rows.shares.take(self.brought["shares"])
        _buffers.take(self._buffers(), self.brought["buffers"])
        inner = self.optimizer._theirs
        if inner is not None and self.brought["inner"] is not None:
            _saved.load_plain(inner, self.brought["inner"])
            _spread(inner)
            self.optimizer._show_inside()
        self._take_groups(self.brought["groups"])

    def again(self) -> None:
        """In a process that has come back: all objects get their state once more."""
        objects, self.objects = self.objects, []
        self.add(*objects)

    def moves(self) -> bool:
        """Whether a schedule moves the rates, and is not among what is carried."""
        return not self.objects and any("initial_lr" in g for g in self.optimizer.param_groups)

    def _take_groups(self, groups: list[dict[str, Any]]) -> None:
        for group, theirs in zip(self.optimizer.param_groups, groups, strict=True):
            group.update(theirs)

    def check(self) -> None:
        """Of a process that has come, before its first step: rates are the same on all."""
        if self.brought is None:
            return
        n, theirs = len(self.objects), len(self.brought["carried"])
        if n != theirs or self.moves():
            raise Error("argument", f"this process carries {n} objects, the others {theirs}: "
                        "call optimizer.carry(schedule) in all of them, after the schedule is "
                        "made, so that who comes has the others' learning rate")
        for thing, state in zip(self.objects, self.brought["carried"], strict=True):
            if isinstance(thing, torch.optim.lr_scheduler.LRScheduler):
                thing.load_state_dict(state)  # who came back inside a step has moved it since
        self._take_groups(self.brought["groups"])
        self.brought = None


def _bytes_of(packed: dict[str, Any]) -> bytes:
    to = io.BytesIO()
    torch.save(packed, to)
    return to.getvalue()


def _plain(packed: dict[str, Any]) -> dict[str, Any]:
    """The state of a torch optimizer with this process's rows, on the host, in place of what
    lies on its devices, or is a DTensor."""
    state = {i: {name: local(value).cpu() if isinstance(value, torch.Tensor) else value
                 for name, value in part.items()} for i, part in packed["state"].items()}
    return {**packed, "state": state}


def _spread(inner: torch.optim.Optimizer) -> None:
    """State that is as long as this process's rows of a parameter becomes a DTensor like it."""
    for p, part in inner.state.items():
        if not isinstance(p, DTensor):
            continue
        for name, value in part.items():
            rows = isinstance(value, torch.Tensor) and value.dim() > 0 and \
                not isinstance(value, DTensor) and value.shape == local(p).shape
            if rows:
                part[name] = DTensor.from_local(value, p.device_mesh, p.placements,
                                                shape=p.shape, stride=p.stride())


__all__ = ["Carried"]
