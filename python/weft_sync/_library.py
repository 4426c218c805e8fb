# SPDX-License-Identifier: MIT
"""libweft through ctypes: contexts, configurations and meshes, and errors as exceptions; _abi.py has what it declares.
Nothing here knows of torch."""

from __future__ import annotations

import atexit
import contextlib
import ctypes as c
import difflib
import logging
import os
import pathlib
import queue
import sys
import threading
import weakref
from types import TracebackType
from typing import Any, Callable, Iterator

from ._abi import BOOL, F64, FUNCTIONS, I64, INT, PTR, STRUCTS, TEXT, Facts, Key, Place, Security, Sized

log = logging.getLogger("weft_sync")
PATIENCE_S = 120.0  # until others that do not come are an error


class Error(RuntimeError):
    """What libweft has to say; `status` is its short name ("config", "peer", ...)."""

    def __init__(self, status: str, message: str):
        super().__init__(message)
        self.status = status


class PeerError(Error):
    """Another rank has failed or cannot be reached; the message says which."""


class LeftBehind(PeerError):
    """The others have gone on without this process, which lives: it stood still, or could not be
    heard. `endpoints` is where they listen (WEFT_JOIN)."""

    def __init__(self, status: str, message: str, endpoints: str):
        super().__init__(status, message)
        self.endpoints = endpoints


_loaded: c.CDLL | None = None
_NAMES = {"linux": ("libweft.so", "libweft.so.0"), "darwin": ("libweft.dylib", "libweft.0.dylib")}


def _candidates() -> list[str]:
    """WEFT_LIBRARY, the wheel's own, a build in the source tree, the system's."""
    here = pathlib.Path(__file__).resolve().parent
    name, installed = _NAMES.get(sys.platform, _NAMES["linux"])
    named = os.environ.get("WEFT_LIBRARY")
    if named:
        return [named]
    found = [str(here / name)]
    found += [str(here.parents[1] / "build" / kind / name)
              for kind in ("torch", "release", "dev")]
    return [path for path in found if os.path.exists(path)] + [installed]


def library() -> c.CDLL:
    """libweft, loaded when it is first needed: after torch, whose OpenMP it then shares."""
    global _loaded
    if _loaded is None:
        path = _candidates()[0]
        try:
            lib = c.CDLL(path)
        except OSError as error:
            raise Error("file", f"libweft could not be loaded: {error}; build it with "
                        "'make wheel', or name it in WEFT_LIBRARY") from None
        try:
            for name, (result, arguments) in FUNCTIONS.items():
                function = getattr(lib, name)
                function.restype, function.argtypes = result, arguments
        except AttributeError:
            raise Error("file", f"{path} has no {name}: it is not the libweft of this "
                        "package; build both from one tree") from None
        _check_structs(lib, path)
        _loaded = lib
    return _loaded


def _check_structs(lib: c.CDLL, path: str) -> None:
    """Structs that the library allocates may have grown at their end, but not lost fields; those that
    say their size it checks itself."""
    for mirror, name in STRUCTS.items():
        theirs = lib.weft_sync_size_of(name.encode())
        if theirs == 0 or (theirs < c.sizeof(mirror) and not issubclass(mirror, Sized)):
            raise Error("file", f"{name} has {theirs} bytes in {path}, expected at least "
                        f"{c.sizeof(mirror)}: build library and package from one tree")


def text_of(value: str) -> bytes:
    """As libweft takes texts and paths."""
    return os.fsencode(value)


