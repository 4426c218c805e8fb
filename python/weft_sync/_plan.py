# SPDX-License-Identifier: MIT
"""Which method makes a loop of yours faster on several machines: libweft's simulator, asked
about this model's tensors."""

from __future__ import annotations

import ctypes as c
import math
import os
from typing import Any, Iterator, List, NamedTuple, Sequence

from ._library import (PTR, Accelerator, Config, Context, Error, Loop, Prediction, Tensor,
                       library, text_of)


#: (method, keys, whether it learns as one machine with a larger batch does)
CANDIDATES: list[tuple[str, dict[str, Any], bool]] = [
    ("hsdp", {}, True),
    ("hsdp", {"replicator.values": "int8"}, False),
    ("flexdemo", {}, False),
    ("flexdemo", {"replicator.values": "int8"}, False),
    ("random", {}, False),
    ("dadam", {}, False),
    ("diloco", {"mixer.outer_every": 100}, False),
    ("streaming-diloco", {}, False),
]


class Choice(NamedTuple):
    method: str
    keys: dict[str, Any]
    nodes: int
    processes: int
    step_s: float      #: of a step, mean
    speedup: float     #: examples per second, over one process alone
    wire_bytes: int    #: payload per step and node, out
    hidden: float      #: share of the exchange that is behind computing
    bound: str         #: what a step's length comes from: compute, wire, waiting, codec
    same: bool         #: learns as one machine with a larger batch does


class Plan(List[Choice]):
    """Choices, the fastest first. Printed, it is a table."""

    #: FLOP per second of a process while it computes, relative to the accelerator's data sheet
    effort: float | None = None

    def __str__(self) -> str:
        lines = [f"{'method':<34}{'nodes':>6}{'s/step':>9}{'x':>7}{'kB/step':>12}{'hidden':>8}"
                 "  bound"]
        for a in self:
            name = " ".join([a.method, *(f"{k}={v}" for k, v in a.keys.items())])
            lines.append(f"{name[:33]:<34}{a.nodes:>6}{a.step_s:>9.3g}{a.speedup:>7.2f}"
                         f"{a.wire_bytes / 1e3:>12.1f}{100 * a.hidden:>7.0f}%  {a.bound}"
                         f"{'' if a.same else ', learns otherwise'}")
        if self.effort is not None:
            lines.append(f"computing: {100 * self.effort:.3g} % of the data sheet's rate")
        return "\n".join(lines)


