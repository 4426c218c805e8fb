# SPDX-License-Identifier: MIT
"""weft_sync of weft/sync.h: tensors by name and size, addresses of their floats."""

from __future__ import annotations

import atexit
import contextlib
import ctypes as c
import logging
import math
import os
import re
import threading
import time
from typing import Any, Callable, ClassVar, Iterable, Iterator, NamedTuple, Sequence

from . import _library
from ._abi import BOOL, F64, I64, INT, PTR, SIZE, TEXT, Limits, OfferShape, Parcel, Part, Setup, Tensor
from ._abi import Report as _Report
from ._library import Config, Context, Error, LeftBehind, Mesh, PeerError, text_of
from ._rows import Rows

log = logging.getLogger("weft_sync")
SAY_AFTER_S = 10.0
_BLAME = re.compile(r"^rank \d+ failed: ")  # which libweft puts before what a rank itself says
PACK = c.CFUNCTYPE(PTR, PTR, c.POINTER(SIZE))
UNPACK = c.CFUNCTYPE(BOOL, PTR, PTR, SIZE)
SETTLE = c.CFUNCTYPE(BOOL, PTR)
MOMENTS = c.CFUNCTYPE(PTR, PTR, c.POINTER(I64))


def _version() -> str:
    from . import __version__
    return f"weft_sync: {__version__}\n"


@contextlib.contextmanager
def _beside(watch: Iterator[float]) -> Iterator[None]:
    """`watch` goes on while the block does, each time after so many seconds as it gives."""
    over = threading.Event()
    threading.Thread(target=lambda: any(over.wait(min(s, threading.TIMEOUT_MAX)) for s in watch), daemon=True).start()
    try:
        yield
    finally:
        over.set()


class Report(NamedTuple):
    """What a step did."""

    step: int            #: steps done
    lr: float            #: learning rate that it was done with
    loss: float | None   #: mean of all ranks' in step `loss_step`; None: not known
    loss_step: int       #: gossip learns of losses eight steps later
    wire_bytes: int      #: payload bytes that this rank sent to other nodes,
    local_bytes: int     #: and inside its own
    exchange_s: float    #: seconds that exchanging was under way, or worked on
    wait_s: float        #: seconds that it held the caller up; the rest was hidden
    skipped: bool        #: some rank asked to skip: nothing moved
    processes: int       #: that took part; fewer where some were lost


class Arrival(NamedTuple):
    """Tensors that are done in the step under way."""

    first: int   #: tensors first to first + n - 1
    n: int
    moves: bool  #: as `agree` returns


