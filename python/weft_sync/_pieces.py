# SPDX-License-Identifier: MIT
"""Which processes hold the same piece of a model whose other pieces other processes hold (tensor and pipeline
parallelism, FSDP2 in a mesh of several dimensions): weft exchanges among them alone, as
DistributedDataParallel(process_group=...) does.

    4 processes, 2 copies of 2 pieces      0: left, 1: right      2: left, 3: right
    groups                                 (0, 2) and (1, 3), each with a mesh of its own

No exchange of weft's crosses a group. What all have to do in the same step (skipping, rows of a copy) they agree on by
torch.distributed; what needs the whole model, or another number of copies, is refused."""

from __future__ import annotations

import collections
import os
import socket
import zlib
from typing import Any, Sequence

import torch

from . import _store, _world
from ._library import Config, Context, Error, Mesh
from ._world import DTensor

Group = tuple[int, ...]  # ranks of torch.distributed, by their places in the group

_meshes: dict[Group, Mesh] = {}
_made: collections.Counter[Group] = collections.Counter()


def of(process_group: Any, mesh: Any, model: Any) -> tuple[Group | None, Mesh | None]:
    """The group that is asked for, and the mesh of weft's that is given."""
    if mesh is not None and process_group is not None:
        raise Error("argument", "process_group and mesh are both said; expected one of them")
    if mesh is None and process_group is None or isinstance(mesh, Mesh):
        return None, mesh
    if mesh is not None:
        if not hasattr(mesh, "get_group"):
            raise Error("argument", f"mesh is a {type(mesh).__name__}; expected a dimension of a device mesh, "
                        "mesh=device_mesh[\"dp\"]")
        if mesh.ndim != 1:
            raise Error("argument", f"the device mesh has {mesh.ndim} dimensions; expected the one along which "
                        "processes hold the same piece of the model: mesh=device_mesh[\"dp\"]")
        process_group = mesh.get_group()
    dist = torch.distributed
    if process_group is dist.GroupMember.NON_GROUP_MEMBER or dist.get_rank(process_group) < 0:
        raise Error("argument", "this process is not in the process group; expected that of the processes that "
                    "hold the same piece of the model as it")
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise Error("argument", "process_group with DDP around the model, which averages in a group of its own; "
                    "expected the model itself")
    if _world.apart():
        raise Error("argument", "process_group names processes of this machine alone where each machine has a "
                    "torch.distributed of its own (WEFT_NODES, WEFT_JOIN); expected one torchrun of all machines")
    return tuple(dist.get_process_group_ranks(process_group)), None


def narrowed(group: Group | None, named: Any) -> Group | None:
    """That no part of a tensor is with another of the group; None, if they are all processes."""
    if group is None:
        return None
    own = torch.distributed.get_rank()
    for p, name in named:
        spread = set(p.device_mesh.mesh.flatten().tolist()) if isinstance(p, DTensor) else set()
        if spread & set(group) - {own}:
            raise Error("argument", f"'{name}' is spread by torch over processes {sorted(spread)}, and the process "
                        f"group is {list(group)}; expected a group whose processes hold the same piece")
    return None if len(group) == torch.distributed.get_world_size() else group


def refuse(group: Group | None, method: str, **given: Any) -> None:
    """What can not be done by pieces."""
    for name in (name for name, value in given.items() if group and value):
        raise Error("argument", f"{name} with process_group: the pieces of a copy would come back at different steps; "
                    "expected to be left out")
    if group and method == "auto":
        raise Error("argument", "method='auto' with process_group: each group would decide for itself; expected a "
                    "method's name")


#: where they are not said
DEFAULTS = {"optimizer.clip": 0, "mesh.on_loss": "end"}


def check(group: Group | None, config: Config, steps: bool, named: Any) -> None:
    """What weft's keys ask for; `steps`: its optimizer does."""
    if group is None:
        return
    if config.number("optimizer.clip") > 0:
        raise Error("argument", f"optimizer.clip is {config.number('optimizer.clip'):g}, but the norm is of all pieces, "
                    "and a process group has one; expected optimizer_clip=0, and clipping of your own after "
                    "agree='backward'")
    if config.number("mesh.on_loss") == "go_on":
        raise Error("argument", "mesh.on_loss is go_on, but without the lost process the other pieces of its copy are "
                    "of no use; expected mesh_on_loss='end'")
    for p, name in named:
        if steps and config.number("optimizer.kind") == "muon" and isinstance(p, DTensor) and p.ndim > 1 and \
                not all(placement.is_replicate() for placement in p.placements):
            raise Error("argument", f"method {config.number('method')} steps by Muon, which turns whole matrices, and "
                        f"'{name}' is a piece of one; expected another method, or a torch optimizer inside")