class Context:
    """A weft_ctx. `call` turns a status into an exception; `wait` is the same for calls that
    wait for other ranks: Ctrl-C ends them. :class:`Error`, or MemoryError, where libweft fails."""

    def __init__(self) -> None:
        self.lib = library()
        self.pointer = PTR()
        if self.lib.weft_ctx_create(c.byref(self.pointer)) != 0:
            raise MemoryError("no memory for a weft context")
        self._waiter: _Waiter | None = None

    def call(self, name: str, *arguments: Any) -> None:
        """A function of libweft by its name; :class:`Error` with its sentence if it fails."""
        self.check(getattr(self.lib, name)(*arguments))

    def wait(self, mesh: Mesh | None, name: str, *arguments: Any) -> None:
        """The same of one that waits for other ranks: a signal ends it."""
        function = getattr(self.lib, name)
        if threading.current_thread() is not threading.main_thread():
            return self.check(function(*arguments))
        if self._waiter is None or self._waiter.process != os.getpid():
            self._waiter = _Waiter()
        if mesh is not None:
            return self.check(self._waiter.run(lambda: function(*arguments), mesh.stopped))
        try:
            self.check(self._waiter.run(lambda: function(*arguments), self._stop))
        finally:
            self.lib.weft_ctx_stop(self.pointer, False)

    def _stop(self, _error: BaseException) -> None:
        self.lib.weft_ctx_stop(self.pointer, True)

    def speak(self, aloud: bool) -> None:
        """Whether what libweft has to say while it waits is logged."""
        self.lib.weft_ctx_set_sink(self.pointer, c.cast(_SINK, PTR) if aloud else None, None)

    def check(self, status: int) -> None:
        """:class:`Error` with the sentence of the call that returned this."""
        if status == 0:
            return
        name = self.lib.weft_status_name(status).decode()
        message = self.lib.weft_ctx_message(self.pointer).decode("utf-8", "replace")
        self.lib.weft_ctx_clear(self.pointer)
        kind = {"peer": PeerError, "memory": MemoryError}.get(name)
        if kind is MemoryError:
            raise MemoryError(message)
        raise (kind or Error)(name, message)


def _say(_user: int, _level: int, line: bytes) -> None:
    log.warning("%s", line.decode("utf-8", "replace"))


_SINK = c.CFUNCTYPE(None, PTR, INT, TEXT)(_say)


class _Job:
    """A call of libweft, and its status once it has returned."""

    def __init__(self, call: Callable[[], int]):
        self.call = call
        self.status: int | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def result(self) -> int:
        """Waits. The status decides and not the lock: what a signal raises may come when the lock has
        been taken, and then this is asked once more. And it looks up twice a second: a signal that
        comes between Python's last look at them and the wait itself does not end that."""
        while self.status is None:
            self.done.acquire(timeout=0.5)
        return self.status


class _Waiter:
    """A thread that waits in libweft, so that the main thread hears of signals. A signal's
    exception (KeyboardInterrupt) ends the call, by a failed mesh or a stopped context, and goes on."""

    def __init__(self) -> None:
        self.process = os.getpid()  # threads do not come along in a fork
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="weft", daemon=True).start()

    def _work(self) -> None:
        while True:
            job = self.jobs.get()
            job.status = job.call()
            job.done.release()

    def run(self, call: Callable[[], int], end: Callable[[BaseException], None]) -> int:
        job = _Job(call)
        try:
            self.jobs.put(job)
            return job.result()
        except BaseException as error:
            end(error)
            job.result()
            raise


