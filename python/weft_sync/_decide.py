# SPDX-License-Identifier: MIT
"""method="auto": what the processes measure before the first step, and which method follows.

    all       a step of the loop (the caller's measurement), the wires by libweft's probe
    rank 0    plans on the slowest step and these wires -> method and keys, by the store -> all
    joins     asks a member

As in ``weft train method=auto`` (docs/planning.md) the optimizer and its rate stay, unless decide.keep says else, and several
nodes are taken as soon as they are expected to be faster than one."""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
import tempfile
from typing import Any, NamedTuple, Sequence

from . import _record, _world, probe
from ._library import Config, Context, Error, Mesh
from ._plan import NEARLY, Choice, Plan, Way, plan, ways

log = logging.getLogger("weft_sync")
DAY_S = 86400.0
KEPT = ("optimizer.kind", "optimizer.lr", "optimizer.clip", "optimizer.beta2")
NOBODYS = 999_999_937  # steps that no file says
_turns = itertools.count()


class Decision(NamedTuple):
    """What is taken; `sentence` says why."""

    method: str
    keys: dict[str, Any]
    sentence: str
    cluster: str = ""  #: the cluster.yaml on which it was decided
    waits: bool = False  #: for steps, which measure

    @property
    def may_change(self) -> bool:
        """During the run."""
        return bool(self.cluster) or self.waits

    def told(self) -> str:
        """To who joins."""
        return json.dumps({"method": self.method, "keys": self.keys, "sentence": self.sentence})


class Limits(NamedTuple):
    """Keys of decide.*, and the length of the run (0: nobody says it)."""

    steps: float = 0.0
    loss: float = 10.0
    keep: str = "optimizer"
    alone: str = "end"
    time: float = 10.0
    bytes_per_day: int = 0
    busy: str = ""

    def day_of(self, a: Choice) -> float:
        """Bytes that a node sends in a day, or in a shorter run."""
        return a.wire_bytes * min(DAY_S / a.step_s, self.steps or math.inf)

    def why(self, a: Choice) -> str:
        """Not; "": it is allowed."""
        if a.way.steps > 1 + self.loss:
            return f"it needs {100 * (a.way.steps - 1):.3g} % more steps"
        if 0 < self.bytes_per_day < self.day_of(a):
            return f"it would send {self.day_of(a) / 1e6:.4g} MB in {'this run' if 0 < self.steps * a.step_s < DAY_S else 'a day'}"
        return "it could not change in busy hours" if self.busy and not moves(a) else ""

    def allow(self, a: Choice) -> bool:
        return not self.why(a)


class Form(NamedTuple):
    """What crosses the wire from a step on."""

    step: int    #: the first one, from 1
    method: str  #: "full sync int8"
    why: str     #: on the first process with the numbers


def follow(sync: Any, decision: Decision, limits: Limits) -> None:
    """Before the first step: lets what crosses the wire change as it pays. Nothing is silent."""
    if not decision.may_change:
        return
    if limits.keep != "optimizer":
        log.info("method=auto keeps this choice: decide.keep is %s", limits.keep)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cluster.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(decision.cluster)
        if why := sync.replan(path if decision.cluster else None, limits.loss, int(limits.steps), float(limits.bytes_per_day), limits.busy,
                              limits.time):
            if limits.busy:
                raise Error("config", f"decide.busy is {limits.busy!r}, but nothing changes during the run: {why}")
            log.info("method=auto keeps this choice: %s", why)


def keys_of(form: str) -> dict[str, Any]:
    """What a form of the exchange, as `Sync.form` names it, says of its configuration."""
    if not form:
        return {}
    outer = form.startswith("diloco")
    return {"replicator.kind": "none" if outer else "full", "mixer.kind": "outer" if outer else "none"}


