# SPDX-License-Identifier: MIT
"""Where a model's parameters and gradients lie in weft's arrays, and what can not lie there.

Float32 on the CPU lies there itself: the parameter's memory becomes weft's. All else has a float32
master there, and is copied from it after each step; what the program writes into such a parameter
between two steps goes into the master before the next: through ``p.data``, too, of which torch counts
no version, so values are compared. Where torch steps on a device nobody needs a master between two
exchanges of parameters: it *rests* until then, and nothing is compared.

    on the CPU     the parameter with its master, rounded as the parameter is
    elsewhere      a digest of it, computed there: 8 bytes come to the host, and the parameter only if
                   they have changed
    the master     the sum of its bits, where a mixer would undo a part of what is written (*watched*)
"""

from __future__ import annotations

import ctypes as c
import functools
import math
import mmap
from typing import Any, Sequence

import torch

from . import _own, _world
from ._copies import Arrival, copies_for
from ._library import Error, log
from ._world import dense, local


class Storage:
    """Blocks that libweft fills and tensors view: they live as long as either needs them. `pinned`: devices
    copy to and from them."""

    TAKE = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_size_t)

    def __init__(self, pinned: bool = False) -> None:
        self.pinned = pinned
        self.blocks: list[tuple[int, Any]] = []
        self.take = self.TAKE(self._take)

    def _take(self, _user: int, n_bytes: int) -> int | None:
        try:
            if self.pinned:
                page = torch.zeros(max(n_bytes, 1), dtype=torch.uint8, device="cpu", pin_memory=True)
                self.blocks.append((page.data_ptr(), page))
                return page.data_ptr()
            block = mmap.mmap(-1, max(n_bytes, 1),
                              flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, RuntimeError):  # of memory
            return None
        address = c.addressof(c.c_char.from_buffer(block))
        self.blocks.append((address, block))
        return address

    def tensor(self, address: int, shape: torch.Size) -> torch.Tensor:
        n = shape.numel()
        for base, block in self.blocks:
            if base <= address < base + max(len(block), 1) and n > 0:
                if self.pinned:
                    return block[address - base:address - base + 4 * n].view(torch.float32).view(shape)
                return torch.frombuffer(block, dtype=torch.float32, count=n,
                                        offset=address - base).view(shape)
        return torch.empty(shape, dtype=torch.float32, device="cpu")


_PART = 1 << 20  # elements that are digested at a time
#: of 64 bits the highest of two numbers would cancel, modulo 2^64
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int32, 16: torch.int32}


@functools.lru_cache(maxsize=None)
def _weights(device: torch.device) -> torch.Tensor:
    """Odd, so that one number that changes always changes the digest."""
    spread = torch.arange(_PART, dtype=torch.int64, device=device) * -7046029254386353131
    return (spread ^ (spread >> 29)) | 1


def digest(values: torch.Tensor) -> torch.Tensor:
    """A number [1] modulo 2^64 of all bits and their places, on the tensor's own device."""
    bits = values.resolve_conj().resolve_neg().contiguous().view(-1).view(_BITS[values.element_size()])
    total = torch.zeros(1, dtype=torch.int64, device=values.device)
    for part in bits.split(_PART):
        total = total * -7070675565921424023 + (part * _weights(values.device)[:part.numel()]).sum()
    return total


def mark(places: Sequence[Place], turn: int) -> float:
    """All parameters' projection on a direction of this turn, in units of their norm: rounding moves it by about as much of
    one as them, other weights by much more in all turns but a few."""
    @functools.lru_cache(maxsize=None)
    def signs(device: torch.device) -> torch.Tensor:
        return (_weights(device) >> 20 + turn % 40 & 1).to(torch.float32) * 2 - 1

    sums: dict[torch.device, torch.Tensor] = {}
    for place in places:
        for part in local(place.p).detach().reshape(-1).split(_PART):
            x = part.to(torch.float32)
            two = torch.stack([torch.dot(x, signs(x.device)[:x.numel()]), torch.dot(x, x)]).double()
            sums[x.device] = sums[x.device] + two if x.device in sums else two
    along, squares = (sum(both) for both in zip(*(two.tolist() for two in sums.values())))
    return along / math.sqrt(squares) if squares > 0 else 0.0


