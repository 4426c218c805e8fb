# SPDX-License-Identifier: MIT
"""What machines and links can do, measured on the hosts that will train, into the cluster.yaml
that ``weft plan`` and ``weft_sync.plan`` read.

    python -m weft_sync.probe -o cluster.yaml                        this machine alone
    torchrun ... -m weft_sync.probe -o cluster.yaml                  all of its processes
    python -m weft_sync.probe -o cluster.yaml --nodes 2 --link 100Mbit,1ms    an emulated wire

Links, all-reduces over sizes, codecs and the processor's optimizers are measured by libweft's
probe over weft's own connections; computing with torch, where it is installed, on the device
that will train: a transformer's step at two batch sizes, whose difference is the rate and
whose rest is what a layer costs whatever the batch. Of several processes that compute on
processors, the processor's time of a byte in torch's all-reduce over gloo is measured as well,
which DDP and FSDP take from computing."""

from __future__ import annotations

import argparse
import contextlib
import ctypes as c
import os
import sys
import time
from typing import Any, Iterator, NamedTuple, Sequence

from ._abi import ProbeOptions, ProbeResult
from ._library import Config, Context, Error, Mesh, text_of

#: a model so small that the measuring of its steps takes no time that links need
MODEL = {"model.kind": "gpt2", "model.layers": 2, "model.width": 128, "model.heads": 4,
         "model.vocab": 256, "data.length": 64}


class Figure(NamedTuple):
    """Something that was measured."""

    name: str      #: "wire bandwidth", "block forward"
    value: float   #: in that unit
    unit: str      #: "s", "B/s", "FLOP/s", "s/parameter"; "" for a share
    first: float   #: the same of the first half of the samples,
    second: float  #: and of the second


class Device(NamedTuple):
    """What one process's device does while all measure."""

    name: str            #: as torch names it
    flops: float         #: FLOP/s in a transformer's training
    launch_s: float      #: of a layer's forward pass, whatever the batch
    memory_bytes: float  #: of the device; 0: the host's counts
    copy_Bps: float      #: bytes read and written by a copy
    spread: float        #: of a step: standard deviation of the logarithm
    seconds: dict[int, float]  #: examples of a batch -> of forward and backward, median
    sending_s: float = 0.0  #: of the processor, for a byte sent in an all-reduce of gloo


class Shape(NamedTuple):
    """The transformer that is timed."""

    layers: int               #: blocks
    width: int                #: of the residual stream; heads of 64
    length: int               #: tokens of a row
    batches: tuple[int, int]  #: rows of the two batches that are timed

    def flops(self, rows: int) -> float:
        """Of forward and backward: 6 for each weight and token, 12 width length layers for
        attention."""
        weights = 12 * self.width ** 2 * self.layers
        return rows * self.length * (6.0 * weights + 12.0 * self.width * self.length * self.layers)


__all__ = ["Device", "Figure", "Probe", "Shape", "measure_collective", "measure_device", "probe"]
HOST = Shape(2, 256, 128, (2, 8))
ACCELERATOR = Shape(8, 2048, 1024, (4, 16))


def measure_device(device: str, shape: Shape | None = None, rounds: int = 7) -> Device:
    """With torch, in this process."""
    import torch
    from ._measure import measure_step
    where = torch.device(device)
    shape = shape or (HOST if where.type == "cpu" else ACCELERATOR)
    layer = torch.nn.TransformerEncoderLayer(shape.width, max(shape.width // 64, 1),
                                             4 * shape.width, dropout=0.0, batch_first=True,
                                             norm_first=True)
    model = torch.nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)
    model.to(where, dtype=torch.float32 if where.type == "cpu" else torch.bfloat16)
    dtype = next(model.parameters()).dtype
    batches = [torch.randn(rows, shape.length, shape.width, dtype=dtype, device=where)
               for rows in shape.batches]
    took = measure_step(model, lambda m, x: m(x).float().square().mean(), batches,
                        rounds=rounds)
    # Where the larger batch costs no more (noise), all of its time is taken for work.
    rows = shape.batches[1]
    per_row = took.per_example_s if took.per_example_s > 0 else took.seconds[rows] / rows
    memory = 0.0 if where.type == "cpu" else float(
        getattr(torch, where.type).get_device_properties(where).total_memory)
    return Device(str(where), shape.flops(1) / per_row, took.fixed_s / (3 * shape.layers),
                  memory, _copy_rate(where), took.spread, took.seconds)


