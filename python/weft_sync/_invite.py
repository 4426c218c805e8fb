# SPDX-License-Identifier: MIT
"""A run that other machines join with a short code (weft/invite.h, docs/launching.md)."""

from __future__ import annotations

import atexit
import contextlib
import ctypes as c
import os
import pathlib
import secrets
import shutil
import tempfile

from ._abi import INT, PTR, InviteRequest, InviteSetup
from ._library import Config, Context, Error, text_of

RUN_PORTS = range(29500, 29516)


def _key_at(key: str | os.PathLike[str] | None) -> str:
    """The file of the run's key: the one that is named, or runs/weft.key, made where there is none."""
    named = key or os.environ.get("WEFT_KEY_FILE")
    if named:
        return os.fspath(named)
    path = pathlib.Path("runs", "weft.key")
    path.parent.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError), open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
        f.write(secrets.token_hex(32) + "\n")
    return str(path.resolve())


def _free_port(ctx: Context, n: int) -> int:
    """The first port from 29500 on from which n are free."""
    free = 0
    for port in RUN_PORTS:
        listener = INT()
        try:
            ctx.call("weft_mesh_listen_at", ctx.pointer, INT(port), c.byref(listener))
        except Error:
            free = 0
            continue
        os.close(listener.value)
        free += 1
        if free == n:
            return port - n + 1
    raise Error("file", f"of the ports {RUN_PORTS[0]} to {RUN_PORTS[-1]} no {n} beside each other are free: name another "
                "one for the run")


class Invitation:
    """Stands open until `close`, the end of the process, or three wrong codes. `code` is what other machines
    give to `join`; `port` is where they are let in, `run_port` where the run listens; `key` is the file of its key.
    :class:`Error` as `up` has it."""

    def __init__(self, port: int, invite_port: int, key: str | os.PathLike[str] | None, processes: int):
        self._ctx, self._pointer = Context(), PTR()
        self.key, self.run_port = _key_at(key), port or _free_port(self._ctx, processes)
        with Config(self._ctx, {"mesh.nodes": 1, "mesh.ranks_per_node": 1}) as config:
            config.finish()
            self._ctx.speak(True)
            setup = InviteSetup(port=invite_port, run_port=self.run_port, key=text_of(self.key), config=config.pointer)
            self._ctx.call("weft_invite_open", self._ctx.pointer, c.byref(setup), c.byref(self._pointer))
        self.code: str = self._ctx.lib.weft_invite_code(self._pointer).decode()
        self.port: int = self._ctx.lib.weft_invite_port(self._pointer)
        self.host: str = self._ctx.lib.weft_invite_host(self._pointer).decode()
        atexit.register(self.close)

    def close(self) -> None:
        """Nobody is let in any more."""
        pointer, self._pointer = self._pointer, PTR()
        self._ctx.lib.weft_invite_close(pointer)
        atexit.unregister(self.close)


def up(port: int = 0, *, invite_port: int = 0, key: str | os.PathLike[str] | None = None,
       processes: int = 1) -> Invitation:
    """Lets other machines join the run that this process is about to begin, by a code: call it before the
    optimizer is made. It sets WEFT_PORT and WEFT_KEY_FILE of this process.

    `port` is where the run listens and `invite_port` where the code is asked for (0: the first free one from 29500
    and from 29520 on); `key` is the file of the run's key (None: WEFT_KEY_FILE, or runs/weft.key, which is made). Of
    several `processes` of this machine each listens at a port of its own, from `port` on.
    Error "config" if libweft was built without libsodium. Not collective: one process of a run calls it."""
    invitation = Invitation(port, invite_port, key, processes)
    os.environ.update(WEFT_PORT=str(invitation.run_port), WEFT_KEY_FILE=invitation.key)
    return invitation


def join(code: str, host: str | None = None, *, patience: float = 10.0) -> str:
    """Lets this process, or those that it starts, join the run that gave the code: call it before the optimizer is made.
    It sets WEFT_JOIN and WEFT_KEY_FILE, and returns where the run listens (HOST:PORT).

    The run is looked for on this network for `patience` seconds, or at `host` (HOST or HOST:PORT). The
    key lies in a private folder until this process ends. Error "peer" if nobody answers or the code is wrong."""
    ctx, folder, where = Context(), tempfile.mkdtemp(prefix="weft-"), c.create_string_buffer(300)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    into = os.path.join(folder, "joined")
    request = InviteRequest(code=code.encode(), host=host.encode() if host else None, folder=text_of(into),
                            patience=patience)
    ctx.wait(None, "weft_invite_accept", ctx.pointer, c.byref(request), where, len(where))
    found = os.fsdecode(where.value)
    os.environ.update(WEFT_JOIN=found, WEFT_KEY_FILE=os.path.join(into, "run.key"))
    return found