def _bits(values: torch.Tensor) -> torch.Tensor:
    """Their sum [1], as fast as memory is."""
    bits = values.view(-1).view(torch.int32)
    whole = bits.numel() // 2 * 2
    return bits[:whole].view(torch.int64).sum().view(1) + bits[whole:].sum()


def frozen(named: Sequence[tuple[torch.Tensor, str]], what: str = "frozen {}") -> str:
    """A line for each; what has no bits of its own to read (quantized classes, sparse ones) is left out."""
    lines = []
    for p, name in named:
        if p.layout != torch.strided or p.device.type == "meta":
            continue
        try:
            lines.append(f"{what.format(name)}: {digest(local(p.detach())).item()}\n")
        except torch.cuda.OutOfMemoryError:
            raise
        except (KeyError, RuntimeError, NotImplementedError, TypeError):
            continue
    return "".join(lines)


def floats(address: int, n: int) -> torch.Tensor:
    """A copy of n floats of libweft's own."""
    if n == 0:
        return torch.empty(0, dtype=torch.float32, device="cpu")
    return torch.frombuffer((c.c_float * n).from_address(address), dtype=torch.float32).clone()


def write(address: int, values: torch.Tensor) -> None:
    """Into floats of libweft's own."""
    if values.numel():
        torch.frombuffer((c.c_float * values.numel()).from_address(address), dtype=torch.float32).copy_(values.reshape(-1))


# --- what can not be trained so ---

def _fault(p: torch.Tensor) -> str | None:
    """Why this parameter can not be exchanged; None: it can."""
    if torch.nn.parameter.is_lazy(p):
        return "has no shape yet: run a batch through the model before"
    if not p.dtype.is_floating_point:
        return f"is of {p.dtype}, expected real numbers: make it two, or freeze it"
    if p.device.type == "meta":
        return "is on the meta device, where it has no values: materialize the model before"
    if p.numel() == 0:
        return f"is of shape {tuple(p.shape)}, without elements: freeze it, or leave it out"
    if p.is_inference():
        return "is an inference tensor: make the model outside torch.inference_mode()"
    if any(n > 1 and stride == 0 for n, stride in zip(p.shape, local(p).stride())):
        return "is an expanded tensor, whose elements share memory: clone it"
    return None


def check(params: Sequence[torch.Tensor], names: Sequence[str]) -> None:
    """That each parameter has numbers, and memory, of its own."""
    spans = []
    n = sum(p.dtype == torch.float64 for p in params)
    if n > 0:
        log.warning("%d parameters are float64: weft exchanges them, and optimizes, in float32", n)
    for p, name in zip(params, names, strict=True):
        fault = _fault(p)
        if fault is not None:
            raise Error("argument", f"'{name}' {fault}")
        with torch.no_grad():
            own = local(p)
        extent = 1 + sum((n - 1) * s for n, s in zip(own.shape, own.stride()))
        if own.numel() and own.is_contiguous():
            at = own.data_ptr()
            spans.append((str(own.device), at, at + extent * own.element_size(), name))
    spans.sort()
    for (device, _, end, name), (other, start, _, second) in zip(spans, spans[1:]):
        if device == other and start < end:
            raise Error("argument", f"'{name}' and '{second}' share memory: expected one "
                        "parameter that is used twice, or two with memory of their own")


def take_in(places: Sequence[Place]) -> bool:
    """What the program has written into parameters since the last step; whether that is seen. Of each device one read."""
    far: dict[torch.device, list[Place]] = {}
    found = False
    for place in places:
        if place.seen is not None:
            far.setdefault(place.seen.device, []).append(place)
        elif not place.in_place and not place.rests:
            found |= place.take_in()
    for those in far.values():
        now = torch.cat([place.digest() for place in those])
        differs = now != torch.cat([place.seen for place in those if place.seen is not None])
        for place, changed in zip(those, differs.tolist()):
            if changed:
                found |= place.take_in()
    return found


def bring_down(places: Sequence[Place]) -> None:
    """Parameters on devices into their masters, all copies under way before the first is waited for."""
    far = [(place, place.copies.down(place.there())) for place in places if place.copies is not None]
    for place, arrival in far:
        place.master.copy_(arrival.host())
        place._see()


