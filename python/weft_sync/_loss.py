# SPDX-License-Identifier: MIT
"""What a loop hands to ``step``: a loss as a tensor or a number, a closure as torch.optim takes it
(by place, or as ``closure=``, which Lightning does), or nothing."""

from __future__ import annotations

from typing import Any

import torch


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


__all__ = ["called", "number"]
