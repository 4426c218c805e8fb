# SPDX-License-Identifier: MIT
"""The processes around a model: who takes part, where, and whose rows a rank has."""

from __future__ import annotations

import itertools
import os
import re
import socket
from typing import Any, Iterable, Sequence

import torch

try:
    from torch.distributed.tensor import DTensor as DTensor
except ImportError:  # before torch 2.5, or built without torch.distributed
    class DTensor:  # type: ignore[no-redef]
        pass

from . import _back, _store
from ._asked import TOO_LATE
from ._library import Config, Context, Error, Mesh, key_name

PORTS = 16  #: at which a process of a run may listen on its machine
_default: Mesh | None = None
meshes = itertools.count()


def _number(name: str, fallback: int | None = None) -> int:
    text = os.environ.get(name)
    if text is None and fallback is not None:
        return fallback
    if text is None or not text.isdigit():
        raise Error("config", f"{name} is {'not set' if text is None else repr(text)}, expected "
                    "a number from 0 on")
    return int(text)


def address_of(text: str) -> tuple[str, int]:
    """Of HOST:PORT, or of several with commas between them, the last one's port."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(text)
    return host if "," in host else host.strip("[]"), int(port)


def _address(name: str, more: str = "", text: str | None = None) -> tuple[str, int]:
    try:
        return address_of(os.environ[name] if text is None else text)
    except ValueError:
        raise Error("config", f"{name} is '{os.environ[name]}', expected HOST:PORT{more}") from None


def _entrance() -> tuple[str, int]:
    """Of WEFT_JOIN. A process that has come into a run listens at one of 16 ports, so hosts without a port are called at those from
    WEFT_PORT on."""
    hosts, port = os.environ["WEFT_JOIN"].split(","), _number("WEFT_PORT", 0)
    at = [[host] if not port or ":" in host.rpartition("]")[2] else [f"{host}:{port + i}" for i in range(PORTS)]
          for host in hosts]
    return _address("WEFT_JOIN", ", or HOST with WEFT_PORT", ",".join(itertools.chain.from_iterable(at)))


def apart() -> bool:
    """Whether each machine has a torch.distributed, or a torchrun, of its own, and weft alone
    knows of the others (WEFT_NODES, WEFT_NODE, WEFT_MASTER), or comes to them (WEFT_JOIN)."""
    return "WEFT_NODES" in os.environ or joins()


def joins() -> bool:
    """Whether this process comes into a run that trains."""
    return "WEFT_JOIN" in os.environ


def _here() -> tuple[int, int]:
    """Rank and size in the torch.distributed of this machine."""
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return _number("RANK", 0), _number("WORLD_SIZE", 1)


def founded(number: int, leaders: int = 0) -> Mesh:
    """The mesh of those who begin the run, the one of this number; with `leaders` processes per
    node only the first of each."""
    first = number == 0
    port = _number("WEFT_PORT", 0) if first else 0
    if port and not leaders:
        port += _number("LOCAL_RANK", 0)
    if joins():
        if not first:
            raise Error("config", "WEFT_JOIN is set, and this process has a mesh already; one "
                        "that comes into a run has one exchange: start the process again")
        endpoints, size = _entrance(), _here()[1]
        several = size > 1 and not leaders and torch.distributed.is_initialized()
        return enter(endpoints, _back.of_machine(size) if several else None)
    if apart():
        rank, size = _here()
        nodes, node = _number("WEFT_NODES"), _number("WEFT_NODE")
        if node >= nodes:
            raise Error("config", f"WEFT_NODE is {node}, expected 0 to {nodes - 1}: WEFT_NODES is "
                        f"{nodes}")
        host, at = _address("WEFT_MASTER")
        share = 1 if leaders else size
        if port and node * share + rank == 0 and port != at:
            raise Error("config", f"WEFT_PORT is {port} at the first process, which listens at WEFT_MASTER's port, {at}; "
                        "expected the same, or none there")
        return Mesh(Context(), node * share + (0 if leaders else rank), nodes * share,
                    address=(host, at + number), port=port)
    rank, size, store = place()
    if leaders:
        rank, size = rank // leaders, size // leaders
    host = os.environ.get("MASTER_ADDR") or socket.gethostname()
    return Mesh(Context(), rank, size, host, store, f"weft/{number}", port=port)


def enter(endpoints: tuple[str, int], together: _back.Together | None) -> Mesh:
    """Comes into a run that trains, in turns with who shares a copy of the model."""
    if together is None:
        return Mesh(Context(), join=endpoints)
    return together.in_turn(lambda: Mesh(Context(), join=endpoints))


def _first_node(nodes: str) -> str:
    """Of Slurm's "node[03-05,9],gpu1" the name that comes first."""
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", nodes).split(",")[0]