def look_alone(sync: Any, step: int, ends: bool, record: _record.Record | None) -> None:
    """After a step: says once on each machine that one process alone is expected to be faster, and `ends`."""
    why = sync.alone()
    if why and record is not None:
        record.alone(sync, step, sync.form(), why)
    if why and ends:
        raise Error("config", f"{why}; start one process, set decide_alone='together', or name a method")
    if why and os.environ.get("LOCAL_RANK", "0") == "0":
        log.warning("method=auto: %s; decide_alone='end' ends such a run", why)


def look(sync: Any, forms: list[Form], step: int, record: _record.Record | None) -> None:
    """After a step: whether it was exchanged in another form than the one before."""
    form = sync.form()
    changes = bool(form) and not (forms and forms[-1].method == form)
    why, expected = sync.form_change() if changes and forms else ("", [])
    if record is not None:
        record.step(sync, step, form if changes else "", why, expected)
    if not changes:
        return
    if why:
        log.warning("%s", why)
    forms.append(Form(step, form, why))


def _steps(config: Config, path: Any, given: dict[str, Any]) -> float:
    """Loads the file and says what it, or a key, says of the length; 0: nobody does."""
    with tempfile.TemporaryDirectory() as folder:
        none = os.path.join(folder, "none.yaml")
        with open(none, "w", encoding="utf-8") as file:
            file.write(f"run: {{steps: {NOBODYS}}}\n")
        config.load(none)
    if path is not None:
        config.load(path)
    if "run.steps" in given:
        config.set("run.steps", given["run.steps"])
    n = config.number("run.steps")
    return 0.0 if n == NOBODYS else float(n)


def steps_of(path: Any, given: dict[str, Any]) -> float:
    """Steps of the run, by its file or keys; 0: nobody says them."""
    with Config(Context()) as config:
        return _steps(config, path, given)


def limits(path: Any, given: dict[str, Any]) -> Limits:
    """What bounds the choice. Steps of the run are among the keys then, and decide.* is not: what is taken does not read it."""
    names = [f"decide.{name}" for name in Limits._fields[1:]]
    with Config(Context()) as config:
        usual = {name: config.number(name) for name in names}
        steps = _steps(config, path, given)
        for name, value in usual.items():
            said = config.number(name)
            if said != value:
                raise Error("config", f"{os.fspath(path)} sets {name}, which method='auto' has as an argument here; "
                            f"expected {name.replace('.', '_')}={repr(said) if isinstance(said, str) else f'{said:.15g}'}")
        if steps > 0:
            given.setdefault("run.steps", int(steps))
        for name in names:
            if name in given:
                config.set(name, given.pop(name))
        asked = Limits(steps, *(config.number(name) for name in names))
    if asked.busy and asked.keep != "optimizer":
        raise Error("config", f"decide.busy is {asked.busy!r}, but with decide.keep {asked.keep} nothing changes during a run: "
                    "leave one out")
    return asked


def _settings(method: str, keys: dict[str, Any], names: Sequence[str] = KEPT) -> list[Any]:
    with Config(Context(), {"method": method, **keys}) as config:
        config.finish()
        return [config.number(key) for key in names]


def moves(choice: Choice) -> bool:
    """Whether it may change while the run goes on (docs/methods.md section 12)."""
    kinds = "replicator.kind", "mixer.kind", "mixer.fragments", "mixer.delay", "mixer.merge"
    replicator, mixer, *parts = _settings(choice.method, choice.keys, kinds)
    return (replicator, mixer) == ("full", "none") or [replicator, mixer, *parts] == ["none", "outer", 1, 0, 0]


def candidates(parameters: int, nodes: int, steps: float = 0, keep: str = "optimizer") -> list[Way]:
    """Those of ``weft plan`` that leave what decide.keep says as it is: optimizer and rate, also the steps, nothing."""
    kept = _settings("hsdp", {})
    return [way for way in ways(parameters, nodes, steps) if way.known and (way.same or keep != "exact")
            and (keep == "any" or _settings(way.method, way.keys) == kept)]


