# SPDX-License-Identifier: MIT
"""Which method makes a loop of yours faster on several machines: libweft's simulator, asked
about this model's tensors."""

from __future__ import annotations

import ctypes as c
import math
import os
from typing import Any, Iterator, List, NamedTuple, Sequence

from ._abi import F64, PTR, Accelerator, Loop, Prediction, Tensor
from ._library import Config, Context, Error, library, text_of


class Way(NamedTuple):
    """What is compared: a method, and what is known of its steps to a loss."""

    name: str
    method: str
    keys: dict[str, Any]
    same: bool          #: learns as one machine with a larger batch does
    steps: float = 1.0  #: to a loss, relative to one node with AdamW
    error: float = 0.0  #: of that, plus or minus
    known: bool = True  #: whether it was measured, within two decades of this size
    muon: bool = False
    ends: tuple[float, float] | None = None  #: ``steps`` in runs of 200 and of 20,000, where it is not said


class Choice(NamedTuple):
    """A method on so many machines, and what it is expected to bring (docs/planning.md)."""

    method: str        #: its name, as `Optimizer` takes it
    keys: dict[str, Any]  #: and keys of weft beside it
    nodes: int         #: machines
    processes: int     #: of all of them together
    step_s: float      #: of a step, mean
    speedup: float     #: examples per second, over one process alone
    wire_bytes: int    #: payload per step and node, out
    hidden: float      #: share of the exchange that is behind computing
    bound: str         #: what a step's length comes from: compute, wire, waiting, codec
    same: bool         #: learns as one machine with a larger batch does
    way: Way           #: what was compared, with its steps to a loss
    faster: float = 1.0  #: time to the same loss, over one process alone; speedup / way.steps
    error: float = 0.0   #: of `faster`, plus or minus


BOUNDS = {"compute": "computing", "wire": "the wire", "waiting": "waiting for late ranks",
          "codec": "coding and optimizing"}
#: a difference that always counts as level; how far the time of an exchange may be off
NEARLY, EXCHANGE_ERROR, ROWS = 0.05, 0.2, 12
LENGTHS = (200, 20000)  #: of the runs in which steps to a loss were measured


class Plan(List[Choice]):
    """Choices, the fastest to the same loss first, then those whose learning was not measured.
    Printed, it is a table that ends in an answer."""

    #: FLOP per second of a process while it computes, relative to the accelerator's data sheet
    effort: float | None = None
    #: of the run, as ``steps`` said
    steps: float | None = None

    def __str__(self) -> str:
        return f"{self.table}\n\n{self.answer}"

    @property
    def table(self) -> str:
        """The candidates as text, a line each, and what was not measured."""
        lines = [f"{'method':<26}{'nodes':>6}{'s/step':>9}{'steps':>8}{'faster':>8}{'+-':>6}"
                 f"{'kB/step':>11}{'hidden':>8}  bound"]
        shown = [a for i, a in enumerate(self) if i < ROWS or a.nodes == 1 or a.way.same]
        for a in shown:
            steps = "same" if a.way.same else f"x{a.way.steps:.2f}" if a.way.known else "?"
            hidden = f"{100 * a.hidden:.0f}%" if a.nodes > 1 else "-"
            lines.append(f"{a.way.name[:25]:<26}{a.nodes:>6}{a.step_s:>9.3g}{steps:>8}"
                         f"{a.faster:>7.2f}{'x' if a.way.known else '?'}{100 * a.error:>5.0f}%"
                         f"{a.wire_bytes / 1e3:>11.1f}{hidden:>8}  {a.bound}")
        if len(shown) < len(self):
            lines.append(f"{len(self) - len(shown)} more, see list(plan)")
        if self.effort is not None:
            lines.append(f"computing: {100 * self.effort:.3g} % of the data sheet's rate")
        return "\n".join(lines)

    @property
    def choice(self) -> Choice:
        """Of all that are level with the fastest, by what is known: one that learns as one machine
        does, then the fewest nodes, then the fastest (docs/planning.md)."""
        best = self.best
        level = [a for a in self if a.way.known and math.log(best.faster / a.faster)
                 <= max(NEARLY, math.hypot(a.error, best.error))]
        return min(level, key=lambda a: (not a.same, a.nodes, -a.faster))

    @property
    def best(self) -> Choice:
        """The fastest to the same loss among those whose learning was measured."""
        return max((a for a in self if a.way.known), key=lambda a: a.faster)

    @property
    def answer(self) -> str:
        """What to do, in words, and the line of Python that does it."""
        chosen, best = self.choice, self.best
        several = [a for a in self if a.way.known and a.nodes > 1]
        if not several:
            return "There is one node: say nodes= and a link to compare it with more."
        if chosen.nodes == 1 and best.nodes == 1:
            first = max(several, key=lambda a: a.faster)
            return (f"Stay on one node: the fastest with more, {first.way.name} on {first.nodes}, is "
                    f"{best.faster / first.faster:.3g} times slower than {best.way.name}.")
        if chosen.nodes == 1:
            return (f"Measure first: {best.way.name} on {best.nodes} nodes is expected "
                    f"{best.faster:.3g} times faster to the same loss than one node alone, give or take "
                    f"{100 * best.error:.0f} %, so one node may be as fast.\n{_line(best, self.steps)}")
        words = (f"Take {chosen.way.name} on {chosen.nodes} nodes: {chosen.faster:.3g} times faster to the "
                 f"same loss than one node alone, give or take {100 * chosen.error:.0f} %; what bounds "
                 f"a step is {BOUNDS[chosen.bound]}.")
        alone = [a for a in self if a.nodes == 1 and a.way.muon]
        if chosen.way.muon and alone:
            words += f" One node by itself is {alone[0].faster:.3g} times faster with Muon."
        if not chosen.same:
            length = f"for a run of {self.steps:.0f}" if self.steps else "and leads shrink in longer runs"
            if chosen.way.ends:
                short, long = (chosen.faster * chosen.way.steps / steps for steps in chosen.way.ends)
                length += f" ({short:.3g} times in one of 200 steps, {long:.3g} in 20,000; steps= says yours)"
            words += (f" Its steps are from small models, {length}: compare the losses of a short "
                      "run.")
        return f"{words}\n{_line(chosen, self.steps)}"