def read_slurm() -> None:
    """What torchrun would say, from what srun says: where RANK and WORLD_SIZE are absent, in a
    task of a step. A batch script itself is no such task, though it has a SLURM_PROCID."""
    env = os.environ
    if "RANK" in env or "WORLD_SIZE" in env or "SLURM_STEP_NUM_TASKS" not in env:
        return
    rank, size = _number("SLURM_PROCID"), _number("SLURM_STEP_NUM_TASKS")
    tasks = re.fullmatch(r"(\d+)(\(x\d+\))?", env.get("SLURM_STEP_TASKS_PER_NODE", ""))
    env.update(RANK=str(rank), WORLD_SIZE=str(size))
    env.setdefault("LOCAL_RANK", env.get("SLURM_LOCALID", "0"))
    if tasks:
        env.setdefault("LOCAL_WORLD_SIZE", tasks[1])
    env.setdefault("MASTER_ADDR", _first_node(env.get("SLURM_STEP_NODELIST", "")) or "127.0.0.1")
    env.setdefault("MASTER_PORT", str(20000 + _number("SLURM_JOB_ID", 0) % 10000))


def place() -> tuple[int, int, Any]:
    """Rank, size and a store, from torch.distributed or the environment."""
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size(), _store.Store(
            dist.distributed_c10d._get_default_store(), "rank 0 in the making of its optimizer")
    read_slurm()
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return 0, 1, None
    if "RANK" not in os.environ or "MASTER_ADDR" not in os.environ:
        raise Error("config", f"WORLD_SIZE is {size}, but RANK or MASTER_ADDR is not set; "
                    "start the script with torchrun, or unset WORLD_SIZE")
    rank = _number("RANK")
    return rank, size, _store.by_environment(rank, size)


def mesh() -> Mesh:
    """The mesh of all processes, joined at the first call. :class:`Error` "config" of the environment (RANK, WEFT_JOIN,
    keys), :class:`PeerError` of other ranks. Collective."""
    global _default
    if _default is None or (_default.size > 1 and not _default.pointer):
        _default = founded(next(meshes))
    return _default


def again(left: Mesh, endpoints: tuple[str, int], together: _back.Together | None = None) -> Mesh:
    """Leaves a mesh whose others have gone on, and comes in where they listen."""
    global _default
    left.close()
    found = enter(endpoints, together)
    if _default is left:
        _default = found
    return found


def mesh_of_its_own() -> Mesh:
    """The mesh of all processes, or another one where that serves an exchange which goes on when
    processes are lost: such a one needs a mesh for itself. Collective."""
    found = mesh()
    if not found.taken:
        return found
    return founded(next(meshes))


def _per_node(given: int | None) -> int:
    world = torch.distributed.get_world_size()
    n = given if given is not None else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if n < 1 or world % n:
        raise Error("argument", f"{n} ranks per node, expected a divisor of {world}, the number "
                    "of ranks")
    return n


def device_mesh(device: str, per_node: int | None = None) -> Any:
    """The ranks of torch.distributed as (nodes, ranks of a node): its dimension "shard" is
    this node's, for fully_shard. ``per_node`` is LOCAL_WORLD_SIZE if left out. :class:`Error` where it does
    not divide all. Collective."""
    n = _per_node(per_node)
    return torch.distributed.device_mesh.init_device_mesh(
        device, (torch.distributed.get_world_size() // n, n),
        mesh_dim_names=("replicate", "shard"))


def node_group(per_node: int | None = None) -> Any:
    """The process group of this node's ranks, for DistributedDataParallel. :class:`Error` as of `device_mesh`.
    Collective."""
    return torch.distributed.new_subgroups(_per_node(per_node))[0]


def plain(name: str) -> str:
    """Without what torch.compile puts in: some processes may compile, and others not."""
    return name.replace("_orig_mod.", "")


def groups_of(model: Any) -> tuple[list[dict[str, Any]], dict[torch.Tensor, str]]:
    """Parameter groups as torch.optim takes them, and parameters' names."""
    if isinstance(model, torch.nn.Module):
        names = {p: plain(name) for name, p in model.named_parameters()}
        return [{"params": [p for p in model.parameters() if p.requires_grad]}], names
    entries = list(model)
    if not entries or not isinstance(entries[0], dict):
        entries = [{"params": entries}]
    groups, names = [], {}
    for entry in entries:
        params = entry["params"]
        params = [params] if isinstance(params, torch.Tensor) else list(params)
        if params and isinstance(params[0], tuple):
            names.update({p: plain(name) for name, p in params})
            params = [p for _, p in params]
        groups.append({**entry, "params": [p for p in params if p.requires_grad]})
    return groups, names


def frozen_of(model: Any, params: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, str]]:
    """What of a module takes no part."""
    own = {id(p) for p in params}
    named = model.named_parameters() if isinstance(model, torch.nn.Module) else ()
    return [(p, plain(name)) for name, p in named if id(p) not in own]


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's rows of a sharded tensor (FSDP2), which share its memory; else itself."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def dense(p: torch.Tensor) -> torch.Tensor:
    """This rank's rows of a parameter's gradient; of an embedding with sparse=True all of them. A tensor-parallel one
    may be partial sums until now: these are added up among those who share it."""
    grad = p.grad
    assert grad is not None
    if isinstance(grad, DTensor) and isinstance(p, DTensor) and grad.placements != p.placements:
        grad = p.grad = grad.redistribute(p.device_mesh, p.placements)
    grad = local(grad)
    return grad if grad.layout == torch.strided else grad.to_dense()