def choose(made: Plan, allowed: list[Way], may: bool = True, limits: Limits = Limits()) -> Choice | None:
    """Of all on several nodes that are expected to be faster than one, and level with the fastest:
    one that learns as one machine does, then one that can follow the wire where the loop `may`, then the fastest. None: one process alone is
    faster, and decide.alone is end, or all send or lose too much."""
    names = {way.name for way in allowed}
    alone = max(a.faster for a in made if a.nodes == 1 and (limits.keep == "any" or not a.way.muon))
    fine = [a for a in made if a.nodes > 1 and a.way.name in names and limits.allow(a)]
    several = [a for a in fine if a.faster > alone] or (fine if limits.alone == "together" else [])
    if not several:
        return None
    best = max(several, key=lambda a: a.faster)
    level = [a for a in several if math.log(best.faster / a.faster)
             <= max(NEARLY, math.hypot(a.error, best.error))]
    return min(level, key=lambda a: (not a.same, may and not moves(a), -a.faster))


def _refusal(rest: list[Choice], limits: Limits, nodes: int) -> str:
    """Why nothing of these is taken."""
    fine = [a for a in rest if limits.allow(a)]
    if fine:
        left = next((f"; {a.way.name} ({a.faster:.2g} times) is left out: {limits.why(a)}" for a in rest
                     if a.faster > 1 and not limits.allow(a)), "")
        return ("one process alone is expected to be faster than all nodes: the best of "
                f"them, {fine[0].way.name}, is {fine[0].faster:.2g} times as fast{left}; start one process, set "
                "decide_alone='together', or name a method")
    if not rest:
        return f"method='auto' has no method for {nodes} nodes with decide.keep {limits.keep}"
    least = min(rest, key=limits.day_of)
    if 0 < limits.bytes_per_day < limits.day_of(least):
        return (f"decide.bytes_per_day is {limits.bytes_per_day / 1e6:.6g} MB, and of all on {nodes} nodes "
                f"{least.way.name} sends least, {limits.day_of(least) / 1e6:.6g} MB; expected more, or one process alone")
    return (f"of all on {nodes} nodes none needs at most {100 * limits.loss:.6g} % more steps (decide.loss)"
            + (f" and sends at most {limits.bytes_per_day / 1e6:.6g} MB a day" if limits.bytes_per_day else ""))


def _decide(model: Any, step_s: float, found: probe.Probe, layout: dict[str, int],
            limits: Limits, record: _record.Record | None, may: bool) -> Decision:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cluster.yaml")
        found.write(path)
        with open(path, encoding="utf-8") as file:
            cluster = file.read()
        made = plan(model, step_seconds=step_s, cluster=path, nodes=layout["mesh.nodes"],
                    processes_per_node=layout["mesh.ranks_per_node"], steps=limits.steps or None)
    nodes = layout["mesh.nodes"]
    allowed = candidates(sum(p.numel() for p in model.parameters()), nodes, limits.steps, limits.keep)
    taken = choose(made, allowed, may, limits)
    names = {way.name for way in allowed}
    rest = [a for a in made if a.nodes > 1 and a.way.name in names and a is not taken]
    if taken is None:
        decision = Decision("", {}, _refusal(rest, limits, nodes), cluster)
    else:
        others = " and ".join(f"{a.way.name} ({a.step_s:.3g} s a step, {a.faster:.2g} times)"
                              for a in [a for a in rest if limits.allow(a)][:2])
        wire = next((f"{f.value / 125e3:.3g} Mbit/s" for f in found.figures if f.name == "wire bandwidth" and f.value > 0),
                    "a rate that no message shows")
        decision = Decision(taken.method, taken.keys,
                            f"method=auto takes {taken.way.name}: {taken.step_s:.3g} s a step, {taken.faster:.2g} "
                            f"times as fast as one process expected on a wire of {wire}, in "
                            f"{f'{limits.steps:.0f}' if limits.steps else '200 to 20,000 (run_steps= says yours)'} steps"
                            f"{'; next ' if others else ''}{others}", cluster)
    if record is not None:
        left = [f"  left out: {a.way.name}: {limits.why(a)}" for a in rest if not limits.allow(a)]
        record.decided(decision, layout, limits.keep, "\n".join([made.table, *left, ""]))
    if taken is None:
        raise Error("config", decision.sentence)
    return decision