def _line(a: Choice, steps: float | None) -> str:
    keys = "".join(f", {key.replace('.', '_')}={_typed(value)}" for key, value in a.keys.items())
    length = f", run_steps={steps:.0f}" if steps else ""  # the interval of outer steps follows from it
    return f'    weft.Optimizer(model, method="{a.method}"{keys}{length})'


def _typed(value: Any) -> str:
    try:
        return repr(value if not isinstance(value, str) else float(value) if not value.isdigit()
                    else int(value))
    except ValueError:
        return f'"{value}"'


def ways(parameters: int, nodes: int, steps: float = 0) -> list[Way]:
    """Those of ``weft plan`` for so many nodes and steps (0: not known), with the keys that a loop takes."""
    found, i = [], 0
    while row := library().weft_recipe_at(i):
        i += 1
        if row.contents.least_nodes <= nodes:
            found.append(_way(row, parameters, nodes, steps))
    return found


def _way(row: Any, parameters: int, nodes: int, length: float) -> Way:
    error, recipe = F64(), row.contents
    short, long, steps = (library().weft_recipe_steps(row, parameters, nodes, n, c.byref(error))
                          for n in (*LENGTHS, length))
    keys = dict(word.split("=", 1) for word in recipe.settings.decode().split())
    return Way(recipe.name.decode(), keys.pop("method"), keys, not recipe.learning.changes, steps,
               error.value, recipe.learning.measured and library().weft_recipe_reaches(row, parameters),
               recipe.muon, None if length else (short, long))


def _alone(parameters: int, steps: float, muon: bool) -> list[Way]:
    """One node with full exchange, which is none; and with Muon."""
    found = [Way("one node", "hsdp", {}, True)]
    for way in ways(parameters, 2, steps):
        if muon and way.name == "full sync, muon":
            found.append(way._replace(name="one node, muon"))
    return found


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
         effort: float | None = None, tokens: float | None = None,
         steps: float | None = None) -> Plan:
    """Step times of ``model`` (a torch module, or (name, rows, columns, decays) of its tensors)
    with the methods that ``weft plan`` tries, the fastest to the same loss first; printed, it ends in
    an answer. Nothing is run.

    ``step_seconds``: forward and backward of one process, measured where it will run; or what
    ``weft_sync.torch.measure_step`` returned, of a batch of ``examples`` (the largest measured).
    ``cluster``: the path of a cluster.yaml that ``python -m weft_sync.probe`` wrote, or facts by hand as
    ``weft plan`` takes them: ``{"nodes": 2, "link": "1Gbit,0.2ms"}``. Every process keeps its
    batch, so n of them see n times the examples in a step: ``speedup`` counts that, and ``faster``
    divides it by the steps that a method needs (docs/planning.md) in a run of ``steps`` steps: leads and
    lags shrink in longer runs. Without it the middle between 200 and 20,000 is taken, and the answer
    has both. ``candidates``: (method, keys,
    whether it learns as one machine does) in place of those of ``weft plan``.

    Without ``step_seconds``: an ``accelerator`` ("H100"; ``weft plan --accelerator`` lists them),
    ``tokens`` of a process in a step and ``effort``, the share of the data sheet's rate that
    training reaches (0 to 1; without it, what was reported of this accelerator). A step is 6 FLOP
    for each trained parameter and token. With ``step_seconds`` the same says which effort
    follows: ``Plan.effort``.

    :class:`Error` for facts that are missing (the link between the nodes, above all), out of range or contradict each other."""
    if steps is not None and not 1 <= steps < 1e15:
        raise Error("argument", f"steps is {steps}, expected the steps of the run, at least 1")
    lib = library()
    ctx = Context()
    listed = sizes(model)
    flop = 6.0 * sum(r * k for _, r, k, _ in listed) * (tokens or 0)
    peak, share = _sheet(accelerator, effort, tokens, step_seconds is not None)
    if step_seconds is None:
        step_seconds = flop / (share * peak)
    tensors = (Tensor * len(listed))(*[Tensor(text_of(n), r, k, d) for n, r, k, d in listed])
    loop = Loop(tensors, len(listed), _seconds(step_seconds, examples))
    if flop and isinstance(cluster, dict):  # what Muon computes besides takes time, too
        cluster = {"rank-flops": f"{flop / loop.step_s:.6g}", **cluster}
    pointer = _cluster(ctx, cluster)
    try:
        n = nodes or lib.weft_cluster_nodes(pointer)
        parameters = sum(r * k for _, r, k, _ in listed)
        alone = _alone(parameters, steps or 0, candidates is None)
        asked = _asked(candidates) if candidates is not None else ways(parameters, max(n, 2), steps or 0)
        if n == 1 and candidates is None:
            asked = [way for way in asked if way.same]
        length = {"run.steps": int(steps)} if steps else {}
        choices = [_ask(ctx, pointer, loop, way, 1, 1, length) for way in alone]
        if n * processes_per_node > 1:
            choices += [_ask(ctx, pointer, loop, way, n, processes_per_node, length) for way in asked]
            if candidates is None:
                choices += _narrow(ctx, pointer, loop, choices[len(alone):], length)
    finally:
        lib.weft_cluster_destroy(ctx.pointer, pointer)
    made = Plan(sorted((_compared(a, choices[0].step_s) for a in choices),
                       key=lambda a: (not a.way.known, -a.faster)))
    made.steps = steps
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
    """A weft_cluster from a file's path, or from facts; with a link two nodes if they say nothing."""
    pointer = PTR()
    if not isinstance(cluster, dict):
        ctx.call("weft_cluster_load", ctx.pointer, text_of(os.fspath(cluster)),
                 c.byref(pointer))
        return pointer
    ctx.call("weft_cluster_create", ctx.pointer, c.byref(pointer))
    try:
        for key, value in {**({"nodes": 2} if "link" in cluster else {}), **cluster}.items():
            ctx.call("weft_cluster_set", ctx.pointer, pointer, text_of(key), text_of(str(value)))
    except Error:
        ctx.lib.weft_cluster_destroy(ctx.pointer, pointer)
        raise
    return pointer


