# SPDX-License-Identifier: MIT
"""What a loop hands to ``step``: a loss as a tensor or a number, a closure as torch.optim takes it,
or nothing."""

from __future__ import annotations

from typing import Any

import torch


def called(loss: Any) -> tuple[Any, float | None]:
    """Of a closure what it returned, as torch.optim wants it back (None: there was none), and
    the loss as a number."""
    closure = None
    if callable(loss):
        with torch.enable_grad():
            closure = loss = loss()
    value = loss.detach() if isinstance(loss, torch.Tensor) else loss
    return closure, None if value is None else float(value)


__all__ = ["called"]