class Config:
    """A weft_config: keys as in the YAML file and on the command line of weft; :class:`Error` of others. As a
    context it gives its memory back."""

    def __init__(self, ctx: Context, keys: dict[str, Any] | None = None):
        self.ctx = ctx
        self.pointer = PTR()
        ctx.call("weft_config_create", ctx.pointer, c.byref(self.pointer))
        try:
            for key, value in (keys or {}).items():
                self.set(key, value)
        except BaseException:
            self.destroy()
            raise

    def __enter__(self) -> Config:
        return self

    def __exit__(self, *_: Any) -> None:
        self.destroy()

    def load(self, path: str | os.PathLike[str]) -> None:
        """Reads a YAML file; what it does not name stays."""
        self.ctx.call("weft_config_load", self.ctx.pointer, self.pointer,
                      text_of(os.fspath(path)))

    def set(self, key: str, value: Any) -> None:
        """``section.key`` to a value, as on the command line."""
        if isinstance(value, bool):
            value = "true" if value else "false"
        if isinstance(value, (list, tuple)):
            value = ",".join(str(item) for item in value)
        self.ctx.call("weft_config_set", self.ctx.pointer, self.pointer,
                      text_of(f"{key}={value}"))

    def fit(self, mesh: Mesh) -> None:
        """Takes nodes and ranks from the mesh."""
        if mesh.pointer:
            self.ctx.call("weft_mesh_fit", self.ctx.pointer, mesh.pointer, self.pointer)

    def finish(self) -> None:
        """Checks all keys together and fills in what depends on others."""
        self.ctx.call("weft_config_finish", self.ctx.pointer, self.pointer)

    def number(self, name: str) -> Any:
        """The value of a numeric or Boolean key, or the text of any other."""
        key = config_keys()[name]
        at = (self.pointer.value or 0) + key.offset
        kinds: dict[int, Any] = {0: I64, 1: I64, 2: F64, 3: BOOL, 4: INT}
        if key.type in kinds:
            return kinds[key.type].from_address(at).value
        return (TEXT.from_address(at).value or b"").decode()

    def has(self, trait: int) -> bool:
        """Whether the chosen kinds declare a trait, once the configuration is finished."""
        return bool(self.ctx.lib.weft_sync_traits(self.pointer) & trait)

    def destroy(self) -> None:
        """Gives the memory back."""
        if self.pointer:
            self.ctx.lib.weft_config_destroy(self.ctx.pointer, self.pointer)
            self.pointer = PTR()


#: of Optimizer and Mix, which are no keys
ARGUMENTS = ("lr", "weight_decay", "betas", "accumulate", "overlap", "skips", "between", "config",
             "mesh", "returns", "keys", "method", "optimizer", "step", "process_group", "state_device", "buffers")


def config_keys() -> dict[str, Key]:
    lib, i = library(), 0
    keys: dict[str, Key] = {}
    while True:
        key = lib.weft_config_key_at(i)
        if not key:
            return keys
        keys[key.contents.name.decode()] = key.contents
        i += 1


def key_name(name: str) -> str:
    """replicator_values or replicator.values, as weft calls it."""
    keys = config_keys()
    if name in keys or name == "method":
        return name
    for key in keys:
        if key.replace(".", "_") == name:
            return key
    names = [*keys, *(key.replace(".", "_") for key in keys), *ARGUMENTS]
    near = difflib.get_close_matches(name, names, 1) or \
        [n for n in names if "." not in n and n.partition("_")[2] == name][:1]
    guess = f" (did you mean '{near[0]}'?)" if near else ""
    raise Error("config", f"weft has no key '{name}'{guess}; 'python -m weft_sync keys' lists them "
                "all")


def key_lines() -> Iterator[str]:
    """Of each key that counts in a program's own loop: name, meaning, values, default."""
    lib, room = library(), c.create_string_buffer(600)
    for name, key in config_keys().items():
        if name.partition(".")[0] in ("data", "model", "batch"):
            continue
        values = lib.weft_config_key_values(c.byref(key), room, len(room)).decode()
        yield (f"{name}: {key.doc.decode()}\n    {values}; default "
               f"{key.fallback.decode() or 'empty'}")


def _security() -> Security:
    """The run's key and name, by WEFT_KEY_FILE, WEFT_RUN and WEFT_ENCRYPT."""
    key_file, encrypt = os.environ.get("WEFT_KEY_FILE"), os.environ.get("WEFT_ENCRYPT", "on")
    if encrypt not in ("on", "off"):
        raise Error("config", f"WEFT_ENCRYPT is '{encrypt}', expected on or off")
    run = os.environ.get("WEFT_RUN")
    return Security(key=text_of(key_file) if key_file else None, plain=encrypt == "off",
                    run=text_of(run) if run else None)


def _keyless(error: Error, host: str) -> Error:
    """libweft's sentence about a missing key names keys of weft's own program."""
    if error.status != "config" or "there is no key" not in str(error):
        return error
    return Error("config", f"{host} is reached over a network, but there is no key; expected "
                 "WEFT_KEY_FILE=run.key in the environment of all processes (the same 64 "
                 "random hexadecimal digits on all machines, as 'python -m weft_sync key > run.key' "
                 "makes them), or WEFT_ENCRYPT=off where everybody on the "
                 "network is trusted")


