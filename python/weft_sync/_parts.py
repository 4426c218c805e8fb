# SPDX-License-Identifier: MIT
"""What the parts of weft.Optimizer (State, Changes, Shared, Scaled) know of it and of each other."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable

import torch

from ._library import Config, Mesh

if TYPE_CHECKING:
    from ._carried import Carried
    from ._decide import Decision, Limits
    from ._held import Mixer
    from ._node import Node
    from ._own import Own
    from ._pieces import Group
    from ._places import Place
    from ._sync import Report
    from ._uneven import Uneven


class Parts:
    """Filled in by Optimizer, which also says what each is."""

    inner: Any
    param_groups: list[dict[str, Any]]
    report: Report | None
    decision: Decision | None
    mesh: Mesh
    placed: int
    place: Callable[[], tuple[int, int]]
    grad_scale: Any  # a scaler sets both for its step
    found_inf: Any
    _sync: Any
    _config: Config
    _places: list[Place]
    _module: torch.nn.Module | None
    _buffers: list[torch.Tensor]
    _asked_buffers: str | None
    _asked_keys: set[str]
    _limits: Limits
    _node: Node | None
    _group: Group | None
    _shards: int
    _own: Own | None
    _held: Mixer | None
    _carried: Carried
    _chooses: Any
    _rows: Uneven
    _keeps_here: bool
    _skips: bool
    _blind: bool
    _agreed: bool | None
    _left: Any
    _mixed: bool
    _mixes_before: bool
    _mixes_after: bool
    _look: Callable[[], None]
    _open: Callable[[], None]
    _gather: Callable[[], None]
    _agree: Callable[[float | None], None]
    _unless_left: Callable[[], contextlib.AbstractContextManager[None]]

    @property
    def _theirs(self) -> torch.optim.Optimizer | None:
        raise NotImplementedError

    def _there(self, place: Place, name: str) -> torch.Tensor | None:
        raise NotImplementedError


__all__ = ["Parts"]