def again(place: Place) -> str:
    """What is said of one backward too many."""
    n = place.backwards
    return (f"backward number {n} of one step reached '{place.name}'; of micro-batches say "
            f"accumulate={n}, or put all but the last into 'with optimizer.no_sync():', as another "
            "optimizer's loss (then zero_grad); of torch.utils.checkpoint say use_reentrant=False")


class Place:
    """One parameter: where its float32 master and gradient lie in weft's arrays."""

    def __init__(self, index: int, name: str, p: torch.nn.Parameter):
        self.index, self.name, self.p = index, name, p
        self.shape, self.dtype = local(p).shape, p.dtype
        self.near = not _world.far(p)
        self.in_place = p.dtype == torch.float32 and self.near and not isinstance(p, _world.DTensor)
        self.alias_grad = self.in_place
        self.master: torch.Tensor  # both by attach
        self.grad: torch.Tensor
        self.fresh = True    # nothing of this step is in the gradient yet
        self.version: int | None = None  # of the gradient when it was handed over
        self.kept: tuple[torch.Tensor, int] | None = None  # p.grad that was copied, its version
        self.left: int | None = None  # version of p.grad when autograd had written it
        self.backwards = 0   # in this step
        self.seen: torch.Tensor | None = None  # digest of a far parameter when it was the master's
        self.copies = None if self.near else copies_for(local(p).device)
        self.coming: Arrival | None = None  # the gradient, on its way to the host
        #: gradients go (could go) straight into weft's memory and directions out of it, which is pinned
        self.could = self.straight = self.copies is not None and self.copies.straight and p.dtype == torch.float32
        self.lent: Any = None  # after this event weft's memory may be written to
        self.rests = False   # the master does not follow the parameter
        self.watched = False  # in place: whether a write between steps is to be seen
        self.stays = False   # the gradient goes nowhere: no method exchanges it
        self.alone = False   # it is this process's own, which torch steps along
        self.reached = False  # by a backward of this step
        self.own: _own.Own | None = None  # what steps it there, and may have a float32 master there
        self.packet: Any = None  # of _packets, which chooses there what is sent
        self.momentum: torch.Tensor  # by it

    def attach(self, master: torch.Tensor, grad: torch.Tensor) -> None:
        self.master, self.grad = master, grad
        self.at = master.data_ptr()  # share_memory() moves the master, too, and libweft knows nothing of it
        with torch.no_grad():
            self.master.copy_(local(self.p))
            if self.in_place:
                self.p.data = self.master
            self._see()

    def _see(self) -> None:
        self.seen = None if self.near or self.rests else self.digest()

    def digest(self) -> torch.Tensor:
        return _bits(self.master) if self.in_place else digest(local(self.p))

    def look(self) -> None:
        """Before a step: that the model computes with this parameter still."""
        own = self.p if self.in_place else local(self.p)
        moved = own.data_ptr() != self.at if self.in_place else own.shape != self.shape or own.dtype != self.dtype
        if moved:
            raise Error("argument", f"'{self.name}' was moved, converted or replaced after the optimizer was created (model.to, "
                        "load_state_dict(assign=True), share_memory, p.data = ... in place of p.data.copy_, pruning, a framework "
                        "that wraps it for several processes, a second optimizer?); create the optimizer last")

    @torch.no_grad()
    def settle(self) -> None:
        """Into the master's memory again, where a framework has copied the parameter (Accelerate's to("cpu:0"))."""
        own = local(self.p)
        if self.in_place and own.data_ptr() != self.at and own.device.type == "cpu" and \
                own.shape == self.shape and own.dtype == self.dtype:
            self.master.copy_(own)
            self.p.data = self.master

    def take_in(self) -> bool:
        """What the program has written since into a parameter that is not the master itself; whether it has."""
        if self.in_place:
            self.seen = None
            return True
        now = local(self.p).to(device="cpu")
        written = now != self.master.to(self.dtype)
        if not written.any():
            return False
        self.master.copy_(torch.where(written, now.to(torch.float32), self.master))
        self._see()
        return True

    def written(self) -> None:
        """libweft writes the parameter: a backward that still needs its numbers fails, as after a step of
        torch's own optimizers, instead of computing with those of the next step."""
        if self.in_place:  # torch sees nothing of it
            torch.autograd.graph.increment_version(self.p)

    def collect(self, keep: bool = False) -> None:
        """Takes over what autograd left in p.grad, unless it went into weft's array already:
        it goes into a view of that from its second pass on. A copy now is cheaper than
        zeros beforehand, and adding to them. `keep`: what is copied stays until the step in
        p.grad, for norms that are logged; who changes it is told (`changed`)."""
        grad = self.p.grad
        if self.alias_grad and grad is not self.grad:
            self.fresh = True  # what is here was dropped (model.zero_grad()), or is in the other one, too (create_graph)
        if grad is None or grad is self.grad:
            return
        if not self.in_place or grad.layout != torch.strided:
            grad = dense(self.p)
        self.reached = True
        if self.copies is not None:
            self.coming = self.copies.down(grad, self.grad, self.lent) if self.straight else self.copies.down(grad)
        elif self.fresh:
            self.grad.copy_(grad)
        else:
            self.grad.add_(grad.to(device="cpu", dtype=torch.float32))
        self.fresh = self.coming is not None
        if keep and not self.alias_grad:
            self.kept = grad, grad._version
        else:
            self.p.grad = self.grad if self.alias_grad else None

    def arrived(self) -> bool:
        return self.coming is None or self.coming.here()

    def land(self) -> None:
        """What was on its way is there."""
        if self.coming is not None:
            values = self.coming.host()
            if not self.straight:
                self.grad.copy_(values)
            self.coming, self.fresh = None, False

    def changed(self) -> bool:
        """Whether the gradient was written to after it was handed over."""
        if self.version is None:
            return False
        if self.kept is None:
            return self.grad._version != self.version
        now = self.p.grad
        return now is not None and local(now)._version != self.kept[1]

    def complete(self) -> None:
        """At the end of a step: what no loss has reached is zero."""
        if self.fresh:
            if self.lent is not None:
                self.lent.synchronize()
            self.grad.zero_()
            self.fresh = False

    def forget(self) -> None:
        self.version = self.kept = self.left = self.coming = None
        self.backwards, self.fresh, self.reached = 0, True, False
        self.p.grad = None
        if self.watched:
            self.seen = self.digest()

    def as_parameter(self, values: torch.Tensor) -> torch.Tensor:
        """Values as a tensor of the parameter's own kind."""
        values = values.to(dtype=self.p.dtype)
        if self.straight and self.copies is not None:
            values, self.lent = self.copies.lent(values)
        elif self.copies is not None:
            values = self.copies.up(values)
        return self.as_grad(values)

    def as_grad(self, values: torch.Tensor) -> torch.Tensor:
        """The same of values that are where the parameter is."""
        values = values.to(dtype=self.p.dtype)
        if not isinstance(self.p, _world.DTensor):
            return values
        return _world.DTensor.from_local(values, self.p.device_mesh, self.p.placements,
                                         shape=self.p.shape, stride=self.p.stride())

    def lend(self) -> None:
        """The direction in p.grad, for an optimizer of torch's; a frozen one has none, and one that
        this process alone has not used has none where nobody else's counts."""
        if not self.stays and self.packet is None:
            self.p.grad = self.grad if self.in_place else self.as_parameter(self.grad)
        if not self.p.requires_grad or (self.alone and not self.stays and not self.reached):
            self.p.grad = None

    def take_back(self) -> None:
        """What an optimizer of torch's has made of the parameter."""
        if not self.in_place and self.near:
            self.master.copy_(local(self.p))

    def there(self) -> torch.Tensor:
        """What is the master's equal on the device."""
        return local(self.p) if self.own is None else self.own.taken_in(self.p)

    def put(self, values: torch.Tensor) -> None:
        """Its new numbers, and those of the master that it may have there."""
        local(self.p).copy_(values)
        if self.own is not None and "master" in self.own.state[self.p]:
            local(self.own.state[self.p]["master"]).copy_(values)

    def publish(self) -> None:
        """The master's new value to a parameter that is not the master itself."""
        if self.in_place:
            self.seen = None  # an average, or what was loaded
        else:
            values = self.master if self.own is not None else self.master.to(self.dtype)
            self.put(values if self.copies is None else self.copies.up(values))
            self._see()
