# SPDX-License-Identifier: MIT
"""The states of an optimizer inside, where outer steps are left (docs/methods.md section 12): each process has had its
own, and goes on with their mean."""

from __future__ import annotations

import zlib
from typing import Any, Iterator

import torch

from ._own import Own
from ._world import local

_APART = ("master",)  #: what follows from parameters
_NONE = ("Rprop", "ASGD")  #: sizes of steps, by the signs or the number of one process's gradients
_LAYOUTS = 4093  #: that the number of numbers tells apart, by zeros behind them


def have_mean(inner: Any) -> bool:
    """Whether the mean of several optimizers' states is a state: sums, means and maxima of gradients, and counters. Of
    another class than torch's own it is not known."""
    return inner is None or isinstance(inner, Own) or (
        type(inner).__module__.startswith("torch.optim") and type(inner).__name__ not in _NONE)


def _all(inner: torch.optim.Optimizer) -> Iterator[tuple[int, str, torch.Tensor]]:
    """Each with the number of its parameter, and its name."""
    params = [p for group in inner.param_groups for p in group["params"]]
    for i, p in enumerate(params):
        for name, value in sorted(inner.state.get(p, {}).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point() and name not in _APART:
                yield i, name, local(value)


@torch.no_grad()
def flat(inner: torch.optim.Optimizer) -> tuple[Any, int]:
    """[n] float32 on the host, one after another, a copy, and n. Of processes that have states of other parameters (experts
    that no row has reached) n differs, nearly always: then there is no mean."""
    found = list(_all(inner))
    layout = repr([(i, name, value.numel()) for i, name, value in found])
    numbers = torch.cat([value.reshape(-1).to("cpu", torch.float32) for _, _, value in found] +
                        [torch.zeros(1 + zlib.crc32(layout.encode()) % _LAYOUTS, device="cpu")])
    return numbers, numbers.numel()


@torch.no_grad()
def take(inner: torch.optim.Optimizer, mean: torch.Tensor) -> None:
    """The states become what `flat` gave, as it is now; counters whole numbers."""
    at = 0
    for _, name, value in _all(inner):
        now = mean[at:at + value.numel()].view(value.shape)
        value.copy_(now.round() if name == "step" else now)
        at += value.numel()


__all__ = ["flat", "have_mean", "take"]
