# SPDX-License-Identifier: MIT
"""Compression on the tensor's own device: the momentum stays there, the coefficients that are
sent go to the host, and those of all come back, to be transformed back there.

    from weft_sync.device import DeviceOptimizer

    optimizer = DeviceOptimizer(model, method="flexdemo", lr=1e-3)

For flexdemo (demo in 1-D and 2-D), topk, random, striding and slicing. Coding, routes, order
of sums and counting of bytes are libweft's. DiLoCo and gossip are DeviceMix's."""

from __future__ import annotations

import atexit
import collections
import contextlib
import math
import threading
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import torch

from . import _alike, _asked, _own, _saved, _world
from ._compress import Rows, Runs, Squares, Whole
from ._copies import copies_for
from ._library import Config, Context, Error, Mesh
from ._loss import called, number
from ._places import Storage
from ._sync import Closing, Report, Sync
from .device_mix import DeviceMix

__all__ = ["DeviceMix", "DeviceOptimizer"]

ROWS = ("random", "striding", "slicing")


@contextlib.contextmanager
def _plain(tensors: Sequence[_Tensor]) -> Iterator[None]:
    """Float32 is float32 here, also in a backward inside of torch.autocast: other ranks, and
    libweft, compute so."""
    kinds = {t.momentum.device.type for t in tensors}
    with contextlib.ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


class _Kind(NamedTuple):
    """The replicator's keys."""

    kind: str
    chunk: int
    k: int
    dims: int
    rate: float
    dense_below: int
    decay: float
    alpha: float
    mean: bool    # m <- decay m + (1 - decay) g
    sign: bool
    exact: bool   # what is sent is what is decoded
    seed: int


def _kind_of(config: Config) -> _Kind:
    def of(key: str) -> Any:
        return config.number(f"replicator.{key}")
    kind = _Kind(of("kind"), of("compression_chunk"), of("compression_topk"),
                 of("compression_dims"), of("compression_rate"), of("dense_below"),
                 of("compression_decay"), of("alpha"), of("momentum_style") == "mean",
                 of("sign"), of("values") == "f32", config.number("run.seed"))
    if kind.kind not in ("demo", "topk", *ROWS):
        raise Error("config", f"replicator '{kind.kind}' does not compress on a device; expected "
                    "demo, topk, random, striding or slicing, or weft_sync.torch.Optimizer")
    if kind.kind in ROWS and not kind.exact:
        raise Error("config", f"replicator '{kind.kind}' on a device sends values as f32, but "
                    f"replicator.values is {of('values')}")
    if config.number("mixer.kind") != "none" or of("every") != 1:
        raise Error("config", "compression on a device is without a mixer, and with "
                    "replicator.every = 1; a mixer alone is DeviceMix's")
    return kind


