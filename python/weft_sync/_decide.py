# SPDX-License-Identifier: MIT
"""method="auto": what the processes measure before the first step, and which method follows.

    all       a step of the loop (the caller's measurement), the wires by libweft's probe
    rank 0    plans on the slowest step and these wires -> method and keys, by the store -> all

As in ``weft train method=auto`` (docs/planning.md) the optimizer and its rate stay, and several
nodes are taken as soon as they are expected to be faster than one."""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
import tempfile
from typing import Any, NamedTuple, Sequence

from . import _world, probe
from ._library import Config, Context, Error, Mesh
from ._plan import NEARLY, Choice, Plan, Way, plan, ways

log = logging.getLogger("weft_sync")
SECONDS = 10.0
KEPT = ("optimizer.kind", "optimizer.lr", "optimizer.clip", "optimizer.beta2")
NOBODYS = 999_999_937  # steps that no file says
_turns = itertools.count()


class Decision(NamedTuple):
    """What is taken; `sentence` says why."""

    method: str
    keys: dict[str, Any]
    sentence: str
    cluster: str = ""  #: the cluster.yaml on which it was decided


class Form(NamedTuple):
    """What crosses the wire from a step on."""

    step: int    #: the first one, from 1
    method: str  #: "full sync int8"
    why: str     #: on the first process with the numbers


def follow(sync: Any, decision: Decision, steps: float, loss: float) -> None:
    """Before the first step: lets what crosses the wire change as it pays. Nothing is silent."""
    if not decision.cluster:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cluster.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(decision.cluster)
        if why := sync.replan(path, loss, int(steps)):
            log.info("method=auto keeps this choice: %s", why)


def keys_of(form: str) -> dict[str, Any]:
    """What a form of the exchange, as `Sync.form` names it, says of its configuration."""
    if not form:
        return {}
    outer = form.startswith("diloco")
    return {"replicator.kind": "none" if outer else "full", "mixer.kind": "outer" if outer else "none"}


def look(sync: Any, forms: list[Form], step: int) -> None:
    """After a step: whether it was exchanged in another form than the one before."""
    form = sync.form()
    if not form or (forms and forms[-1].method == form):
        return
    why = sync.form_change() if forms else ""
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


def limits(path: Any, given: dict[str, Any]) -> tuple[float, float]:
    """Steps of the run (0: nobody says them), which are among the keys then, and decide.loss, which is not: what is taken does
    not read it."""
    with Config(Context()) as config:
        usual = config.number("decide.loss")
        steps = _steps(config, path, given)
        if config.number("decide.loss") != usual:
            raise Error("config", f"{os.fspath(path)} sets decide.loss, which method='auto' has as an argument here; "
                        f"expected decide_loss={config.number('decide.loss'):g}")
        if steps > 0:
            given.setdefault("run.steps", int(steps))
        if "decide.loss" in given:
            config.set("decide.loss", given.pop("decide.loss"))
        return steps, float(config.number("decide.loss"))


def _settings(method: str, keys: dict[str, Any], names: Sequence[str] = KEPT) -> list[Any]:
    with Config(Context(), {"method": method, **keys}) as config:
        config.finish()
        return [config.number(key) for key in names]


def moves(choice: Choice) -> bool:
    """Whether it may change while the run goes on (docs/methods.md section 12)."""
    kinds = "replicator.kind", "mixer.kind", "mixer.fragments", "mixer.delay", "mixer.merge"
    replicator, mixer, *parts = _settings(choice.method, choice.keys, kinds)
    return (replicator, mixer) == ("full", "none") or [replicator, mixer, *parts] == ["none", "outer", 1, 0, 0]


def candidates(parameters: int, nodes: int, steps: float = 0) -> list[Way]:
    """Those of ``weft plan`` that leave optimizer and rate as they are."""
    kept = _settings("hsdp", {})
    return [way for way in ways(parameters, nodes, steps)
            if way.known and _settings(way.method, way.keys) == kept]