#: meshes of this process, which its forks let go of
_joined: weakref.WeakSet[Mesh] = weakref.WeakSet()


def _forget_all() -> None:
    for mesh in list(_joined):
        mesh.forget()


os.register_at_fork(after_in_child=_forget_all)


class Mesh:
    """The processes that train together. `store` has set(key, text) and get(key), which
    waits (torch.distributed.Store does): rank 0 tells the others where it listens. Between
    machines the bytes are encrypted with the key in the file WEFT_KEY_FILE (weft key new),
    or WEFT_ENCRYPT=off says that everybody on the network is trusted. :class:`Error` "config" where neither is,
    :class:`PeerError` where another rank fails.

    In place of a store, `address` is (host, port) where rank 0 listens. `port` is where this
    process listens, 0: the system chooses. `join` is (host, port) of a process of a run that
    trains: this one comes into it, and rank, size and store do not count.

    A fork of the process (a worker of a DataLoader, say) has no part in the mesh: it lets go of
    the sockets when it begins, so that the others hear when this process ends."""

    def __init__(self, ctx: Context, rank: int = 0, size: int = 1, host: str = "127.0.0.1",
                 store: Any = None, key: str = "weft/address", patience: float | None = None, *,
                 port: int = 0, address: tuple[str, int] | None = None,
                 join: tuple[str, int] | None = None):
        self.ctx = ctx
        patience = PATIENCE_S if patience is None else patience
        self.pointer = PTR()
        self.rank, self.size, self.process = rank, size, os.getpid()
        self.taken = False  # serves an exchange that goes on when processes are lost, or has failed
        self.joins = join is not None
        self._store, self._key = store, key
        if size == 1 and not port and join is None:
            return
        self._security = _security()
        ctx.speak(True)
        try:
            if join is not None:
                host, self.size = join[0], 1
                ctx.wait(None, "weft_mesh_enter", ctx.pointer, text_of(host), join[1], patience,
                         c.byref(self._security), c.byref(self.pointer))
            elif size == 1:
                ctx.wait(None, "weft_mesh_begin", ctx.pointer, port, c.byref(self._security),
                         c.byref(self.pointer))
            else:
                if address is not None:
                    host = address[0]
                place = self._place(host, store, key, port, address)
                place.patience = patience
                host = os.fsdecode(place.host)
                ctx.wait(None, "weft_mesh_join", ctx.pointer, c.byref(place),
                         c.byref(self.pointer))
        except Error as error:
            raise _keyless(error, host) from None
        except BaseException:
            self.close()  # it may have been made meanwhile
            raise
        finally:
            ctx.speak(False)
        self._begin()

    def _place(self, host: str, store: Any, key: str, port: int,
              address: tuple[str, int] | None) -> Place:
        """Where rank 0 listens, and where this process does."""
        place = Place(rank=self.rank, size=self.size, security=c.pointer(self._security))
        listener, chosen = INT(), INT(port)
        if address is not None and self.rank == 0:
            chosen = INT(address[1])
        if chosen.value:
            self.ctx.call("weft_mesh_listen_at", self.ctx.pointer, chosen, c.byref(listener))
        elif self.rank == 0:
            self.ctx.call("weft_mesh_listen", self.ctx.pointer, c.byref(listener),
                          c.byref(chosen))
        place.listener = listener
        if address is not None:
            place.port = address[1]
        elif self.rank == 0:
            place.port = chosen.value
            store.set(key, f"{host} {chosen.value}")
        else:
            told = store.get(key)
            host, number = (told.decode() if isinstance(told, bytes) else told).split()
            place.port = int(number)
        place.host = text_of(host)
        return place

    def _begin(self) -> None:
        ctx = self.ctx
        atexit.register(self.close)
        _joined.add(self)
        self._before = sys.excepthook
        sys.excepthook = self._excepthook
        self.facts = Facts.from_buffer_copy(ctx.lib.weft_mesh_look(self.pointer).contents)
        self.rank = self.facts.rank

    def _excepthook(self, kind: type[BaseException], error: BaseException,
                    trace: TracebackType | None) -> None:
        """An exception that ends this process is told to the others, who wait for it."""
        self.fail(f"{kind.__name__}: {error}")
        self._before(kind, error, trace)

    def fail(self, why: str) -> None:
        """Tells all ranks that this one has failed; their next call says so."""
        self.taken = True  # it serves no other exchange
        if not self.pointer:
            return
        lib, own = self.ctx.lib, Context()
        status = lib.weft_ctx_fail(own.pointer, 1, b"%s", text_of(why))
        lib.weft_mesh_fail(own.pointer, self.pointer, status)
        lib.weft_ctx_destroy(own.pointer)

    def stopped(self, error: BaseException) -> None:
        """Says to the others that this process ends because of an exception."""
        self.fail(f"stopped by {type(error).__name__}")

    def way_back(self) -> str | None:
        """Where those listen who have gone on without this process, as WEFT_JOIN takes it."""
        endpoints = c.create_string_buffer(1024)
        known = self.pointer and self.ctx.lib.weft_mesh_way_back(self.pointer, endpoints, len(endpoints))
        return os.fsdecode(endpoints.value) if known else None

    def decided(self) -> str:
        """Of a process that joins: what the members have decided; empty if nothing. :class:`Error` "peer" of nobody's answer."""
        text = c.create_string_buffer(1 << 16)
        self.ctx.wait(self, "weft_sync_decided", self.ctx.pointer, self.pointer, text, len(text))
        return text.value.decode("utf-8", "replace")

    def host_of(self, rank: int) -> str:
        """The host of a process; "" of a mesh of one."""
        return str(self.ctx.lib.weft_mesh_host_of(self.pointer, rank).decode("utf-8", "replace")) if self.pointer else ""

    def _named(self, rank: int) -> str:
        return f"rank {rank} (host {self.host_of(rank)})"

    def awaits(self) -> tuple[str, float]:
        """For whom this process waits, and seconds since a piece of a long message last came or went."""
        facts = self.ctx.lib.weft_mesh_look(self.pointer).contents
        return self._named(facts.awaited) if facts.awaited >= 0 else "others", facts.quiet_s

    def begins(self) -> Callable[[], str]:
        """This process begins an exchange; what is returned says who of the others has not yet: "" if all have, or it
        is not known any more, for the store in which they met has ended with rank 0."""
        store, self._store = self._store, None
        if self.joins or not hasattr(store, "has"):
            return lambda: "other processes" if self.joins else ""
        keys = [f"{self._key}/begins/{r}" for r in range(self.size)]

        def missing() -> str:
            with contextlib.suppress(RuntimeError):
                rest = [r for r, key in enumerate(keys) if not store.has(key)]
                return ", ".join(map(self._named, rest))
            return ""

        with contextlib.suppress(RuntimeError):  # who holds the store has ended: libweft says so
            store.set(keys[self.rank], "yes")
        return missing

    def check_process(self) -> None:
        """Fails in a child that fork() made."""
        if self.process != os.getpid():
            raise Error("argument", f"the mesh belongs to process {self.process}, and this is "
                        f"process {os.getpid()}, a fork of it (a worker that loads data?): only "
                        "the process that joined can use it")

    def forget(self) -> None:
        """In a fork: closes its copies of the sockets. Nobody hears of it."""
        if self.pointer:
            own, pointer, self.pointer = Context(), self.pointer, PTR()
            own.call("weft_mesh_forget", own.pointer, pointer)
            atexit.unregister(self.close)

    def close(self) -> None:
        """Leaves the mesh; the others are told."""
        if self.pointer:
            pointer, self.pointer = self.pointer, PTR()
            self.ctx.lib.weft_mesh_close(pointer)
            if sys.excepthook == self._excepthook:
                sys.excepthook = self._before
        atexit.unregister(self.close)
