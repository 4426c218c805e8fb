# SPDX-License-Identifier: MIT
"""The store in which rank 0 tells the others where it listens, asked in slices: torch's own waits last
half an hour, say nothing and do not hear Ctrl-C."""

from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from typing import Any, Callable, TypeVar

import torch

from . import _library
from ._library import Error, PeerError, log

SAY_AFTER_S, LOOK_S = 10.0, 0.05
_held: dict[str, Any] = {}  #: rank 0's by port: who is an exchange ahead of it has called already, and would be hung up on
T = TypeVar("T")


def waited(what: str, look: Callable[[], T | None]) -> T:
    """What `look` finds, asked until it is not None; a line says after a while what is waited for."""
    begun, said, why, patience = time.monotonic(), False, "", _library.PATIENCE_S
    while True:
        try:
            found = look()
            if found is not None:
                return found
        except OSError as error:
            why = f" ({error})"
        passed = time.monotonic() - begun
        if passed > patience:
            raise PeerError("peer", f"waited {patience:.0f} s for {what}{why}: it did not come")
        if passed > SAY_AFTER_S and not said:
            said = True
            log.warning("waiting for %s%s", what, why)
        time.sleep(LOOK_S)


class Store:
    """set and get, of a store of torch.distributed's."""

    def __init__(self, store: Any, what: str):
        self.store, self.what = store, what

    def set(self, key: str, text: str) -> None:
        self.store.set(key, text)

    def get(self, key: str) -> bytes:
        try:
            waited(self.what, lambda: self.store.check([key]) or None)
            return self.store.get(key)
        except Error:
            raise
        except RuntimeError as error:  # of torch.distributed
            raise PeerError("peer", f"{self.what} has ended: {str(error).splitlines()[0]}") from None

    def has(self, key: str) -> bool:
        return bool(self.store.check([key]))


def _answers(host: str, port: int) -> bool:
    with socket.create_connection((host, port), 1.0):
        return True


def by_environment(rank: int, size: int) -> Store:
    """By MASTER_ADDR and MASTER_PORT; torchrun's agent holds the store itself."""
    host, port = os.environ["MASTER_ADDR"], os.environ.get("MASTER_PORT", "29500")
    what = f"rank 0 of {size} at {host}:{port}"
    if not port.isdigit():
        raise Error("config", f"MASTER_PORT is '{port}', expected a number")
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return Store(next(iter(torch.distributed.rendezvous("env://")))[0], what)
    if rank > 0:
        waited(what, lambda: _answers(host, int(port)))
    try:
        store = torch.distributed.TCPStore(
            host, int(port), size, is_master=rank == 0, timeout=timedelta(seconds=_library.PATIENCE_S),
            wait_for_workers=False, multi_tenant=True)
    except RuntimeError as error:  # of torch.distributed
        raise PeerError("peer", f"no store at MASTER_ADDR {host}, MASTER_PORT {port}, where processes meet: "
                        f"{str(error).splitlines()[0]}") from None
    if rank == 0:
        _held[port] = store
    return Store(store, what)


__all__ = ["Store", "by_environment", "waited"]