def far(tensor: torch.Tensor) -> bool:
    """Whether it lies on a device: torch computes there, and only what travels comes to the host."""
    return local(tensor).device.type != "cpu"


OF_PIECES = "of other pieces (tensor parallelism) say which processes hold the same one: mesh=device_mesh[\"dp\"], or process_group="


def shards_of(params: Sequence[torch.Tensor], by_pieces: bool = False) -> int:
    """Ranks that share a copy by fully_shard; 1: none do, or each holds a piece by itself."""
    if any(getattr(p, "_fsdp_flattened", False) for p in params):
        raise Error("argument", "the model is FullyShardedDataParallel's, which averages by itself and "
                    "moves its parameters; expected fully_shard(..., mesh=weft.device_mesh(...)[\"shard\"])")
    sharded = [p for p in params if isinstance(p, DTensor)]
    if not sharded or by_pieces:
        return 1
    if len(sharded) < len(params):
        raise Error("argument", f"{len(params) - len(sharded)} of {len(params)} parameters are "
                    f"not sharded; expected fully_shard of the whole model, too; {OF_PIECES}")
    mesh = sharded[0].device_mesh
    for p in sharded:
        if p.device_mesh != mesh or mesh.ndim != 1 or not p.placements[0].is_shard(0):
            raise Error("argument", f"a parameter is placed as {p.placements} on a mesh of "
                        f"{p.device_mesh.ndim} dimensions; expected rows sharded over this "
                        "node's ranks alone: fully_shard(..., mesh=mesh[\"shard\"]). weft "
                        f"takes the place of the replicate dimension; {OF_PIECES}")
    ranks, n = mesh.mesh.tolist(), mesh.size()
    if ranks != list(range(ranks[0], ranks[0] + n)) or ranks[0] % n:
        raise Error("argument", f"a copy is sharded over ranks {ranks}; expected neighbours, "
                    f"{n} from a multiple of {n} on")
    return n


def usable(key: str) -> str:
    """The key, unless it is one that this process's mesh was joined without."""
    if key in TOO_LATE:
        raise Error("config", f"{key} would come too late here, processes join before; expected "
                    "WEFT_KEY_FILE=run.key, WEFT_RUN, or WEFT_ENCRYPT=off, in the environment")
    return key


def width_of(model: Any, params: Sequence[torch.Tensor]) -> dict[str, Any]:
    """The keys of the model's width, from which default rates follow: the side along which most
    elements of matrices lie, of equal ones the longest; none without a matrix. Those of a module
    that are not trained count too: an adapter is as wide as what it changes."""
    along: dict[int, int] = {}
    for p in model.parameters() if isinstance(model, torch.nn.Module) else params:
        if p.ndim >= 2:
            for side in {p.shape[0], p.numel() // max(p.shape[0], 1)}:
                along[side] = along.get(side, 0) + p.numel()
    width = max(along, key=lambda side: (along[side], side), default=0)
    return {"model.width": width, "model.heads": 1} if width else {}


def configure(ctx: Context, mesh: Mesh, shards: int, method: str | None,
              path: str | os.PathLike[str] | None, given: dict[str, Any]) -> Config:
    """weft's configuration: a file's, a method's, then the keys that are not None."""
    config = Config(ctx)
    if path is not None:
        config.load(path)
    config.set("mesh.shards", shards)
    config.set("schedule.warmup", 0)
    if path is None and "TORCHELASTIC_RUN_ID" in os.environ and not apart():
        config.set("mesh.on_loss", "end")  # torchrun ends, or restarts, all when one has ended
    if method is not None:
        config.set("method", method)
    for name, value in given.items():
        if value is not None:
            config.set(usable(key_name(name)), value)
    config.fit(mesh)
    config.finish()
    return config


def places(given: dict[str, Any], mesh: Mesh, shards: int, between: str,
          method: str | None) -> None:
    """Who is a node, where the caller has not said so by keys."""
    if between not in ("nodes", "ranks"):
        raise Error("argument", f"between is '{between}', expected 'nodes' or 'ranks'")
    if mesh.joins:
        given.setdefault("mesh.nodes", 1)  # how many there are it is told by the others
    elif shards > 1:
        given.setdefault("mesh.nodes", mesh.size // shards)
        given.setdefault("mesh.ranks_per_node", shards)
    elif between == "ranks" or method == "ddp":
        given.setdefault("mesh.nodes", mesh.size)


def table_of(shapes: Iterable[torch.Size],
             names: Iterable[str]) -> list[tuple[str, int, int, bool]]:
    """Tensors as Sync takes them: a vector is a column."""
    rows = []
    for i, (shape, name) in enumerate(zip(shapes, names)):
        n = shape[0] if len(shape) > 1 else shape.numel()
        if len(name.encode()) > 90:
            name = f"{i}:{name.encode()[-80:].decode('utf-8', 'ignore')}"
        rows.append((name, n, shape.numel() // n if n else 1, True))
    return rows
