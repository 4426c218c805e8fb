# SPDX-License-Identifier: MIT
"""The states of an optimizer inside, where outer steps are left (docs/methods.md section 12): each process has had its
own, and goes on with their mean."""

from __future__ import annotations

from typing import Any, Iterator

import torch

from ._own import Own
from ._world import local

#: counters, which all have alike, and what follows from parameters
_APART = ("step", "master")


def have_mean(inner: Any) -> bool:
    """Whether the mean of several optimizers' states is a state: of torch's own they are sums and means of gradients; of
    another class it is not known."""
    return inner is None or isinstance(inner, Own) or type(inner).__module__.startswith("torch.optim")


def _all(inner: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in inner.param_groups:
        for p in group["params"]:
            for name, value in sorted(inner.state.get(p, {}).items()):
                if isinstance(value, torch.Tensor) and value.is_floating_point() and name not in _APART:
                    yield local(value)


@torch.no_grad()
def flat(inner: torch.optim.Optimizer) -> tuple[Any, int]:
    """[n] float32 on the host, one after another, a copy, and n."""
    found = [value.reshape(-1).to("cpu", torch.float32) for value in _all(inner)]
    n = sum(value.numel() for value in found)
    return torch.cat([*found, torch.zeros(1, device="cpu")]), n


@torch.no_grad()
def take(inner: torch.optim.Optimizer, mean: torch.Tensor) -> None:
    """The states become what `flat` gave, as it is now."""
    at = 0
    for value in _all(inner):
        value.copy_(mean[at:at + value.numel()].view(value.shape))
        at += value.numel()


__all__ = ["flat", "have_mean", "take"]
