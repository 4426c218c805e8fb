# SPDX-License-Identifier: MIT
"""DistributedDataParallel inside a machine: one process of it speaks with other machines. And around all that
weft exchanges among, where frameworks that see torchrun's variables put it: weft is in its place."""

from __future__ import annotations

import functools
import gc
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import torch

from . import _world
from ._library import Context, Error, Mesh, log
from ._sync import Closing, Report


ON_HOST = ("gloo", "mpi", "undefined")  # backends that carry what lies on the host; the last: both


class Told(NamedTuple):
    """What a leader says of a step."""

    report: Report | None  #: None: there was none, parameters are new
    steps: int             #: that are done
    brought: bytes         #: by the other machines, when this one has come into a run; else empty


class Node:
    """Ranks that DDP keeps alike inside a machine. The first one, the leader, speaks with
    the leaders of other machines, and tells the others of its node what came of it."""

    def __init__(self, group: Any, device: torch.device):
        dist = torch.distributed
        ranks, world = dist.get_process_group_ranks(group), dist.get_world_size()
        n = len(ranks)
        if n == world and not _world.apart():
            raise Error("argument", "DDP already averages between all ranks: leave the wrapper "
                        "out, or confine it to the node with process_group=weft.node_group()")
        if ranks != list(range(ranks[0], ranks[0] + n)) or ranks[0] % n or world % n:
            raise Error("argument", f"DDP runs over ranks {ranks} of {world}; expected "
                        f"neighbours, {n} from a multiple of {n} on")
        self.group, self.leader, self.size = group, ranks[0], n
        #: NCCL carries nothing that lies on the host; the model's device need not be the current one
        on_host = any(name in dist.get_backend(group) for name in ON_HOST)
        self.device = torch.device("cpu") if on_host else device
        self.leads = dist.get_rank() == self.leader
        number = next(_world.meshes)
        self.mesh = _world.founded(number, leaders=n) if self.leads else Mesh(Context(), 0, 1)

    def tell(self, tensors: Sequence[torch.Tensor], told: Told) -> Told:
        """The leader's tensors and what it has to say, to all of the node."""
        fields = [0.0] * len(Report._fields) if told.report is None else \
            [float("nan") if v is None else float(v) for v in told.report]
        words = torch.tensor([told.report is not None, told.steps, len(told.brought), *fields],
                             dtype=torch.float64, device=self.device)
        flat = torch.cat([t.reshape(-1) for t in tensors]).to(self.device)
        for t in (flat, words):
            self._broadcast(t)
        reported, steps, n_bytes, *fields = words.tolist()
        brought = self._tell_bytes(told.brought, int(n_bytes))
        if self.leads:
            return told
        _copy_parts(flat, tensors)
        return Told(_report_of(fields) if reported else None, int(steps), brought)

    def _broadcast(self, tensor: torch.Tensor) -> None:
        torch.distributed.broadcast(tensor, self.leader, group=self.group)

    def _tell_bytes(self, data: bytes, n: int) -> bytes:
        if n == 0:
            return b""
        given = torch.frombuffer(bytearray(data if self.leads else n), dtype=torch.uint8)
        words = given.to(self.device)
        self._broadcast(words)
        return bytes(words.tolist())


def _copy_parts(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    at = 0
    for t in tensors:
        t.copy_(flat[at:at + t.numel()].view(t.shape))
        at += t.numel()


def _report_of(fields: list[float]) -> Report:
    step, lr, loss, loss_step, wire, near, exchange, wait, skipped, n = fields
    return Report(int(step), lr, None if loss != loss else loss, int(loss_step), int(wire),
                  int(near), exchange, wait, bool(skipped), int(n))


class Follower:
    """In place of a Sync, on ranks that a leader speaks for."""

    goes_on = False
    n_steps = 0  # as the leader said

    def steps(self) -> int:
        return self.n_steps

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_arguments: None


# --- DDP around all ---

def stand_in(optimizer: Any) -> None:
    """In place of each DDP around the optimizer's model, of now and of later."""
    _watch()
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        for found in gc.get_objects():  # parameters do not know of it
            if issubclass(type(found), torch.nn.parallel.DistributedDataParallel):
                _wrapped(found, "module", found.module, (optimizer,))


@functools.lru_cache(maxsize=None)
def _watch() -> None:
    torch.nn.modules.module.register_module_module_registration_hook(_wrapped)


def _wrapped(ddp: torch.nn.Module, _name: str, model: torch.nn.Module | None, among: Iterable[Any] | None = None) -> None:
    """A hook, of each module that another one gets; DDP is being made then."""
    if model is None or not isinstance(ddp, torch.nn.parallel.DistributedDataParallel):
        return
    theirs = {id(p) for p in model.parameters()}
    open_ones: list[Any] = list(Closing._made if among is None else among)
    for optimizer in open_ones:
        if optimizer._node is None and not theirs.isdisjoint(Closing._made[optimizer]):
            _replace(ddp, optimizer)


def _replace(ddp: torch.nn.parallel.DistributedDataParallel, optimizer: Any) -> None:
    n, ours = torch.distributed.get_world_size(ddp.process_group), optimizer.mesh.size
    if n == 1:
        return
    if n != ours:
        raise Error("argument", f"the model is in a DistributedDataParallel over {n} processes, and weft exchanges among "
                    f"{ours}; expected the model alone, or, inside a machine, weft.Optimizer(DistributedDataParallel("
                    "model, process_group=weft.node_group()))")
    log.warning("the model is in a DistributedDataParallel over %d processes: weft exchanges in its place, and it "
                "averages nothing", n)

    def before(ddp: torch.nn.Module, _inputs: Any) -> None:
        if ddp.static_graph:
            raise Error("argument", "DistributedDataParallel(static_graph=True) averages gradients beside weft; expected it "
                        "left out")
        if optimizer._closed:
            handle.remove()
        ddp.require_backward_grad_sync = optimizer._closed

    handle = ddp.register_forward_pre_hook(before)
    for place in optimizer._places:
        place.settle()


__all__ = ["Follower", "Node", "Told", "stand_in"]