class _Tensor:
    """A parameter, its momentum, and what of it is under way. `code` chooses of it; None: rows that all
    ranks know are sent."""

    def __init__(self, index: int, p: torch.nn.Parameter, kind: _Kind):
        self.index, self.p, self.kind = index, p, kind
        local = _world.local(p)
        self.shape, self.device = local.shape, local.device
        self.momentum: torch.Tensor  # by its packet
        self.master: torch.Tensor | None = None  # of parameters that are not f32
        self.agreed: torch.Tensor | None = None  # direction, where the steps are ours
        self.backwards = 0
        self.ready = False
        self.code = self._code()

    def _code(self) -> Any:
        kind, matrix = self.kind, len(self.shape) > 1 and self.shape.numel() > self.shape[0]
        if kind.kind in ROWS:
            return None
        if kind.kind == "topk":
            return Runs(kind.chunk, kind.k, transformed=False)
        if self.shape.numel() < kind.dense_below:
            return Whole()
        if kind.dims == 2 and matrix:
            return Squares(kind.chunk, kind.k)
        return Runs(kind.chunk, max(1, kind.k // kind.chunk) if kind.dims == 2 else kind.k)

    def taken_in(self) -> torch.Tensor:
        """The master, with what the program has written into the parameter since the last step."""
        assert self.master is not None
        return _own.written(_world.local(self.p), self.master)

    def check(self, sync: Sync) -> None:
        """That both sides cut the tensor alike."""
        if self.code is None:
            return
        shape, n = sync.offer_shape(self.index), self.shape.numel()
        whole = isinstance(self.code, Whole)
        width = n if whole else self.code.c
        if n and (shape.whole, shape.k, shape.elements) != \
                (whole, n if whole else self.code.k, width):
            raise Error("internal", f"parameter {self.index}: libweft sends {shape.k} of "
                        f"{shape.elements}, this package otherwise")


class _Packet:
    """Tensors of one device whose momenta lie in one array [elements], which are sent by one operation, once
    the gradients of all of them are there: as many launches as for one tensor."""

    def __init__(self, tensors: Sequence[_Tensor], copies: Any):
        self.tensors, self.copies, self.kind = tensors, copies, tensors[0].kind
        self.waits, self.told = len(tensors), 0
        self._lay()

    def _lay(self) -> None:
        """From bytes' first bits on, because signs are bits; runs are whole."""
        code, self.first, end = self.tensors[0].code, [], 0
        unit = 8 * code.c if type(code) is Runs else 8
        for t in self.tensors:
            self.first.append(end)
            end += -(-t.shape.numel() // unit) * unit
        self.flat = torch.zeros(end, dtype=torch.float32, device=self.tensors[0].device)
        gaps = torch.ones(end, dtype=torch.bool, device="cpu")
        for t, first in zip(self.tensors, self.first):
            t.momentum = self.flat[first:first + t.shape.numel()].view(t.shape)
            gaps[first:first + t.shape.numel()] = False
        self.gaps = gaps.nonzero().view(-1).to(self.flat.device)
        self.room: list[torch.Tensor] = []  # [ranks, chunks, k]: places and values that others sent, too

    def take(self, gains: dict[int, float]) -> None:
        """m <- decay m + gain g; p.grad is not needed any more."""
        self.flat.mul_(self.kind.decay)
        by_gain: dict[float, list[_Tensor]] = {}
        for t in self.tensors:
            if t.p.grad is not None:
                by_gain.setdefault(gains.get(id(t.p), 0.0), []).append(t)
        for gain, those in by_gain.items():
            torch._foreach_add_([t.momentum for t in those],
                                [_world.local(t.p.grad).to(torch.float32) for t in those], alpha=gain)
            for t in those:
                t.p.grad = None

    def arrived(self) -> bool:
        return all(t is None or t.here() for t in (self.places, self.values))

    # --- what is chosen differs from rank to rank ---

    def send(self, _turn: int) -> None:
        self.code = self.tensors[0].code
        one = self.tensors[0].momentum if isinstance(self.code, Squares) else self.flat
        places, values = self.code.choose(one)
        if self.kind.exact:
            self._lose(places, values)
        self.on_device = None if self.kind.exact else places
        self.places = None if places is None else self.copies.down(places)
        self.values = self.copies.down(values)

    def _lose(self, places: Any, values: torch.Tensor) -> None:
        one = self.tensors[0].momentum if isinstance(self.code, Squares) else self.flat
        one.sub_(self.code.expand(places, values, one.shape), alpha=self.kind.alpha)
        if not isinstance(self.code, Squares):
            self.flat[self.gaps] = 0  # a transform back is not zero there

    def hand_over(self, sync: Sync, _storage: Storage) -> None:
        self.host = (None if self.places is None else self.places.host(), self.values.host())
        places, values = self.host
        if self.code.transformed:
            self._make_room(sync, places, values)
        for t, first in zip(self.tensors, self.first):
            at = first if places is None else first // self.code.c * self.code.k
            if self.room and t.shape.numel():
                there, numbers = (one.view(-1)[at:].data_ptr() for one in self.room)
                sync.hear(t.index, there, numbers, values.numel())
            sync.offer(t.index, None if places is None else places.view(-1)[at:].data_ptr(),
                       values.view(-1)[at:].data_ptr())

    def _make_room(self, sync: Sync, *chosen: Any) -> None:
        """Anew in each step: what is on its way up stays as it is."""
        sync.open()
        ranks = sync.seat()[1] // sync.config.number("mesh.shards")
        self.room = [self.copies.room(torch.empty(ranks, *one.shape, dtype=one.dtype, device="cpu"))
                     for one in chosen]

    def directions(self, sync: Sync, storage: Storage) -> list[torch.Tensor]:
        """What all agreed on, of each tensor; the momentum loses what the others decode."""
        if not self.kind.exact:
            self._lose(self.on_device, self.copies.up(self.host[1]))
        heard = [sync.heard(t.index) if self.room else 0 for t in self.tensors]
        ends = [first + t.shape.numel() for t, first in zip(self.tensors, self.first)]
        found, other = self.flat, None
        if not all(n or first == end for n, first, end in zip(heard, self.first, ends)):
            found = other = self._signs(sync) if self.kind.sign else self._numbers(sync, storage)
        if any(heard):
            found = self._transformed_back(heard).reshape(-1)
        for n, first, end in zip(heard, self.first, ends):
            if n == 0 and other is not None and other is not found:
                found[first:end] = other[first:end]
        return [found[first:end].view(t.shape) for t, first, end in zip(self.tensors, self.first, ends)]

    def _transformed_back(self, heard: Sequence[int]) -> torch.Tensor:
        """Of what each process sent; of tensors that are not `heard`, and of gaps, 0."""
        chunks = torch.zeros(self.room[0].shape[1], dtype=torch.bool, device="cpu")
        for t, first, n in zip(self.tensors, self.first, heard):
            begin, long = first // self.code.c, -(-t.shape.numel() // self.code.c)
            chunks[begin:begin + long if type(self.code) is Runs else None] = n > 0
        for one in self.room:
            one[:, ~chunks] = 0
        places, values = (self.copies.lent(one[:max(heard)])[0] for one in self.room)
        one = self.tensors[0].momentum if isinstance(self.code, Squares) else self.flat
        return self.code.agreed(places, values, one.shape, self.kind.sign)

    def _numbers(self, sync: Sync, storage: Storage) -> torch.Tensor:
        found = torch.empty(self.flat.shape, dtype=torch.float32, device="cpu")
        for t, first in zip(self.tensors, self.first):
            n = t.shape.numel()
            found[first:first + n] = storage.tensor(sync.gradients(t.index), t.shape).view(-1)
        return self.copies.up(found)

    def _signs(self, sync: Sync) -> torch.Tensor:
        bits = torch.zeros(2, self.flat.numel() // 8, dtype=torch.uint8, device="cpu")
        wrong = []
        for t, first in zip(self.tensors, self.first):
            if not sync.signs(t.index, bits[0, first // 8:].data_ptr(), bits[1, first // 8:].data_ptr()):
                wrong.append((first, first + t.shape.numel()))
        there = self.copies.up(bits)
        each = torch.arange(8, dtype=torch.uint8, device=there.device)
        below, moves = ((there.unsqueeze(-1) >> each) & 1).view(2, -1).to(torch.float32)
        found = moves * (1 - 2 * below)
        for first, end in wrong:
            found[first:end] = math.nan
        return found


class _Agreed(_Packet):
    """One tensor's rows that all ranks know; for libweft a tensor of as many rows."""

    def __init__(self, tensors: Sequence[_Tensor], copies: Any):
        super().__init__(tensors, copies)
        t, self.places = tensors[0], None
        self.matrix = t.momentum.view(-1, 1) if len(t.shape) < 2 else t.momentum.view(t.shape[0], -1)
        self.rows_of = Rows(t.kind.kind, t.kind.rate, self.matrix.shape[0], t.kind.seed + 7919 * t.index)

    def sync_shape(self) -> torch.Size:
        return torch.Size((self.rows_of.most, self.matrix.shape[1])) if self.matrix.shape[1] > 1 \
            else torch.Size((self.rows_of.most,))

    def send(self, turn: int) -> None:
        self.rows = self.rows_of.rows(turn).to(self.matrix.device)
        values = self.matrix[self.rows]
        self.matrix[self.rows] = values * (1 - self.kind.alpha)
        self.values = self.copies.down(values)

    def hand_over(self, sync: Sync, storage: Storage) -> None:
        index = self.tensors[0].index
        to = storage.tensor(sync.gradients(index), self.sync_shape()).view(self.rows_of.most, -1)
        to.zero_()
        to[:len(self.rows)] = self.values.host()
        sync.ready(index)

    def directions(self, sync: Sync, storage: Storage) -> list[torch.Tensor]:
        found = storage.tensor(sync.gradients(self.tensors[0].index), self.sync_shape())
        if self.kind.sign:
            found = found.to(torch.int8)
        found = self.copies.up(found.clone()).to(torch.float32).view(self.rows_of.most, -1)
        whole = torch.zeros_like(self.matrix)
        whole[self.rows] = found[:len(self.rows)]
        return [whole.view(self.tensors[0].shape)]


TOGETHER = 1 << 22  # elements of a packet, which leaves when it is full


def _packed(tensors: Sequence[_Tensor], copies: Any) -> list[_Packet]:
    """In the order in which gradients come, which is about that of the parameters turned round."""
    found: list[_Packet] = []
    open_: dict[Any, list[_Tensor]] = {}

    def close(key: Any) -> None:
        those = open_.pop(key)
        found.append((_Agreed if those[0].code is None else _Packet)(those, copies or copies_for(those[0].device)))

    for t in reversed(tensors):
        alone = t.code is None or isinstance(t.code, Squares) or t.shape.numel() == 0
        key = (t.index if alone else type(t.code), getattr(t.code, "k", 0), t.device)
        open_.setdefault(key, []).append(t)
        if alone or sum(one.shape.numel() for one in open_[key]) >= TOGETHER:
            close(key)
    for key in list(open_):
        close(key)
    return found


class DeviceOptimizer(Closing, torch.optim.Optimizer):
    """weft.Optimizer for parameters on an accelerator: ``method`` is flexdemo, topk, random,
    striding or slicing. It steps along the agreed direction with ``lr`` and ``weight_decay`` of
    each group; or ``optimizer``, a torch optimizer over the same parameters, does, and finds
    the direction in ``p.grad``. A momentum lies beside each parameter, in float32, and a master
    beside those of 16 bits. Learning rates are read in every step.

    ``accumulate``: backward passes per step. ``p.grad`` is taken, and None, when the last of
    them has ended. ``copies``: what copies between device and host (tests)."""

    def __init__(self, model: torch.nn.Module | Iterable[Any],
                 optimizer: torch.optim.Optimizer | None = None, *, method: str = "flexdemo",
                 lr: float | None = None, weight_decay: float = 0.0, accumulate: int = 1,
                 between: str = "nodes", mesh: Mesh | None = None, copies: Any = None,
                 keys: dict[str, Any] | None = None, **named: Any):
        self.mesh = mesh if mesh is not None else _world.mesh_of_its_own()
        self.inner, self.accumulate = optimizer, accumulate
        self.report: Report | None = None
        self._ctx, self._closed, self._opened, self._turn = Context(), True, False, 0
        self._one_at_a_time = threading.Lock()  # autograd has a thread for each device
        groups, names = _world.groups_of(model)
        params = [p for g in groups for p in g["params"]]
        asked = _asked.together(keys, named, {"optimizer.lr": lr})
        by = "sgd along the agreed direction" if optimizer is None else type(optimizer).__name__
        own = {"optimizer.weight_decay": weight_decay or None} if optimizer is not None else {}
        _asked.keys({**own, **asked, **({} if optimizer is not None else {"optimizer.lr": None})},
                    by, False)
        given = {**_world.width_of(model, params), **asked}
        self.share = shards = _world.shards_of(params)  # ranks that have one copy together
        _asked.placing(shards, between, accumulate, None)
        _world.seats(given, self.mesh, shards, between, method)
        config = _world.configure(self._ctx, self.mesh, shards, method, None, given)
        self.kind = _kind_of(config)
        if optimizer is not None:
            _asked.steps(config, optimizer)
        elif lr is not None:
            _asked.rate(config, _world.configure(Context(), self.mesh, shards, method, None,
                                                 {**given, "optimizer.lr": None}))
        if self.kind.kind in ROWS:  # libweft gets them packed, and keeps nothing
            given.update({"replicator.kind": "striding", "replicator.compression_rate": 1,
                          "replicator.compression_decay": 0, "replicator.alpha": 1})
            config = _world.configure(self._ctx, self.mesh, shards, method, None, given)
        self._config = config
        self._seats = {key: value for key, value in given.items() if key.startswith("mesh.")}
        super().__init__(groups, {"lr": config.number("optimizer.lr"),
                                  "weight_decay": weight_decay})
        if optimizer is not None:
            self.param_groups = optimizer.param_groups
        self._replace(params)
        self._tensors = [_Tensor(i, p, self.kind) for i, p in enumerate(params)]
        self._packets = _packed(self._tensors, copies)
        self._packet_of = {t.index: packet for packet in self._packets for t in packet.tensors}
        self._pending: collections.deque[_Packet] = collections.deque()
        self._begin([names.get(p, f"parameter {i}") for i, p in enumerate(params)], shards > 1)

    def _begin(self, names: list[str], sharded: bool) -> None:
        """Rank 0's parameters become everybody's, by a model of weft's own for them."""
        packed = self.kind.kind in ROWS
        self._storage = Storage()
        shapes = [packet.sync_shape() if isinstance(packet := self._packet_of[t.index], _Agreed) else t.shape
                  for t in self._tensors]
        alike = _alike.text_of(self.param_groups, zip(names, (t.p for t in self._tensors)), self.inner)
        if self.kind.kind == "demo" and self._config.number("replicator.exchange") != "sharded":
            alike += "".join(f"transformed back (by any with replicator_exchange='sharded') by: {by}\n"
                             for by in sorted({_alike.rounding(t.device) for t in self._tensors}))
        self._sync = Sync(self._ctx, self.mesh, self._config, _world.table_of(shapes, names),
                          outside=True, writes=True, compressed=not packed, sharded=sharded,
                          take=self._storage.take, alike=alike)
        self._sync.begin()
        self._spread(names, sharded)
        self._sync.set_rate(1.0)
        self._closed = False
        atexit.register(self.close)
        self._handles = []
        for t in self._tensors:
            t.check(self._sync)
            self._handles.append(t.p.register_post_accumulate_grad_hook(
                lambda _p, t=t: self._arrived(t)))

    @torch.no_grad()
    def _spread(self, names: list[str], sharded: bool) -> None:
        storage, shapes = Storage(), [t.shape for t in self._tensors]
        config = _world.configure(self._ctx, self.mesh, self._config.number("mesh.shards"),
                                  "hsdp", None, {**self._seats, "optimizer.clip": 0})
        sync = Sync(self._ctx, self.mesh, config, _world.table_of(shapes, names), outside=True,
                    sharded=sharded, take=storage.take)
        for t in self._tensors:
            storage.tensor(sync.parameters(t.index), t.shape).copy_(_world.local(t.p))
        sync.begin()
        for t in self._tensors:
            whole = storage.tensor(sync.parameters(t.index), t.shape)
            _world.local(t.p).copy_(whole)
            if t.p.dtype != torch.float32 and self.inner is None:
                t.master = whole.to(t.momentum.device, copy=True)
        sync.destroy()

    # --- a step ---

    @torch.no_grad()
    def _arrived(self, t: _Tensor) -> None:
        """The hook: autograd has added to this parameter's gradient."""
        with self._one_at_a_time:
            self._take(t)

    def _take(self, t: _Tensor) -> None:
        t.backwards += 1
        if t.backwards < self.accumulate or self._paused:
            t.backwards -= self._paused
            return
        if t.ready:
            raise Error("argument", f"backward number {t.backwards} of one step; say "
                        f"accumulate={t.backwards}, or put all but the last into "
                        "'with optimizer.no_sync():'")
        t.ready = True
        packet = self._packet_of[t.index]
        packet.waits -= 1
        if packet.waits == 0:
            with _plain(packet.tensors):
                self._send(packet)
        self._hand_over(wait=False)

    _paused = False

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here only add to the gradients: all but the last of a step."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def _gains(self) -> None:
        """What each momentum takes in of a gradient: rates as they are now."""
        self._gain: dict[int, float] = {}
        for group in self.param_groups:
            gain = 1 - self.kind.decay if self.kind.mean else float(group["lr"])
            self._gain.update({id(p): gain for p in group["params"]})

    def _send(self, packet: _Packet) -> None:
        if not self._opened:
            self._gains()
            self._opened = True
        packet.waits = 0
        packet.take(self._gain)
        packet.send(self._turn)
        self._pending.append(packet)
        for t in packet.tensors:
            t.ready = True

    def _hand_over(self, wait: bool) -> None:
        """To libweft, in the order in which they were sent, what has come to the host."""
        while self._pending and (wait or self._pending[0].arrived()):
            self._pending.popleft().hand_over(self._sync, self._storage)

    @torch.no_grad()
    def step(self, loss: torch.Tensor | float | Callable[[], Any] | None = None,
             closure: Callable[[], Any] | None = None) -> Any:
        """Ends the step, as Optimizer.step does."""
        returned, loss = called(loss, closure)
        with _plain(self._tensors):
            return self._step(returned, loss)

    def _step(self, returned: Any, loss: Any) -> Any:
        for packet in self._packets:
            if packet.waits > 0:  # for what no loss has reached
                self._send(packet)
        self._hand_over(wait=True)
        value = number(loss)  # not before: it would wait for the device with the hands full
        self._sync.complete(value)
        for part in self._sync.arrivals():  # signs go up while later ones are still exchanged
            for t in self._tensors[part.first:part.first + part.n]:
                packet = self._packet_of[t.index]
                packet.told += 1
                for one, found in zip(packet.tensors, packet.directions(self._sync, self._storage)) \
                        if packet.told == len(packet.tensors) else ():
                    one.p.grad = self._as_grad(one, found)
        moves = self._sync.agree(value)
        if moves and self.inner is not None:
            self.inner.step()
        elif moves:
            self._move()
        self.report = self._sync.mix(value)
        self._turn, self._opened = self._turn + 1, False
        for t in self._tensors:
            t.p.grad, t.backwards, t.ready = None, 0, False
        for packet in self._packets:
            packet.waits, packet.told = len(packet.tensors), 0
        return self.report if returned is None else returned

    def _as_grad(self, t: _Tensor, direction: torch.Tensor) -> torch.Tensor | None:
        if self.inner is None:
            t.agreed = direction
            return None
        direction = direction.to(t.p.dtype)
        if not isinstance(t.p, _world.DTensor):
            return direction
        return _world.DTensor.from_local(direction, t.p.device_mesh, t.p.placements,
                                         shape=t.p.shape, stride=t.p.stride())

    def _move(self) -> None:
        at = {id(t.p): t for t in self._tensors}
        for group in self.param_groups:
            those = [at[id(p)] for p in group["params"]]
            lr, decay = float(group["lr"]), float(group["weight_decay"])
            moved = [_world.local(t.p) if t.master is None else t.taken_in() for t in those]
            if decay:
                torch._foreach_mul_(moved, 1 - lr * decay)
            torch._foreach_add_(moved, [t.agreed for t in those], alpha=-lr)
            for t, master in zip(those, moved):
                if t.master is not None:
                    _world.local(t.p).copy_(master)
                t.agreed = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing is left to do after ``step``; before it, forgets gradients that have not been
        taken."""
        for t in self._tensors:
            if t.ready:
                raise Error("argument", "zero_grad between backward and step: gradients are "
                            "on their way already")
            t.p.grad, t.backwards = None, 0

    # --- between steps ---

    def state_dict(self) -> dict[str, Any]:
        """Momenta, masters and the turn, of this rank: every rank saves its own."""
        self._sync.rest()
        with torch.no_grad():
            state = {t.index: {"momentum": t.momentum.clone(), **(
                {} if t.master is None else {"master": t.taken_in().clone()})}
                     for t in self._tensors}
        groups, i = [], 0
        for group in self.param_groups:
            n = len(group["params"])
            groups.append({**group, "params": list(range(i, i + n))})
            i += n
        packed = {"state": state, "param_groups": groups,
                  "weft": {"turn": self._turn, "kind": self.kind.kind, "rank": self.mesh.rank,
                           "size": self.mesh.size}}
        if self.inner is not None:
            packed["inner"] = self.inner.state_dict()
        return packed

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Before the first step."""
        if "weft" not in state_dict:
            if self.inner is None:
                raise Error("format", "the state is not of an optimizer of weft's; expected that of a "
                            "torch optimizer where one is inside")
            self._turn = _saved.steps_of(state_dict)
            self._sync.resume(self._turn)
            self.inner.load_state_dict(state_dict)
            self.param_groups = self.inner.param_groups
            return
        own, here = state_dict["weft"], (self.kind.kind, self.mesh.rank, self.mesh.size)
        if (own["kind"], own["rank"], own["size"]) != here:
            raise Error("format", f"the state is of {own['kind']}, rank {own['rank']} of "
                        f"{own['size']}; this is {here[0]}, rank {here[1]} of {here[2]}; each process "
                        "saves and loads its own")
        for t in self._tensors:
            saved = state_dict["state"][t.index]
            if saved["momentum"].shape != t.shape:
                raise Error("format", f"the momentum of parameter {t.index} was saved as "
                            f"{tuple(saved['momentum'].shape)}, this model has {tuple(t.shape)}")
            t.momentum.copy_(saved["momentum"])
            if t.master is not None:
                t.master.copy_(saved["master"])
        self._turn = own["turn"]
        self._sync.resume(self._turn)
        if self.inner is not None:
            self.inner.load_state_dict(state_dict["inner"])
            self.param_groups = self.inner.param_groups
        else:
            for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
                group.update({k: v for k, v in saved.items() if k != "params"})