def _told(mesh: Mesh) -> Decision:
    """By a member, to a process that joins."""
    text = mesh.decided()
    if not text:
        raise Error("config", "method is auto here, and the run was begun with the name of its method; expected that name")
    try:
        return Decision(**json.loads(text))
    except (TypeError, ValueError):
        raise Error("config", "method is auto here, and the run is none of weft_sync's; expected its program") from None


def decide(model: Any, step: Any, mesh: Mesh, given: dict[str, Any], limits: Limits,
           record: _record.Record | None, may: bool) -> Decision:
    """The same for all processes. Collective, but where one joins. ``step``: seconds, or of measure_step; None: the first
    steps tell. `may`: what crosses the wire may change."""
    if mesh.joins:
        return _told(mesh)
    if step is None and (not may or limits.keep != "optimizer"):
        raise Error("argument", "method='auto' has to know how long a step computes where "
                    f"{f'decide.keep is {limits.keep}' if may else 'nothing can change during the run'}; expected "
                    "step=weft.measure_step(model, loss, [batch]), or a method's name")
    own = {_world.usable(key): value for key, value in given.items() if key.startswith("mesh.")}
    with Config(Context(), own) as config:
        config.fit(mesh)
        layout = {key: config.number(key) for key in ("mesh.nodes", "mesh.ranks_per_node")}
    if mesh.size == 1 or layout["mesh.nodes"] == 1:
        decision = Decision("hsdp", {}, f"method=auto: one {'process' if mesh.size == 1 else 'node'}, where nothing crosses a "
                            f"{'' if mesh.size == 1 else 'slow '}wire")
        if record is not None and mesh.rank == 0:
            record.decided(decision, layout, limits.keep, "")
        return decision
    if step is None:
        decision = Decision("hsdp", {}, "method=auto begins with full synchronization, and takes what is expected to be faster "
                            "when its first steps have shown computing and the wire", waits=True)
        if mesh.rank == 0:
            log.info("%s", decision.sentence)
            if record is not None:
                record.decided(decision, layout, limits.keep, "")
        return decision
    store = None if _world.apart() else _world.place()[2]
    if store is None:
        raise Error("config", "method='auto' decides among processes that one torchrun has started; "
                    "expected its answer here, the method that was taken there")
    step_s = float(step.at(max(step.seconds)) if hasattr(step, "at") else step)
    turn = f"weft/auto/{next(_turns)}"
    store.set(f"{turn}/{mesh.rank}", repr(step_s))
    # who has no step= begins here, and compares the line "method=: 'auto'"
    found = probe.probe(seconds=limits.time, device="none", mesh=mesh, alike="method=: 'auto' with step=\n", keys={
        **layout, **({"mesh.link": given["mesh.link"]} if "mesh.link" in given else {})})
    try:
        if mesh.rank == 0:
            slowest = max(float(store.get(f"{turn}/{r}")) for r in range(mesh.size))
            try:
                told: dict[str, Any] = _decide(model, slowest, found, layout, limits, record, may)._asdict()
            except (Error, OSError) as error:
                told = {"error": str(error)}
            store.set(turn, json.dumps(told))
    finally:
        found.close()
    answer = json.loads(store.get(turn))
    store.set(f"{turn}/read/{mesh.rank}", "")
    for r in range(mesh.size if mesh.rank == 0 else 0):
        store.get(f"{turn}/read/{r}")  # who holds the store is the last to leave it
    if "error" in answer:
        raise Error("config", answer["error"])
    taken = Decision(**answer)
    if mesh.rank == 0:
        log.info("%s", taken.sentence)
    return taken


__all__ = ["Decision", "Form", "Limits", "candidates", "choose", "decide", "follow", "keys_of", "limits", "look", "moves"]