def most(group: Group | None, values: Sequence[float], device: torch.device) -> list[float]:
    """Of each number the largest that a process of torch.distributed has. Collective in all of it, not in the group."""
    if group is None:
        return list(values)
    found = torch.tensor(values, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
    return [float(value) for value in found.tolist()]


def same_rows(group: Group | None, rows: Sequence[float], device: torch.device) -> None:
    """That all pieces of a copy have the same rows. `rows`: of each copy of this piece, by the ranks of the group; where
    groups differ in size, which copy belongs to which is not known, and sums are compared."""
    n, each = sum(rows), zlib.crc32(repr([float(row) for row in rows]).encode())
    largest, smallest, longest, shortest, one, other = most(
        group, [n, -n, len(rows), -len(rows), each, -each], device)
    if largest != -smallest:
        raise Error("argument", f"the copies of this piece have {n:g} rows in this step, those of others {-smallest:g} "
                    f"to {largest:g}; expected the same rows of all processes that hold the pieces of a copy")
    if longest == -shortest and one != -other:
        raise Error("argument", f"the copies of this piece have {', '.join(f'{row:g}' for row in rows)} rows in this step, "
                    "those of another piece others; expected the same rows of all processes that hold the pieces of a copy")


def alike(group: Group | None, named: Any) -> str:
    """What the processes of a group have in common: where a tensor is cut, and which part they have."""
    return "".join(f"piece of {name}: {p.device_mesh.get_coordinate()} of {tuple(p.device_mesh.shape)}, {p.placements}\n"
                   for p, name in named if group and isinstance(p, DTensor))


def mesh_of(group: Group | None) -> Mesh:
    """The mesh of the group, or of all. Collective in the group."""
    if group is None:
        return _world.mesh_of_its_own()
    found = _meshes.get(group)
    if found is None or found.taken or (found.size > 1 and not found.pointer):
        found = _meshes[group] = _founded(group)
    return found


def _founded(group: Group) -> Mesh:
    own, _, world = _world.place()
    store = world.store
    if not _made:
        store.set(f"weft/piece/{own}", ",".join(map(str, group)))
        for other in group:
            _agree(group, own, other, store)
    _made[group] += 1
    first = group[0]
    return Mesh(Context(), group.index(own), len(group), _host(own),
                _store.Store(store, f"process {first}, the first of the process group {list(group)}, in the making of "
                             "its optimizer"), f"weft/{','.join(map(str, group))}/{_made[group]}")


def _agree(group: Group, own: int, other: int, store: Any) -> None:
    """Groups of which each says the same share no process, so each process has one piece."""
    said = _store.Store(store, f"process {other} of the process group {list(group)} in the making of its "
                        "optimizer").get(f"weft/piece/{other}")
    theirs = [int(word) for word in said.decode().split(",")]
    if theirs != list(group):
        raise Error("argument", f"process {own} says that processes {list(group)} hold the same piece of the model, "
                    f"process {other} says {theirs}; expected each process in one group, which all of it name")


def _host(own: int) -> str:
    """Where others reach this process: MASTER_ADDR is a name of the machine of process 0, and of others on it."""
    master = os.environ.get("MASTER_ADDR")
    if own == 0 or not master:
        return master or socket.gethostname()
    try:
        kind, _, _, _, to = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as s:
            s.connect(to)  # nothing is sent
            found = str(s.getsockname()[0])
    except OSError:
        return socket.gethostname()
    return master if found == to[0] or found.startswith("127.") else found


def others(saved: Any, group: Group | None) -> str | None:
    """What is wrong with a state of these processes' for this one."""
    said = None if saved is None else tuple(saved)
    return None if said == group else f"the state is of {_words(said)}, this process has {_words(group)}"


def _words(group: Sequence[int] | None) -> str:
    return "the whole model" if group is None else f"the piece that processes {list(group)} hold"


__all__ = ["DEFAULTS", "Group", "alike", "check", "mesh_of", "most", "narrowed", "of", "others", "refuse",
           "same_rows"]