def sizes(model: Any) -> list[tuple[str, int, int, bool]]:
    """(name, rows, columns, decays) of a torch module's parameters, or the list itself."""
    if not hasattr(model, "named_parameters"):
        return list(model)
    found = []
    for name, p in model.named_parameters():
        n, shape = p.numel(), tuple(p.shape)
        if p.requires_grad and n > 0:
            rows = shape[0] if len(shape) > 1 else n
            found.append((name[-90:], rows, n // rows, True))
    return found


def plan(model: Any, *, step_seconds: Any = None, cluster: str | os.PathLike[str] | dict[str, Any],
         nodes: int | None = None, processes_per_node: int = 1,
         candidates: Sequence[tuple[str, dict[str, Any], bool]] | None = None,
         examples: int | None = None, accelerator: str | None = None,
         effort: float | None = None, tokens: float | None = None) -> Plan:
    """Step times of ``model`` (a torch module, or (name, rows, columns, decays) of its tensors)
    with weft's methods, the fastest first. Nothing is run.

    ``step_seconds``: forward and backward of one process, measured where it will run; or what
    ``weft_sync.torch.measure_step`` returned, of a batch of ``examples`` (the largest measured).
    ``cluster``: the path of a cluster.yaml that ``python -m weft_sync.probe`` wrote, or facts by hand as
    ``weft plan`` takes them: ``{"nodes": 2, "link": "1Gbit,0.2ms"}``. Every process keeps its
    batch, so n of them see n times the examples in a step: ``speedup`` counts that. What a
    method does to the learning is not in it (``same``, and docs/results.md).

    Without ``step_seconds``: an ``accelerator`` ("H100"; ``weft plan --accelerator`` lists them),
    ``tokens`` of a process in a step and ``effort``, the share of the data sheet's rate that
    training reaches (0 to 1; without it, what was reported of this accelerator). A step is 6 FLOP
    for each trained parameter and token. With ``step_seconds`` the same says which effort
    follows: ``Plan.effort``.

    :class:`Error` for facts that are missing, out of range or contradict each other."""
    lib = library()
    ctx = Context()
    listed = sizes(model)
    flop = 6.0 * sum(r * k for _, r, k, _ in listed) * (tokens or 0)
    peak, share = _sheet(accelerator, effort, tokens, step_seconds is not None)
    if step_seconds is None:
        step_seconds = flop / (share * peak)
    tensors = (Tensor * len(listed))(*[Tensor(text_of(n), r, k, d) for n, r, k, d in listed])
    loop = Loop(tensors, len(listed), _seconds(step_seconds, examples))
    pointer = _cluster(ctx, cluster)
    try:
        n = nodes or lib.weft_cluster_nodes(pointer)
        asked = candidates if candidates is not None else CANDIDATES
        choices = [_ask(ctx, pointer, loop, method, keys, n, processes_per_node, same)
                   for method, keys, same in asked]
        if n * processes_per_node > 1:
            choices.append(_ask(ctx, pointer, loop, "hsdp", {}, 1, 1, True))
    finally:
        lib.weft_cluster_destroy(ctx.pointer, pointer)
    alone = choices[-1].step_s
    choices = [a._replace(speedup=a.processes * alone / a.step_s) for a in choices]
    made = Plan(sorted(choices, key=lambda a: -a.speedup))
    if accelerator is not None:
        made.effort = flop / (loop.step_s * peak)
    return made


def _sheet(name: str | None, effort: float | None, tokens: float | None,
           measured: bool) -> tuple[float, float]:
    """(FLOP per second of the accelerator's data sheet, share of it that training reaches)."""
    if effort is not None and measured:
        raise Error("argument", "effort and step_seconds both say how long a step computes; "
                    "expected one of them")
    if name is None:
        if effort is not None or tokens is not None:
            raise Error("argument", "effort and tokens are facts about an accelerator; expected "
                        "accelerator=\"H100\" or another one beside them")
        if not measured:
            raise Error("argument", "how long a step computes is not known; expected step_seconds, "
                        "or an accelerator and the tokens of a step")
        return 1.0, 1.0
    if tokens is None or not 0 < tokens < 1e15:
        raise Error("argument", f"tokens of a step is {tokens}; expected how many a process has")
    if effort is not None and not 0 < effort <= 1:
        raise Error("argument", f"effort is {effort}; expected a share of the data sheet's rate, "
                    "above 0 and at most 1, such as 0.38")
    for row in _accelerators():
        if row.name.decode() == name:
            return row.peak_flops, effort or math.sqrt(row.low * row.high)
    raise Error("argument", f"accelerator is {name!r}; expected one of "
                f"{', '.join(row.name.decode() for row in _accelerators())}")


def _accelerators() -> Iterator[Accelerator]:
    i = 0
    while found := library().weft_accelerator_at(i):
        yield found.contents
        i += 1


def _seconds(step: Any, examples: int | None) -> float:
    if hasattr(step, "at"):
        return float(step.at(examples or max(step.seconds)))
    if examples is not None:
        raise Error("argument", f"a plan for {examples} examples from {step} s alone; expected "
                    "what measure_step returned, or no examples")
    return float(step)


def _cluster(ctx: Context, cluster: str | os.PathLike[str] | dict[str, Any]) -> c.c_void_p:
    """A weft_cluster from a file's path, or from facts; two nodes if they say nothing."""
    pointer = PTR()
    if not isinstance(cluster, dict):
        ctx.call("weft_cluster_load", ctx.pointer, text_of(os.fspath(cluster)),
                 c.byref(pointer))
        return pointer
    ctx.call("weft_cluster_create", ctx.pointer, c.byref(pointer))
    try:
        for key, value in {"nodes": 2, **cluster}.items():
            ctx.call("weft_cluster_set", ctx.pointer, pointer, text_of(key), text_of(str(value)))
    except Error:
        ctx.lib.weft_cluster_destroy(ctx.pointer, pointer)
        raise
    return pointer


def _ask(ctx: Context, cluster: c.c_void_p, loop: Loop, method: str, keys: dict[str, Any],
         nodes: int, processes: int, same: bool) -> Choice:
    config = Config(ctx)
    try:
        for key, value in {"method": method, "mesh.nodes": nodes,
                           "mesh.ranks_per_node": processes, "mesh.shards": 1, **keys}.items():
            config.set(key, value)
        config.finish()
        p = Prediction()
        ctx.call("weft_predict_loop", ctx.pointer, config.pointer, cluster, c.byref(loop),
                 c.byref(p))
    finally:
        config.destroy()
    bound = ("compute", "wire", "waiting", "codec")[p.bound]
    choice = Choice(method, dict(keys), nodes, nodes * processes, p.mean_step_s, 0.0,
                    p.wire_bytes_step, p.hidden_share, bound, same)
    ctx.lib.weft_prediction_clear(ctx.pointer, c.byref(p))
    return choice
