# SPDX-License-Identifier: MIT
"""Copies between a device and the host that nobody waits for while there is something else to
do: streams of their own, events, pinned memory. Where tensors lie on the host, copying is
nothing."""

from __future__ import annotations

import functools
from typing import Any

import torch


class HostCopies:
    """Tensors on the CPU are on the host already. Copies to mps, or a device without streams, are waited for."""

    device: torch.device | str = "cpu"
    straight = False  #: whether `down` and `lent` use the host's own memory

    def down(self, tensor: torch.Tensor, into: torch.Tensor | None = None, after: Any = None) -> Arrival:
        return Arrival(tensor.contiguous().to("cpu"), None)

    def up(self, host: torch.Tensor) -> torch.Tensor:
        return host.to(self.device)

    def lent(self, host: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return self.up(host), None

    def room(self, like: torch.Tensor) -> torch.Tensor:
        """Memory of the host that `lent` takes, shaped so."""
        return like

    def settle(self) -> None:
        """Waits for all that was begun, by any thread."""


class Arrival:
    """A tensor on its way to the host; `event` None: it is there."""

    def __init__(self, host: torch.Tensor, event: Any):
        self._host, self._event = host, event

    def here(self) -> bool:
        return self._event is None or self._event.query()

    def host(self) -> torch.Tensor:
        """Waits for it."""
        if self._event is not None:
            self._event.synchronize()
            self._event = None
        return self._host


class CudaCopies:
    """`cuda` is torch.cuda, or what is like it: torch.xpu, torch.hpu. What is copied down has been
    computed by the stream that is current then; what is copied up may be used by it. Both directions
    run side by side, and beside computing."""

    def __init__(self, device: torch.device, cuda: Any = torch.cuda):
        self.cuda, self.device = cuda, device
        self._down, self._up = cuda.Stream(device), cuda.Stream(device)

    straight = True

    def down(self, tensor: torch.Tensor, into: torch.Tensor | None = None, after: Any = None) -> Arrival:
        """`into`: pinned memory of its shape and type, which is free `after` an event."""
        tensor = tensor.contiguous()
        computed = self.cuda.Event()
        computed.record(self.cuda.current_stream(self.device))
        host = self._pinned(tensor) if into is None else into
        with self.cuda.stream(self._down):
            self._down.wait_event(computed)
            if after is not None:
                self._down.wait_event(after)
            host.copy_(tensor, non_blocking=True)
            self._used_by(tensor, self._down)  # its memory is not given away before
            arrived = self.cuda.Event()
            arrived.record(self._down)
        return Arrival(host, arrived)

    def up(self, host: torch.Tensor) -> torch.Tensor:
        pinned = self._pinned(host).copy_(host)
        return self.lent(pinned)[0]

    def lent(self, pinned: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """And the event after which the host may write there again."""
        current = self.cuda.current_stream(self.device)
        with self.cuda.stream(self._up):
            there = self._to_device(pinned)
            arrived = self.cuda.Event()
            arrived.record(self._up)
        current.wait_event(arrived)
        self._used_by(there, current)
        return there, arrived

    def room(self, like: torch.Tensor) -> torch.Tensor:
        return self._pinned(like)

    def settle(self) -> None:
        self.cuda.synchronize(self.device)

    # --- what a stand-in without a device does otherwise ---

    def _pinned(self, like: torch.Tensor) -> torch.Tensor:
        return torch.empty(like.shape, dtype=like.dtype, device="cpu", pin_memory=True)

    def _to_device(self, pinned: torch.Tensor) -> torch.Tensor:
        return pinned.to(self.device, non_blocking=True)

    def _used_by(self, tensor: torch.Tensor, stream: Any) -> None:
        tensor.record_stream(stream)


NEEDED = ("Stream", "Event", "stream", "current_stream")


@functools.lru_cache(maxsize=None)
def copies_for(device: torch.device) -> HostCopies | CudaCopies:
    """One for each device: tensors share its two streams."""
    module = getattr(torch, device.type, None)
    if device.type not in ("cpu", "mps") and all(hasattr(module, name) for name in NEEDED):
        return CudaCopies(device, module)
    if module is None:
        raise NotImplementedError(f"tensors on {device.type}; expected cpu, or what torch has a module of")
    found = HostCopies()
    found.device = device
    return found
