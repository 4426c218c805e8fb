# SPDX-License-Identifier: MIT
"""How long a step of computing takes on the user's own device: forward and backward at several
batch sizes, so that what does not depend on the batch is told apart from what does.

    seconds(n) = fixed + n x per_example         least squares over the medians of each size
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from typing import Any, Callable, Iterable, Iterator, NamedTuple

import torch

from ._library import Error


class StepTime(NamedTuple):
    """Forward and backward of one process; `plan` takes it as `step_seconds`."""

    seconds: dict[int, float]  #: examples of a batch -> median
    fixed_s: float             #: of a step, whatever the batch
    per_example_s: float       #: and for each example of the batch
    spread: float              #: standard deviation of the logarithm around the medians
    device: str                #: where: "cpu", "cuda:0"

    def at(self, examples: int) -> float:
        """Seconds with a batch of this size: as measured, or on the line through what was. :class:`Error` of 0."""
        if examples < 1:
            raise Error("argument", f"a batch of {examples} examples, expected 1 or more")
        if examples in self.seconds:
            return self.seconds[examples]
        return self.fixed_s + examples * self.per_example_s


def size_of(batch: Any) -> int:
    """Examples of a batch: the first dimension of its first tensor, as loaders make them."""
    if isinstance(batch, torch.Tensor) and batch.dim() > 0:
        return int(batch.shape[0])
    parts = batch.values() if isinstance(batch, dict) else batch
    if isinstance(parts, (str, bytes, torch.Tensor)) or not hasattr(parts, "__iter__"):
        raise Error("argument", f"a batch is a {type(batch).__name__} without a tensor in it; "
                    "expected tensors whose first dimension counts examples")
    for part in parts:
        if isinstance(part, torch.Tensor) and part.dim() > 0:
            return int(part.shape[0])
    raise Error("argument", "a batch has no tensor with a dimension that counts examples")


def line_through(points: dict[int, float]) -> tuple[float, float]:
    """(fixed, per example) of the line through them, neither below 0; of one point no line
    follows, so all of it is by the example."""
    n = len(points)
    if n == 1:
        [(size, seconds)] = points.items()
        return 0.0, seconds / size
    x, y = sum(points) / n, sum(points.values()) / n
    slope = (sum((a - x) * (b - y) for a, b in points.items())
             / sum((a - x) ** 2 for a in points))
    slope = min(max(slope, 0.0), y / x)
    return max(y - slope * x, 0.0), slope


def _device_of(model: torch.nn.Module) -> torch.device:
    for p in model.parameters():
        return p.device
    raise Error("argument", "the model has no parameters")


def _finish(device: torch.device) -> None:
    """Waits for what an accelerator has been given."""
    if device.type == "cpu":
        return
    if usual_device() == device.type and hasattr(torch, "accelerator"):  # since torch 2.6
        torch.accelerator.synchronize(device)
    elif device.type == "mps":  # takes no device
        torch.mps.synchronize()
    else:
        getattr(torch, device.type).synchronize(device)


def usual_device() -> str:
    """Of the kinds of device that this machine has: its accelerator, else the processor."""
    found = getattr(torch, "accelerator", None)
    if found is not None:
        return str(found.current_accelerator().type) if found.is_available() else "cpu"
    kinds = {"cuda": torch.cuda, "mps": torch.backends.mps, "xpu": getattr(torch, "xpu", None)}
    return next((kind for kind, has in kinds.items() if has is not None and has.is_available()), "cpu")


@contextlib.contextmanager
def _as_before(model: torch.nn.Module) -> Iterator[None]:
    """Gradients, buffers (running means) and random numbers are afterwards what they were."""
    grads = [p.grad for p in model.parameters()]
    buffers = [b.detach().clone() for b in model.buffers()]
    try:
        with torch.random.fork_rng():
            yield
    finally:
        for p, grad in zip(model.parameters(), grads):
            p.grad = grad
        with torch.no_grad():
            for b, old in zip(model.buffers(), buffers):
                b.copy_(old)


def measure_step(model: torch.nn.Module, loss: Callable[[torch.nn.Module, Any], torch.Tensor],
                 batches: Iterable[Any], *, rounds: int = 5, warmup: int = 2) -> StepTime:
    """Forward and backward of ``loss(model, batch)``, which returns a scalar, on the model's
    device, for each of ``batches``: two of different sizes, say, up to the one that you will
    train with. ``rounds`` of each, in turns, after ``warmup``. Before a weft optimizer is made
    of the model; it is left as it was. :class:`Error` "argument" of batches without examples, or of one size."""
    listed = list(batches)
    sizes = [size_of(batch) for batch in listed]
    if not listed or len(set(sizes)) < len(sizes) or 0 in sizes or rounds < 1:
        raise Error("argument", f"batches of {sizes} examples and {rounds} rounds; expected one "
                    "batch or more, each of another size, and a round")
    device = _device_of(model)
    taken: dict[int, list[float]] = {n: [] for n in sizes}
    with _as_before(model):
        for turn in range(warmup + rounds):
            for n, batch in zip(sizes, listed):
                for p in model.parameters():
                    p.grad = None
                _finish(device)
                begun = time.perf_counter()
                loss(model, batch).backward()
                _finish(device)
                if turn >= warmup:
                    taken[n].append(time.perf_counter() - begun)
    medians = {n: statistics.median(times) for n, times in taken.items()}
    logs = [math.log(t / medians[n]) for n, times in taken.items() for t in times]
    spread = statistics.pstdev(logs) if len(logs) > 1 else 0.0
    return StepTime(medians, *line_through(medians), spread, str(device))


__all__ = ["StepTime", "measure_step", "usual_device"]