def _copy_rate(where: Any) -> float:
    """Bytes read and written in a second by a copy inside the device."""
    import torch
    from ._measure import _finish
    n = (16 if where.type == "cpu" else 256) << 20
    a, b, best = torch.zeros(n // 4, device=where), torch.empty(n // 4, device=where), 0.0
    for _ in range(5):
        _finish(where)
        begun = time.perf_counter()
        b.copy_(a)
        _finish(where)
        best = max(best, 2 * n / (time.perf_counter() - begun))
    return best


def _usual_device() -> str | None:
    try:
        from ._measure import usual_device
    except ImportError:
        return None
    return usual_device()


def _joined(ctx: Context) -> Mesh:
    """All processes that a launcher has started, by torch's store where there is torch."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return Mesh(ctx)
    try:
        from . import _world
    except ImportError:
        raise Error("config", "several processes are probed, which join through torch's store, "
                    "but torch is not installed; expected torch, or 'weft probe'") from None
    rank, size, store = _world.place()
    return Mesh(ctx, rank, size, os.environ.get("MASTER_ADDR", ""), store, "weft/probe")


@contextlib.contextmanager
def _gloo(mesh: Mesh) -> Iterator[Any]:
    """A gloo group of all processes for a while, beside what the caller has."""
    import torch
    from . import _world
    dist = torch.distributed
    if dist.is_initialized():
        group = dist.new_group(backend="gloo")
        yield group
        dist.destroy_process_group(group)
        return
    _, _, store = _world.place()
    dist.init_process_group("gloo", store=dist.PrefixStore("weft/probe", store.store),
                            rank=mesh.rank, world_size=mesh.size)
    yield None
    dist.destroy_process_group()


def _reduced(value: float, most: bool, group: Any) -> float:
    """The largest of all processes' values, or their mean."""
    import torch
    dist = torch.distributed
    x = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(x, op=dist.ReduceOp.MAX if most else dist.ReduceOp.SUM, group=group)
    return x.item() / (1 if most else dist.get_world_size(group))


def measure_collective(group: Any = None, seconds: float = 2.0) -> float:
    """Processor seconds of a byte that a process sends in torch's all-reduce: what DDP and FSDP
    take from computing beside them. Collective; the mean of the processes. ``group``: of torch,
    which has been initialized; ``seconds``: that it may take, about."""
    import torch
    dist = torch.distributed

    def rounds(x: Any, n: int) -> tuple[float, float]:
        dist.barrier(group=group)
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(n):
            dist.all_reduce(x, group=group)
        return time.process_time() - cpu, _reduced(time.perf_counter() - wall, True, group)

    size = 1 << 20
    rounds(torch.ones(size // 4), 1)  # connects
    _, took = rounds(torch.ones(size // 4), 1)
    if 16 * took < seconds / 8:  # as long as one of DDP's buckets, where the wire is fast enough
        size *= 16
        took *= 16
    n = max(2, min(20, int(seconds / max(took, 1e-3))))
    cpu, _ = rounds(torch.ones(size // 4), n)
    members = dist.get_world_size(group)
    return _reduced(cpu / (n * size * 2 * (members - 1) / members), False, group)


def _slowest(mesh: Mesh, device: Device) -> Device:
    """What the slowest process has: all wait for it. And what sending takes of processors that
    also compute."""
    if mesh.size == 1:
        return device
    import torch
    dist = torch.distributed
    with _gloo(mesh) as group:
        least = torch.tensor([device.flops, device.copy_Bps, device.memory_bytes,
                              -device.launch_s, -device.spread], dtype=torch.float64)
        dist.all_reduce(least, op=dist.ReduceOp.MIN, group=group)
        sending = measure_collective(group) if device.name == "cpu" else 0.0
    flops, copied, memory, launch, spread = least.tolist()
    return device._replace(flops=flops, copy_Bps=copied, memory_bytes=memory, launch_s=-launch,
                           spread=-spread, sending_s=sending)


class Probe:
    """Measured facts: `figures`, and `write` for cluster.yaml. Rank 0 has them; the others'
    figures are none. :class:`weft_sync.Error` of facts and files that can not be."""

    def __init__(self, ctx: Context, result: ProbeResult, device: Device | None):
        self._ctx, self._result, self.device = ctx, result, device
        self.figures = [Figure(f.name.decode(), f.value, f.unit.decode(), f.first, f.second)
                        for f in result.figures[:result.n_figures]]

    def set(self, name: str, value: str) -> None:
        """A fact of cluster.yaml by its name, in place of what was measured."""
        self._ctx.call("weft_cluster_set", self._ctx.pointer, self._result.cluster,
                       text_of(name), text_of(value))

    def adopt(self, device: Device) -> None:
        """Computing as the device does it, in place of the processor's."""
        self.set("rank-flops", f"{device.flops / 1e9:.9g}G")
        self.set("launch", f"{device.launch_s * 1e6:.9g}us")
        self.set("memory-bandwidth", f"{device.copy_Bps / 1e9:.9g}GBps")
        self.set("jitter", f"{min(100 * device.spread, 200):.9g}%")
        self.set("collective-cpu", f"{min(device.sending_s * 1e6, 999.0):.9g}us")
        if device.memory_bytes > 0:
            self.set("rank-memory", f"{device.memory_bytes / 1e9:.9g}GB")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes cluster.yaml."""
        self._ctx.call("weft_cluster_write", self._ctx.pointer, self._result.cluster,
                       text_of(os.fspath(path)))

    def close(self) -> None:
        """Gives the memory back."""
        self._ctx.lib.weft_probe_clear(self._ctx.pointer, c.byref(self._result))


def probe(*, seconds: float = 20.0, device: str | None = None, mesh: Mesh | None = None,
          keys: dict[str, Any] | None = None, shape: Shape | None = None, alike: str = "") -> Probe:
    """Measures. ``seconds``: what links and codecs may take, about. ``device``: of torch, "cuda"
    say; "none" leaves it at what libweft measures of the processor; None: what there is.
    ``keys``: of weft's configuration (``{"mesh.nodes": 2, "mesh.link": "100Mbit,1ms"}``: an
    emulated wire). ``alike``: lines "name: value" that all processes must have. :class:`weft_sync.Error` of these, and of
    other processes. Collective."""
    ctx = Context()
    mesh = mesh if mesh is not None else _joined(ctx)
    device = device or _usual_device() or "none"
    measured = None
    options, result = ProbeOptions(seconds=seconds, alike=text_of(alike) if alike else None), ProbeResult()
    with Config(ctx, {"method": "hsdp", "mesh.shards": 1, **MODEL, **(keys or {})}) as config:
        config.fit(mesh)
        config.finish()
        if device != "none":
            _check_device(device)
            measured = _slowest(mesh, measure_device(device, shape))
        ctx.wait(mesh, "weft_probe", ctx.pointer, mesh.pointer, config.pointer,
                 c.byref(options), c.byref(result))
    found = Probe(ctx, result, measured)
    if measured is not None and mesh.rank == 0:
        found.adopt(measured)
    return found


# --- the command ---


def _table(found: Probe) -> str:
    scales = {"s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
              "B/s": ((125e6, "Gbit/s"), (125e3, "Mbit/s"), (125.0, "kbit/s")),
              "s/B": ((1e-9, "ns/B"),), "s/parameter": ((1e-9, "ns/parameter"),),
              "FLOP/s": ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"))}
    lines = []
    for f in found.figures:
        factor, unit = next(((s, u) for s, u in scales.get(f.unit, ()) if f.value >= s),
                            (1.0, f.unit))
        lines.append(f"{f.name:<44} {f.value / factor:>10.4g} {unit}")
    d = found.device
    if d is not None:
        for rows, seconds in d.seconds.items():
            lines.append(f"{f'{d.name}: a transformer, {rows} rows':<44} "
                         f"{seconds * 1e3:>10.4g} ms")
        lines.append(f"{d.name + ': training':<44} {d.flops / 1e12:>10.4g} TFLOP/s")
        lines.append(f"{d.name + ': copying':<44} {d.copy_Bps / 1e9:>10.4g} GB/s")
        if d.sending_s > 0:
            lines.append(f"{'gloo: processor, of a byte sent':<44} "
                         f"{d.sending_s * 1e9:>10.4g} ns")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m weft_sync.probe",
        description="Measures computing and links, and writes cluster.yaml for weft plan.")
    parser.add_argument("-o", "--output", metavar="FILE", default="cluster.yaml")
    parser.add_argument("--seconds", type=float, default=20.0,
                        help="that links and codecs may take, about (default 20)")
    parser.add_argument("--device", help="of torch: cpu, cuda, cuda:1; none: the processor "
                        "alone, by libweft")
    parser.add_argument("--nodes", type=int, help="nodes of an emulated wire, with --link")
    parser.add_argument("--link", help="an emulated wire, such as 100Mbit,1ms")
    return parser


def _check_device(device: str) -> None:
    try:
        import torch
        torch.empty(1, device=device)
    except ImportError:
        raise Error("config", f"device {device} is measured by torch, which is not installed; expected none") from None
    except Exception as error:  # each kind of device has its own
        raise Error("config", f"torch has no device {device} here, expected {_usual_device()} or none: "
                    f"{str(error).splitlines()[0]}") from None


def _check_folder(path: str) -> None:
    folder, name = os.path.split(path)
    if folder and not os.path.isdir(folder):
        raise Error("file", f"there is no folder {folder} for {name}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The program ``python -m weft_sync.probe``; returns its exit code."""
    asked = _parser().parse_args(arguments)
    keys: dict[str, Any] = {}
    if asked.nodes is not None:
        keys.update({"mesh.nodes": asked.nodes, "mesh.ranks_per_node": 1})
    if asked.link is not None:
        keys["mesh.link"] = asked.link
    ctx = Context()
    try:
        _check_folder(asked.output)  # before a minute is spent on it
        mesh = _joined(ctx)
        if asked.link is not None and asked.nodes is None and mesh.size == 1:
            raise Error("config", f"--link {asked.link} of one process alone, which has no wire; expected --nodes, too")
        device = asked.device
        if device in ("cuda", "xpu"):  # one process for each
            device = f"{device}:{os.environ.get('LOCAL_RANK', '0')}"
        found = probe(seconds=asked.seconds, device=device, mesh=mesh, keys=keys)
        if mesh.rank == 0:
            found.write(asked.output)
            print(_table(found))
            print(f"written to {asked.output}")
        found.close()
        mesh.close()
    except Error as error:
        print(f"probe: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