class Sync:
    """Tensors are (name, rows, columns, decays). Calls are made by one thread at a time;
    begin, step, agree, mix, average and rest by all ranks alike. :class:`Error` where libweft fails
    (weft/sync.h): "argument" in another state, :class:`PeerError` of other ranks."""

    def __init__(self, ctx: Context, mesh: Mesh, config: Config,
                 tensors: Sequence[tuple[str, int, int, bool]], *,
                 outside: bool = False, skips: bool = False, writes: bool = False,
                 compressed: bool = False, sharded: bool = False, elastic: bool = False, uneven: bool = False,
                 take: Any = None, pack: Callable[[], bytes] | None = None,
                 unpack: Callable[[bytes], None] | None = None, settle: Callable[[], None] | None = None,
                 moments: Callable[[], tuple[int, int]] | None = None, alike: str = "", folder: str | os.PathLike[str] | None = None,
                 decided: str | None = None):
        self.ctx, self.mesh, self.config = ctx, mesh, config
        self.lib, self._at, self.n = ctx.lib, PTR(), len(tensors)
        table = (Tensor * len(tensors))(
            *[Tensor(text_of(name), rows, cols, decays)
              for name, rows, cols, decays in tensors])
        setup = Setup(mesh=mesh.pointer, config=config.pointer, tensors=table,
                      n_tensors=len(tensors), endless=True, outside=outside, skips=skips,
                      writes=writes, compressed=compressed, sharded=sharded,
                      elastic=elastic, uneven=uneven, alike=text_of(_version() + alike),
                      folder=None if folder is None else os.fsencode(os.path.abspath(folder)),
                      decided=None if decided is None else text_of(decided),
                      take=c.cast(take, PTR) if take is not None else None)
        self._keep: list[Any] = [take]
        self._packed = b""
        self._trouble: BaseException | None = None
        self._rates: dict[int, tuple[float, float]] = {}  # rates and decays, which stay in libweft
        self.goes_on, self.rows, self._compared = False, Rows(), False
        if pack is not None and unpack is not None:
            self._carry(setup, pack, unpack)
        if settle is not None:
            self._keep.append(SETTLE(lambda _user: self._done(settle)))
            setup.settle = c.cast(self._keep[-1], PTR)
        if moments is not None:
            self._meet(setup, moments)
        if config.number("mesh.robust") != "off":
            ctx.speak(True)  # whose numbers are wrong
        ctx.call("weft_sync_create_from", ctx.pointer, c.byref(setup), c.byref(self._at))
        #: lost processes are gone on without; the mesh then serves nothing else
        self.goes_on = bool(self.lib.weft_sync_goes_on(self.pointer))
        mesh.taken = mesh.taken or self.goes_on

    def _carry(self, setup: Setup, pack: Callable[[], bytes],
               unpack: Callable[[bytes], None]) -> None:
        """What the program keeps beside, for a process that comes: libweft calls these. An
        exception in one of them is what the call that libweft was in raises."""

        def give(_user: int, n_bytes: Any) -> int | None:
            try:
                self._packed = pack()
            except BaseException as error:
                self._trouble = error
                return None
            n_bytes[0] = len(self._packed)
            return c.cast(c.c_char_p(self._packed), PTR).value

        def get(_user: int, data: int, n_bytes: int) -> bool:
            return self._done(lambda: unpack(c.string_at(data, n_bytes)))

        self._keep += [PACK(give), UNPACK(get)]
        setup.pack, setup.unpack = (c.cast(f, PTR) for f in self._keep[1:])

    def _meet(self, setup: Setup, moments: Callable[[], tuple[int, int]]) -> None:
        def give(_user: int, n: Any) -> int | None:
            try:
                at, n[0] = moments()
            except BaseException as error:
                self._trouble = error
                return None
            return at

        self._keep.append(MOMENTS(give))
        setup.moments = c.cast(self._keep[-1], PTR)

    def _done(self, what: Callable[[], None]) -> bool:
        try:
            what()
        except BaseException as error:
            self._trouble = error
        return self._trouble is None

    @property
    def pointer(self) -> c.c_void_p:
        """The weft_sync; :class:`Error` once it is closed."""
        if not self._at:
            raise Error("argument", "this optimizer was closed, by close() or because another one was made "
                        "over the same parameters: use that one, or create it anew")
        return self._at

    def parameters(self, i: int) -> int:
        """Address of tensor i's floats."""
        return self.lib.weft_sync_parameters(self.pointer, i)

    def gradients(self, i: int) -> int:
        """Address of tensor i's gradient, [rows, columns] f32."""
        return self.lib.weft_sync_gradients(self.pointer, i)

    def _call(self, name: str, *arguments: Any) -> None:
        self.mesh.check_process()
        status = getattr(self.lib, "weft_sync_" + name)(self.pointer, *arguments)
        if status == 0:
            return
        try:
            self.ctx.check(status)
        except Error as error:
            raise self._told_apart(error)

    def _wait(self, name: str, *arguments: Any) -> None:
        self.mesh.check_process()
        try:
            self.ctx.wait(self.mesh, "weft_sync_" + name, self.pointer, *arguments)
        except Error as error:
            trouble, self._trouble = self._trouble, None
            raise self._told_apart(error) from trouble

    def _told_apart(self, error: Error) -> Error:
        """Whether others have failed, or have gone on without this process, which lives, or
        whose numbers were wrong."""
        self.mesh.taken |= isinstance(error, PeerError)
        ends = isinstance(error, PeerError) or error.status == "numeric"
        endpoints = self.mesh.way_back() if self.goes_on and ends else None
        return LeftBehind(error.status, _BLAME.sub("", str(error)), endpoints) if endpoints else error

    def begin(self) -> None:
        """All get rank 0's parameters, or who comes later those of the run."""
        missing, patience = self.mesh.begins(), _library.PATIENCE_S

        def watch() -> Iterator[float]:
            yield SAY_AFTER_S
            if who := missing():
                log.warning("waiting for %s, which %s", who, "train" if self.mesh.joins else "makes no optimizer yet")
            else:
                log.warning("parameters are being exchanged for %g s", SAY_AFTER_S)
            yield math.inf if self.mesh.joins else patience - SAY_AFTER_S
            if who := missing():
                self.mesh.fail(f"waited {patience:.0f} s for {who}, which made no optimizer")

        with _beside(watch()):
            self._wait("begin")

    def steps(self) -> int:
        """Steps that are done, those before this process came among them."""
        return int(self.lib.weft_sync_steps(self.pointer))

    def compare(self) -> None:
        """Before the first step: that all have resumed at the same one."""
        if not self._compared:
            self._wait("compare")
            self._compared = True

    def open(self, changes: bool = False) -> bool:
        """The next step begins. Where lost processes are gone on without, or what crosses the wire `changes`, it may wait
        for the others. Whether these are others than before."""
        if not (self.goes_on or changes):
            self._call("open")
            return False
        self._wait("open")
        change = self.lib.weft_sync_change(self.pointer)
        if change:
            log.warning("%s", change.decode("utf-8", "replace"))
        return bool(change)

    def replan(self, cluster: str | None, loss: float, steps: int, bytes_per_day: float = 0.0, busy: str = "",
               measure_s: float = 0.0) -> str | None:
        """Before `begin`: what crosses the wire may change, by the cluster.yaml at this path (None: nothing was measured,
        and the first steps may wait measure_s for it; 0: any time); or why not."""
        why = TEXT()
        limits = Limits(None if cluster is None else text_of(cluster), loss, steps, bytes_per_day, text_of(busy), measure_s)
        self._call("replan", c.byref(limits), c.byref(why))
        return why.value.decode() if why.value else None

    def follows(self) -> bool:
        """Whether what crosses the wire may change."""
        return bool(self.lib.weft_sync_follows(self.pointer))

    def ask_form(self, form: str) -> None:
        """The first process asks, for all: "full int8"."""
        self._call("ask_form", text_of(form))

    def form(self) -> str:
        """What crosses the wire now; empty for methods that keep it."""
        text = c.create_string_buffer(64)
        self.lib.weft_sync_form(self.pointer, text, len(text))
        return text.value.decode()

    def alone(self) -> str:
        """After a step, once: that one process alone is expected to be faster; empty where it is not."""
        return (self.lib.weft_sync_alone(self.pointer) or b"").decode("utf-8", "replace")

    def form_change(self) -> tuple[str, list[float]]:
        """Why it has changed, once; empty where that is not known. And what was expected of it, as weft/sync.h says."""
        expected = (F64 * 6)()
        why = self.lib.weft_sync_form_change(self.pointer, expected) or b""
        return why.decode("utf-8", "replace"), list(expected)

    def place(self) -> tuple[int, int]:
        """This process's number among those that take part, and how many they are."""
        size = INT()
        rank = self.lib.weft_sync_rank(self.pointer, c.byref(size))
        return rank, size.value

    def set_rate(self, lr: float) -> None:
        """The learning rate from now on, in place of the schedule's."""
        self._call("set_rate", lr)

    def mark(self, mark: float) -> None:
        """A number that tells this process's parameters apart: equal copies are compared by it in the step to come."""
        self._call("mark", mark)

    def set_tensor(self, i: int, lr_scale: float, weight_decay: float) -> None:
        """Tensor i's factor of the rate, and its weight decay."""
        if self._rates.get(i) != (lr_scale, weight_decay):
            self._call("set_tensor", i, lr_scale, weight_decay)
            self._rates[i] = lr_scale, weight_decay

    def ready(self, i: int) -> None:
        """Tensor i's gradient is complete: its exchange may begin."""
        self._call("ready", i)

    def offer_shape(self, i: int) -> OfferShape:
        """How many numbers of tensor i a caller that compresses offers."""
        shape = OfferShape()
        self._call("chunk_shape_of", i, c.byref(shape))
        return shape

    def offer(self, i: int, places: int | None, values: int) -> None:
        """Addresses of what the caller chose of tensor i."""
        self._call("submit", i, places, values)

    def hear(self, i: int, places: int, values: int, stride: int) -> None:
        """Before `offer`: addresses of room for what each copy's process sends of tensor i."""
        self._call("collect", i, places, values, stride)

    def heard(self, i: int) -> int:
        """How many processes' numbers are there; 0: the direction is, instead."""
        n = INT()
        self._call("collected", i, c.byref(n))
        return n.value

    def signs(self, i: int, below: int, moves: int) -> bool:
        """Writes the direction's signs, two bits for each element; False: not a number."""
        sound = BOOL()
        self._call("signs", i, below, moves, c.byref(sound))
        return sound.value

    def hold_mixer(self) -> int:
        """Before `begin`: the caller keeps the mixer's states. How many partners choco has."""
        partners = INT()
        self._call("hold_mixer", c.byref(partners))
        return partners.value

    def _parcels(self, name: str) -> list[Parcel]:
        n = INT()
        self._call(name, None, 0, c.byref(n))
        found = (Parcel * n.value)(*[Parcel() for _ in range(n.value)])
        self._call(name, found, n.value, c.byref(n))
        return list(found[:n.value])

    def outgoing(self) -> list[Parcel]:
        """What `mix`, or the first step's opening, will send: all of it is to be handed over."""
        return self._parcels("outgoing")

    def hand(self, k: int, coded: int, places: int | None) -> None:
        """Addresses of the bytes, and places, of number k of `outgoing`."""
        self._call("supply", k, coded, places)

    def not_finite(self, i: int) -> None:
        """In place of `hand`: tensor i's parameters are not. Raises."""
        self._call("not_finite", i)

    def incoming(self) -> list[Parcel]:
        """What has arrived in `agree`, and after it in `mix`."""
        return self._parcels("incoming")

    def skip(self) -> None:
        """Asks that all skip this step."""
        self._call("skip")

    def weigh(self, loss: float | None, rows: int) -> float:
        """By what is multiplied what the caller chooses of gradients, or sends of a mixer's."""
        weight = c.c_double()
        self._wait("weigh", self.rows.said(loss), rows, c.byref(weight))
        return weight.value

    def said(self) -> list[tuple[int, float, float]]:
        """Of each copy: its number in the step before (-1: it has come), its rows in this one (-1: it was
        not heard), and the seconds that it took so far."""
        rows, seconds, found = c.c_double(), c.c_double(), list[tuple[int, float, float]]()
        while (was := self.lib.weft_sync_reported(self.pointer, len(found), c.byref(rows), c.byref(seconds))) > -2:
            found.append((was, rows.value, seconds.value))
        return found

    def step(self, loss: float | None) -> Report:
        """Ends the step: exchange, weft's optimizer, mixing."""
        report = _Report()
        self._wait("step", self.rows.said(loss), c.byref(report))
        self.rows.heard(report.step, report.loss_step, report.loss, report.processes)
        return self._told(report, loss)

    def agree(self, loss: float | None) -> bool:
        """The first half of `step`, for an optimizer of the program's own: whether parameters move."""
        moves = BOOL()
        self._wait("agree", self.rows.said(loss), c.byref(moves))
        return moves.value

    def mix(self, loss: float | None = None) -> Report:
        """The second half, after the program's optimizer."""
        report = _Report()
        self._wait("mix", c.byref(report))
        self.rows.heard(report.step, report.loss_step, report.loss, report.processes)
        return self._told(report, loss)

    def mixes(self) -> bool:
        """Whether the mixer sends or changes parameters in the step under way."""
        return bool(self.lib.weft_sync_mixes(self.pointer))

    def complete(self, loss: float | None) -> None:
        """All gradients are there: the first half of step and agree."""
        self._wait("complete", self.rows.said(loss))

    def wait_any(self, timeout_s: float) -> Part:
        """Tensors that are done, within so many seconds."""
        part = Part()
        self._call("wait_any", timeout_s, c.byref(part))
        return part

    def arrivals(self, patience_s: float = 0.1) -> Iterator[Arrival]:
        """After `complete`: tensors as they are done, from the last to the first. It looks up
        every patience_s, with none that are new perhaps, so Ctrl-C ends it; the others then hear
        that this rank has failed."""
        try:
            part = self.wait_any(patience_s)
            while not part.all:
                yield Arrival(part.first, part.n, part.moves)
                part = self.wait_any(patience_s)
        except KeyboardInterrupt:
            self.mesh.fail("stopped by KeyboardInterrupt")
            raise

    @staticmethod
    def _told(r: _Report, loss: float | None) -> Report:
        known = loss is not None and not math.isnan(r.loss)
        return Report(r.step, r.lr, r.loss if known else None, r.loss_step,
                      r.wire_bytes_out, r.local_bytes_out, r.exchange_s, r.wait_s,
                      r.skipped, r.processes)

    def average(self) -> None:
        """Parameters become the mean over all ranks, until `restore`."""
        begun, patience = time.monotonic(), _library.PATIENCE_S

        def idle() -> tuple[float, str]:
            who, quiet_s = self.mesh.awaits()
            quiet_s = min(quiet_s, time.monotonic() - begun)
            return quiet_s, f"averaged() or average() waits {quiet_s:.0f} s for {who}: called on rank {self.mesh.rank} alone? " \
                "call it on all ranks, at the same step"

        def watch() -> Iterator[float]:
            yield SAY_AFTER_S
            quiet_s, why = idle()
            log.warning(why if quiet_s > SAY_AFTER_S / 2 else f"parameters are being averaged for {SAY_AFTER_S:g} s")
            while quiet_s < patience:
                yield patience - quiet_s
                quiet_s, why = idle()
            self.mesh.fail(why)

        with _beside(watch()):
            self._wait("average")

    def restore(self) -> None:
        """Parameters become this rank's own again."""
        self._call("restore")

    def rest(self) -> None:
        """Ends exchanges that go on in the background, so that the state is complete."""
        self._wait("rest")

    def states(self) -> list[str]:
        """Names of the arrays that the next step depends on; the first is parameters."""
        names: list[str] = []
        name = TEXT()
        while self.lib.weft_sync_state(self.pointer, len(names), 0, c.byref(name)):
            names.append((name.value or b"").decode())
        return names

    def state(self, k: int, i: int) -> int:
        """Address of tensor i's part of array k."""
        return self.lib.weft_sync_state(self.pointer, k, i, c.byref(TEXT()))

    def rule(self, i: int) -> tuple[str, bool]:
        """Which of weft's optimizers steps tensor i, and whether as a matrix."""
        whole = BOOL()
        name = self.lib.weft_sync_rule(self.pointer, i, c.byref(whole))
        return name.decode(), whole.value

    def numbers(self) -> list[float]:
        """The state's numbers."""
        n = INT()
        numbers = self.lib.weft_sync_numbers(self.pointer, c.byref(n))
        return [numbers[i] for i in range(n.value)]

    def set_numbers(self, values: Sequence[float]) -> None:
        """Puts them back."""
        n = INT()
        numbers = self.lib.weft_sync_numbers(self.pointer, c.byref(n))
        for i, value in zip(range(n.value), values, strict=True):
            numbers[i] = value

    def resume(self, step: int) -> None:
        """So many steps are done, and the state is that after them."""
        self._call("resume", step)

    def destroy(self) -> None:
        """Ends the exchange and gives the memory back."""
        pointer, self._at = self._at, PTR()
        if pointer:  # libweft leaves it alone in a fork
            self.lib.weft_sync_destroy(pointer)


class Closing:
    """What has an exchange and hooks on a model, until it or the program ends."""

    _sync: Sync
    _handles: list[Any]
    _closed: bool
    _made: ClassVar[dict[Closing, set[int]]] = {}

    def _replace(self, params: Iterable[Any]) -> None:
        """Closes what was made over the same parameters before: a notebook's cell that runs again."""
        own = {id(p): p for p in params}
        for other, theirs in list(self._made.items()):
            if own.keys() & theirs:
                log.warning("an earlier optimizer of weft's over these parameters is closed")
                other.close()
                for i in own.keys() & theirs:
                    own[i].grad = None  # of a step that was broken off
        self._made[self] = set(own)

    def close(self) -> None:
        """Ends the exchange. The model keeps its parameters; the mesh stays open."""
        self._made.pop(self, None)
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        for handle in self._handles:
            handle.remove()
        self._sync.destroy()


__all__ = ["Closing", "Report", "Sync"]