def _asked(candidates: Sequence[tuple[str, dict[str, Any], bool]]) -> list[Way]:
    """What a caller names; how it learns is known if it learns as one machine does."""
    return [Way(" ".join([method, *(f"{k}={v}" for k, v in keys.items())]), method, dict(keys), same,
                known=same) for method, keys, same in candidates]


def _narrow(ctx: Context, cluster: c.c_void_p, loop: Loop, plain: list[Choice],
            length: dict[str, int]) -> list[Choice]:
    """The best of each method where nodes behind narrow ways out send fewer bits, if that pays."""
    found: list[Choice] = []
    text = c.create_string_buffer(100)
    for values in ("int4", "sign"):
        steps = library().weft_plan_node_values(cluster, plain[0].nodes, text_of(values), text, len(text))
        key = text.value.decode()
        word = f"{key.count('=')}x={values}" if "," in key else key
        for a in plain if steps else ():
            way = a.way._replace(name=f"{word} {a.way.name}", keys={**a.keys, "replicator.node_values": key},
                                 same=False, steps=steps * a.way.steps,
                                 ends=a.way.ends and (steps * a.way.ends[0], steps * a.way.ends[1]))
            try:
                found.append(_ask(ctx, cluster, loop, way, a.nodes, a.processes // a.nodes, length))
            except Error:  # a method that has no codecs of nodes
                continue

    def seconds(a: Choice) -> float:
        return a.step_s * a.way.steps

    best = {a.method: a for a in sorted(found, key=seconds, reverse=True)}
    return [a for a in best.values() if 1.02 * seconds(a) < min(seconds(b) for b in plain if b.method == a.method)]


def _compared(a: Choice, alone_s: float) -> Choice:
    """Beside one process alone: by examples, and by the time to the same loss."""
    speedup = a.processes * alone_s / a.step_s
    exchange = max(0.0, 1 - alone_s / a.step_s) * EXCHANGE_ERROR
    return a._replace(speedup=speedup, faster=speedup / a.way.steps,
                      error=math.hypot(a.way.error, exchange))


def _ask(ctx: Context, cluster: c.c_void_p, loop: Loop, way: Way, nodes: int, processes: int,
         length: dict[str, int]) -> Choice:
    with Config(ctx, {"method": way.method, "mesh.nodes": nodes, "mesh.ranks_per_node": processes, "mesh.shards": 1,
                      **length, **way.keys}) as config:
        config.finish()
        p = Prediction()
        ctx.call("weft_predict_loop", ctx.pointer, config.pointer, cluster, c.byref(loop),
                 c.byref(p))
    bound = list(BOUNDS)[p.bound]
    choice = Choice(way.method, dict(way.keys), nodes, nodes * processes, p.mean_step_s, 0.0,
                    p.wire_bytes_step, p.hidden_share, bound, way.same, way)
    ctx.lib.weft_prediction_clear(ctx.pointer, c.byref(p))
    return choice
