# SPDX-License-Identifier: MIT
"""DiLoCo and gossip around a torch optimizer, with what they remember on the parameters' own
device: what is sent is chosen and coded there, so only its bytes go to the host.

    from weft_sync.device import DeviceMix

    with DeviceMix(model, optimizer, method="diloco", mixer_values="int4"):
        ...                     # the loop as it was, optimizer.step() and all
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes as c
from typing import Any, Iterable, Iterator, Sequence

import torch

from . import _alike, _asked, _places, _saved, _world
from ._copies import copies_for
from ._held import KINDS, Held
from ._library import Config, Context, Error, Mesh, Parcel
from ._places import Storage
from ._sync import Closing, Report, Sync

__all__ = ["DeviceMix"]


class _Flat:
    """The parameters as libweft has them: one after another, in its order."""

    def __init__(self, sync: Sync, params: Sequence[torch.Tensor]):
        addresses = [sync.parameters(i) for i in range(len(params))]
        self.base = min(addresses)
        self.local = [_world.local(p) for p in params]
        at = [(address - self.base) // 4 for address in addresses]
        full = [i for i, p in enumerate(self.local) if p.numel()]
        self.order = sorted(full, key=lambda i: at[i])
        self.at = at
        self.n = sum(p.numel() for p in self.local)

    def inside(self, first: int, n: int) -> list[int]:
        return [i for i in self.order if first <= self.at[i] < first + n]

    def read(self, first: int = 0, n: int | None = None) -> torch.Tensor:
        """[n] float32, a copy on the device."""
        found = [self.local[i].reshape(-1).to(torch.float32)
                 for i in self.inside(first, self.n if n is None else n)]
        return torch.cat(found) if found else torch.empty(0, device=self.device)

    def write(self, values: torch.Tensor, first: int = 0) -> None:
        for i in self.inside(first, values.numel()):
            local = self.local[i]
            at = self.at[i] - first
            local.copy_(values[at:at + local.numel()].view(local.shape))

    @property
    def device(self) -> torch.device:
        return self.local[0].device


class DeviceMix(Closing):
    """weft.Mix with the mixer's states beside the parameters, which lie on one device, in float32
    or 16 bits. ``method``: diloco, muloco, streaming-diloco and sparseloco, dadam with
    ``mixer_kind="choco"``; of gossip without coding (dadam, accumadam) the parameters themselves
    go to the host once in a step and come back once. Processes that are lost end the run.

    ``copies``: what copies between device and host (tests)."""

    def __init__(self, model: torch.nn.Module | Iterable[Any], optimizer: torch.optim.Optimizer, *,
                 method: str = "diloco", between: str = "nodes", mesh: Mesh | None = None,
                 copies: Any = None, keys: dict[str, Any] | None = None, **named: Any):
        self.mesh = mesh if mesh is not None else _world.mesh_of_its_own()
        self.optimizer = optimizer = _asked.unwrapped(optimizer)
        self.report: Report | None = None
        self._ctx, self._closed, self._resumed = Context(), True, 0
        groups, names = _world.groups_of(model)
        params = [p for g in groups for p in g["params"]]
        given = {**_world.width_of(model, params), **(keys or {}), **named}
        _asked.keys(_asked.together(keys, named), type(optimizer).__name__, False, False)
        known = [names.get(p, f"parameter {i}") for i, p in enumerate(params)]
        _places.check(params, known)
        shards = _world.shards_of(params)
        _asked.placing(shards, between, 1, None)
        _world.seats(given, self.mesh, shards, between, method)
        self._config = _world.configure(self._ctx, self.mesh, shards, method, None, given)
        self._check(params)
        self._replace(params)
        self._copies = copies or copies_for(_world.local(params[0]).device)
        self._params = params
        self._begin(known, shards > 1)

    def _check(self, params: Sequence[torch.Tensor]) -> None:
        if self._config.number("replicator.kind") != "none":
            raise Error("config", f"method {self._config.number('method')} exchanges gradients in "
                        "each step; use DeviceOptimizer")
        _asked.steps(self._config, self.optimizer)
        theirs = {p for g in self.optimizer.param_groups for p in g["params"]}
        if not theirs <= set(params):
            raise Error("argument", f"{len(theirs - set(params))} parameters of the optimizer are "
                        "not among the model's that require gradients")
        devices = {_world.local(p).device for p in params}
        if len(devices) > 1:
            raise Error("argument", f"parameters lie on {len(devices)} devices, "
                        f"{', '.join(sorted(map(str, devices)))}; expected one")

    def _begin(self, names: list[str], sharded: bool) -> None:
        """Rank 0's parameters become everybody's."""
        self._storage = Storage()
        shapes = [_world.local(p).shape for p in self._params]
        self._sync = Sync(self._ctx, self.mesh, self._config, _world.table_of(shapes, names),
                          outside=True, writes=True, sharded=sharded, take=self._storage.take,
                          alike=_alike.text_of(self.optimizer.param_groups,
                                               zip(names, self._params), self.optimizer))
        self._closed = False
        atexit.register(self.close)
        kind = KINDS.get(self._config.number("mixer.kind"))
        partners = self._sync.hold_mixer() if kind is not None else 0
        self._flat = _Flat(self._sync, self._params)
        self._down()
        self._sync.begin()
        with torch.no_grad():
            self._up()
            self._held: Held | None = None
            if kind is not None:
                self._held = kind(self._config, self._flat.read(), partners)
        self._first = True
        beside = _saved.Beside(self.optimizer, self._pack, self._unpack)
        self._handles = [self.optimizer.register_step_pre_hook(self._before),
                         self.optimizer.register_step_post_hook(self._after), *beside.handles]

    # --- whole parameters, to and from libweft's array ---

    def _host(self) -> torch.Tensor:
        return self._storage.tensor(self._flat.base, torch.Size((self._flat.n,)))

    @torch.no_grad()
    def _down(self) -> None:
        self._host().copy_(self._copies.down(self._flat.read()).host())

    def _up(self) -> None:
        self._flat.write(self._copies.up(self._host().clone()))

    # --- a step ---

    def _hand_over(self) -> list[Any]:
        """All that is sent, coded, on its way to the host, and given to libweft. What is returned
        has to live until it is sent."""
        if self._held is None:
            return []
        parcels = self._sync.outgoing()
        underway = []
        for parcel in parcels:  # all first: one is coded while another is copied
            coded, places = self._held.give(parcel, self._flat.read(parcel.first, parcel.n))
            underway.append([self._copies.down(t) for t in (coded, places) if t is not None])
        there = [[arrival.host() for arrival in arrivals] for arrivals in underway]
        for k, found in enumerate(there):
            self._sync.hand(k, found[0].data_ptr(),
                            found[1].data_ptr() if len(found) > 1 else None)
        return there

    def _take_in(self) -> None:
        if self._held is None:
            return
        for parcel in self._sync.incoming():
            came = self._copies.up(_bytes_of(parcel))
            x = self._flat.read(parcel.first, parcel.n)
            mixed = self._held.take(parcel, came, x)
            if mixed is not None:
                self._flat.write(mixed, parcel.first)

    @torch.no_grad()
    def _before(self, *_: Any) -> None:
        kept = self._hand_over() if self._first else None
        self._first = False
        self._sync.agree(None)
        del kept
        if self._held is not None:
            self._take_in()
        elif self._moves_before:
            self._up()

    @torch.no_grad()
    def _after(self, *_: Any) -> None:
        kept = self._hand_over()
        if self._held is None:
            self._down()
        self.report = self._sync.mix()
        del kept
        if self._held is not None:
            self._take_in()
        elif not self._moves_before:
            self._up()

    @property
    def _moves_before(self) -> bool:
        """Whether gossip changes parameters before the optimizer, not after it."""
        return bool(self._config.number("mixer.order") == "awc")

    @property
    def steps(self) -> int:
        return self._sync.steps()

    # --- between steps ---

    def average(self) -> None:
        """The mean of all copies, after the last step. Collective."""
        self._down()
        self._sync.average()
        with torch.no_grad():
            self._up()

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Parameters are the mean of all copies in here. Collective."""
        before = [p.clone() for p in self._flat.local]
        self.average()
        try:
            yield
        finally:
            self._sync.restore()
            with torch.no_grad():
                for p, value in zip(self._flat.local, before):
                    p.copy_(value)

    def _arrays(self) -> dict[str, torch.Tensor]:
        """The states by libweft's names, in its order."""
        held = {} if self._held is None else self._held.states
        return {"parameters": self._flat.read(),
                **{f"mixer.{name}": state for name, state in held.items()}}

    def state_dict(self) -> dict[str, Any]:
        """Of this rank, with the optimizer's under "inner"; what weft.Mix saves, so either loads
        the other's. The optimizer's own state_dict has it, too, for frameworks."""
        inner = _saved.plain(self.optimizer)
        return {**self._pack(), "param_groups": inner["param_groups"], "inner": inner}

    def _pack(self) -> dict[str, Any]:
        self._sync.rest()
        with torch.no_grad():
            arrays = self._arrays()
            state = {i: {name: flat[self._flat.at[i]:self._flat.at[i] + local.numel()]
                         .view(local.shape).clone() for name, flat in arrays.items()}
                     for i, local in enumerate(self._flat.local)}
        rank, size = self._sync.seat()
        own = {"step": self.report.step if self.report else self._resumed,
               "numbers": self._sync.numbers(), "size": size, "rank": rank,
               "arrays": list(arrays)}
        return {"state": state, "weft": own}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Before the first step; training then goes on with the same bits. A state of the optimizer
        alone is taken over."""
        if "weft" in state_dict or _saved.OWN in state_dict:
            self._unpack(state_dict.get(_saved.OWN, state_dict))
        else:
            self._resume(_saved.steps_of(state_dict))
        _saved.load_plain(self.optimizer, state_dict.get("inner", state_dict))

    def _resume(self, steps: int) -> None:
        self._sync.resume(steps)
        self._resumed = steps

    @torch.no_grad()
    def _unpack(self, state_dict: dict[str, Any]) -> None:
        own, arrays, (rank, size) = state_dict["weft"], self._arrays(), self._sync.seat()
        given = [name for name in own["arrays"] if not name.startswith("optimizer.")]
        if given != list(arrays) or (own["size"], own["rank"]) != (size, rank):
            raise Error("format", f"the state was saved by rank {own['rank']} of {own['size']} "
                        f"with arrays {', '.join(own['arrays'])}; this is rank {rank} of {size} "
                        f"with {', '.join(arrays)}; each process saves and loads its own")
        for i, local in enumerate(self._flat.local):
            for name, flat in arrays.items():
                saved = state_dict["state"][i][name]
                if saved.shape != local.shape:
                    raise Error("format", f"'{name}' of parameter {i} was saved as "
                                f"{tuple(saved.shape)}, this model has {tuple(local.shape)}")
                at = self._flat.at[i]
                flat[at:at + local.numel()].copy_(saved.reshape(-1))
        self._flat.write(arrays["parameters"])
        self._down()
        self._sync.set_numbers(own["numbers"] or self._sync.numbers())
        self._resume(own["step"])

    def __enter__(self) -> DeviceMix:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _bytes_of(parcel: Parcel) -> torch.Tensor:
    """A copy of what libweft has of a parcel."""
    if parcel.n_bytes == 0:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    block = (c.c_char * parcel.n_bytes).from_address(parcel.bytes)
    return torch.frombuffer(block, dtype=torch.uint8).clone()