def choose(made: Plan, allowed: list[Way], may: bool = True) -> Choice | None:
    """Of all on several nodes that are expected to be faster than one, and level with the fastest:
    one that learns as one machine does, then one that can follow the wire where the loop `may`, then the fastest. None: one process alone is
    faster."""
    names = {way.name for way in allowed}
    alone = max(a.faster for a in made if a.nodes == 1 and not a.way.muon)
    several = [a for a in made if a.nodes > 1 and a.way.name in names and a.faster > alone]
    if not several:
        return None
    best = max(several, key=lambda a: a.faster)
    level = [a for a in several if math.log(best.faster / a.faster)
             <= max(NEARLY, math.hypot(a.error, best.error))]
    return min(level, key=lambda a: (not a.same, may and not moves(a), -a.faster))


def _decide(model: Any, step_s: float, found: probe.Probe, layout: dict[str, int],
            steps: float | None, may: bool) -> Decision:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cluster.yaml")
        found.write(path)
        with open(path, encoding="utf-8") as file:
            cluster = file.read()
        made = plan(model, step_seconds=step_s, cluster=path, nodes=layout["mesh.nodes"],
                    processes_per_node=layout["mesh.ranks_per_node"], steps=steps)
    allowed = candidates(sum(p.numel() for p in model.parameters()), layout["mesh.nodes"], steps or 0)
    taken = choose(made, allowed, may)
    names = {way.name for way in allowed}
    rest = [a for a in made if a.nodes > 1 and a.way.name in names and a is not taken]
    if taken is None:
        raise Error("config", f"one process alone is expected to be faster than all nodes: the best of "
                    f"them, {rest[0].way.name}, is {rest[0].faster:.2g} times as fast; start one process, "
                    "or name a method")
    others = " and ".join(f"{a.way.name} ({a.step_s:.3g} s a step, {a.faster:.2g} times)" for a in rest[:2])
    wire = next((f"{f.value / 125e3:.3g} Mbit/s" for f in found.figures if f.name == "wire bandwidth"),
                "unknown rate")
    return Decision(taken.method, taken.keys,
                    f"method=auto takes {taken.way.name}: {taken.step_s:.3g} s a step, {taken.faster:.2g} "
                    f"times as fast as one process expected on a wire of {wire}, in "
                    f"{f'{steps:.0f}' if steps else '200 to 5,000 (run_steps= says yours)'} steps; next {others}", cluster)


def decide(model: Any, step: Any, mesh: Mesh, shards: int, given: dict[str, Any], may: bool) -> Decision:
    """The same for all processes. Collective. ``step``: seconds, or of measure_step. `may`: what crosses the wire may change."""
    if step is None:
        raise Error("argument", "method='auto' has to know how long a step computes; expected "
                    "step=weft.measure_step(model, loss, [batch])")
    if mesh.size == 1 and not mesh.joins:
        return Decision("hsdp", {}, "method=auto: one process, where nothing crosses a wire")
    store = None if mesh.joins or _world.apart() else _world.place()[2]
    if store is None:
        raise Error("config", "method='auto' decides among processes that one torchrun has started; "
                    "expected its answer here, the method that was taken there")
    step_s = float(step.at(max(step.seconds)) if hasattr(step, "at") else step)
    own = {key: value for key, value in given.items() if key.startswith("mesh.")}
    with Config(Context(), {**own, "mesh.shards": shards}) as config:
        config.fit(mesh)
        layout = {key: config.number(key) for key in ("mesh.nodes", "mesh.ranks_per_node")}
    if layout["mesh.nodes"] == 1:
        return Decision("hsdp", {}, "method=auto: one node, where nothing crosses a slow wire")
    turn = f"weft/auto/{next(_turns)}"
    store.set(f"{turn}/{mesh.rank}", repr(step_s))
    found = probe.probe(seconds=SECONDS, device="none", mesh=mesh, keys={
        **layout, **({"mesh.link": given["mesh.link"]} if "mesh.link" in given else {})})
    try:
        if mesh.rank == 0:
            slowest = max(float(store.get(f"{turn}/{r}")) for r in range(mesh.size))
            steps = float(given["run.steps"]) if "run.steps" in given else None
            store.set(turn, json.dumps(_answer(model, slowest, found, layout, steps, may)))
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


def _answer(model: Any, step_s: float, found: probe.Probe, layout: dict[str, int],
            steps: float | None, may: bool) -> dict[str, Any]:
    try:
        return _decide(model, step_s, found, layout, steps, may)._asdict()
    except Error as error:
        return {"error": str(error)}


__all__ = ["Decision", "Form", "candidates", "choose", "decide", "follow", "keys_of", "limits", "look", "moves"]
