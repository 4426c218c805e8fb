# SPDX-License-Identifier: MIT
"""What a program asks for and an exchange could not do is refused here, in one sentence each."""

from __future__ import annotations

import inspect
import logging
import re
from typing import Any, Iterable

import torch

from ._abi import SIGNS
from ._library import Config, Error, key_name

log = logging.getLogger("weft_sync")


def agreement(agree: str, inner: Any, node: Any, skips: bool) -> None:
    """When gradients are agreed on: in "step"; or, around a torch optimizer, before it."""
    if agree == "step":
        return
    if agree not in ("backward", "agree()"):
        raise Error("argument", f"agree is {agree!r}, expected 'step' or 'backward'")
    said = f"agree={agree!r}" if agree == "backward" else agree
    if inner is None:
        raise Error("argument", f"{said}: weft's own optimizer steps as gradients arrive, so there "
                    "is nothing between; expected a torch optimizer as second argument, or "
                    "optimizer_clip=1.0")
    if skips:
        raise Error("argument", f"{said} with skips=True: a scaler tells later what it found; expected "
                    "weft.GradScaler, whose unscale_ leaves what is agreed on, to be clipped")
    if node is not None:
        raise Error("argument", f"{said} with DDP inside a node, whose backward is DDP's "
                    "own; expected optimizer.agree() before the gradients are clipped, or "
                    "optimizer_clip=1.0")


#: optimizers that make a method what it is, and the method without them
PARTS_OF_METHODS = {"muon": "diloco", "accum_adamw": "dadam"}
FAR = 4  # times a method's own rate, or a part of it, from which on a rate is remarkable


def steps(config: Config, inner: torch.optim.Optimizer) -> None:
    """That the torch optimizer inside can stand for the method's own."""
    method, kind = config.number("method"), config.number("optimizer.kind")
    name = type(inner).__name__
    if kind in PARTS_OF_METHODS and kind.replace("_", "") not in name.lower():
        raise Error("argument", f"method {method} is one by its optimizer, {kind}, but {name} would "
                    f"step; expected method='{PARTS_OF_METHODS[kind]}' around {name}, or "
                    f"weft.Optimizer(model, method='{method}') without another optimizer")
    if config.has(SIGNS) and not isinstance(inner, torch.optim.SGD):
        log.warning("method %s hands signs to %s, which divides them by their own size: that learns "
                    "worst of what was tried; expected torch.optim.SGD or no optimizer inside, or "
                    "replicator_sign=False (method='deto-adamw')", method, name)


def _needs_closure(inner: torch.optim.Optimizer) -> bool:
    first = next(iter(inspect.signature(inner.step).parameters.values()), None)
    return first is not None and first.default is first.empty and first.kind not in (first.VAR_POSITIONAL, first.VAR_KEYWORD)


def inside(inner: torch.optim.Optimizer, params: Iterable[torch.Tensor], around: bool) -> None:
    """That it takes one gradient in a step, of parameters of the model's; of its own loop where weft is only `around`."""
    if isinstance(inner, torch.optim.LBFGS) or not around and _needs_closure(inner):
        raise Error("argument", f"{type(inner).__name__} computes the loss several times in a step; expected an "
                    "optimizer that takes one gradient")
    if isinstance(inner, torch.optim.SparseAdam):
        raise Error("argument", "SparseAdam takes sparse gradients, and what all agree on is dense; expected Adam")
    if any("parameters" in state for state in inner.state.values()):  # SGD would go on without its momenta, in silence
        raise Error("argument", f"{type(inner).__name__} has loaded a state that weft.Optimizer saved, in which its own is one "
                    "part; expected weft.Optimizer around it first, and then load_state_dict of weft.Optimizer")
    n = len({p for g in inner.param_groups for p in g["params"]} - set(params))
    if n > 0:
        raise Error("argument", f"{n} parameters of the optimizer inside are not among the model's that require "
                    "gradients")


#: what torch's optimizers take by group, and weft's have once
OF_ALL = frozenset(("betas", "eps", "momentum", "dampening", "nesterov", "amsgrad", "maximize", "alpha", "centered", "rho",
                    "etas", "step_sizes", "lambd", "t0", "lr_decay", "momentum_decay", "beta2_decay", "ns_steps"))


def of_groups(groups: Iterable[dict[str, Any]]) -> None:
    """That groups set nothing but what is applied by group."""
    for i, group in enumerate(groups):
        found = sorted(name for name in OF_ALL & group.keys() if group[name])
        if found:
            raise Error("argument", f"parameter group {i} sets {', '.join(found)}; of weft's own optimizer expected lr and "
                        "weight_decay by group, all else for the whole (betas=, optimizer_eps=), or torch's optimizer inside")


def states(device: str | None) -> bool:
    """Whether states lie on the host wherever parameters do."""
    if device not in (None, "cpu"):
        raise Error("argument", f"state_device is {device!r}; expected 'cpu', or left out for states beside the "
                    "parameters")
    return device == "cpu"


def kept(here: bool, optimizer: Any, inner: torch.optim.Optimizer | None) -> None:
    """That there is a state of weft's for state_device='cpu'."""
    if here and inner is not None and list(optimizer._arrays()) == ["parameters"]:
        optimizer.close()
        raise Error("argument", f"state_device='cpu', but method {optimizer._config.number('method')} keeps no state, "
                    f"and {type(inner).__name__} has its own beside the parameters; expected it to be left out")


def outlives(path: Any, optimizer: Any) -> None:
    """That somebody looks into the folder, and losses are what keys say of them; one process alone has nobody to sleep
    past. What was decided lies there, too."""
    if optimizer.mesh.size == 1 or optimizer.goes_on:
        return
    said = [f"folder is {path}"] if path is not None and optimizer.decision is None else []
    said += [f"{name} is set" for name in sorted(optimizer._asked_keys) if name.startswith("elastic.")]
    if said:
        optimizer.close()
        raise Error("argument", f"{said[0]}, but this run ends when a process is lost (goes_on is false), so it "
                    "would do nothing; expected it to be left out, or a run that goes on: one process for each machine or "
                    "between='ranks', without skips=True, process_group=, mesh_on_loss='end' and a torchrun of all machines")


def products(optimizer: Any) -> None:
    """That model.precision is of some: those of the model are the program's own."""
    whole = optimizer._theirs is None and any(optimizer._sync.rule(i)[0] == "muon" for i in range(len(optimizer._places)))
    if "model.precision" in optimizer._asked_keys and not whole:
        optimizer.close()
        raise Error("config", "model.precision is set, but no Muon of weft's steps, whose products alone it is of here; "
                    "expected torch.autocast around the model's own")


LOOPS = {"replicator", "site_replicator", "mixer", "optimizer", "elastic", "method", "decide"}
LOOPS_KEYS = {"run.seed", "run.steps", "model.width", "model.heads", "model.precision", "mesh.nodes",
              "mesh.ranks_per_node", "mesh.shards", "mesh.sites", "mesh.threads", "mesh.link",
              "mesh.site_link", "mesh.overlap", "mesh.min_message", "mesh.kernels", "mesh.timeout",
              "mesh.on_loss", "mesh.join_steps",
              "mesh.robust"}
TOO_LATE = ("mesh.key", "mesh.cert", "mesh.cert_key", "mesh.ca", "mesh.encrypt", "mesh.run")
NOT_HERE = {"schedule": "rates are the loop's own; expected a schedule of torch.optim's",
            "run.audit": "weft audit cannot compute a program's own model again",
            "run": "the loop's length, files and records are the program's own",
            "mesh": "it is of weft's own program, whose ranks are not these processes"}


def together(*parts: dict[str, Any] | None) -> dict[str, Any]:
    """Keys by weft's names, which are said once: as an argument, by name or in `keys`."""
    found: dict[str, Any] = {}
    for part in parts:
        for key, value in (part or {}).items():
            name = key_name(key)
            if value is None:
                continue
            if name in found:
                raise Error("config", f"{name} is said twice, as {found[name]} and as {value}")
            found[name] = value
    return found


def keys(given: dict[str, Any], steps_by: str | None) -> None:
    """That each key of weft's has an effect in a loop of one's own. `steps_by`: the optimizer that
    steps in place of weft's. What the chosen kinds do not read, libweft refuses."""
    for name in (name for name, value in given.items() if value is not None):
        section = name.partition(".")[0]
        if name in TOO_LATE:  # configure says what is expected in their place
            continue
        if section not in LOOPS and name not in LOOPS_KEYS:
            why = NOT_HERE.get(name) or NOT_HERE.get(section, "model and rows are the program's own")
        elif section == "optimizer" and steps_by is not None and name != "optimizer.clip":
            why = f"{steps_by} steps, and not weft's optimizer: expected it there, if anywhere"
        elif name == "optimizer.groups" and re.search(r"\b(lr|decay)=", str(given[name])):
            why = "rates and decays are those of torch's parameter groups: expected optimizer= alone in it"
        else:
            continue
        raise Error("config", f"{name} is set, but {why}")


def unwrapped(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer that takes hooks, inside of one that Accelerate has prepared, which takes none."""
    inside = getattr(optimizer, "optimizer", None)
    plain = hasattr(optimizer, "_optimizer_step_pre_hooks") or not isinstance(inside, torch.optim.Optimizer)
    return optimizer if plain else unwrapped(inside)


def mixing(method: str, named: dict[str, Any]) -> None:
    """That what Mix is asked for is not of an exchange of gradients, which it has at most in the step of the loop's optimizer."""
    for name in ("accumulate", "skips", "agree", "overlap"):
        if name in named:
            raise Error("argument", f"{name} is of exchanges of gradients in backward, and Mix has none: the loop "
                        "accumulates, scales and clips as ever")
    if method == "auto" and named.get("uneven"):
        raise _averaging("a process without rows makes no step of its optimizer")


def _averaging(why: str) -> Error:
    return Error("argument", f"Mix without a method may average gradients, but {why}; expected the name of one that averages "
                 "parameters alone, method='diloco', or weft.Optimizer in place of Mix")


def averages(closure: bool, scaler: bool) -> None:
    """That the gradients of a step are there before the loop's optimizer begins it, and that it makes each."""
    if closure:
        raise _averaging("this step computes them by a closure, inside the optimizer's own")
    if scaler:
        raise _averaging("a GradScaler leaves steps of the optimizer out")


def placing(shards: int, between: str, accumulate: int, node: Any) -> None:
    if between == "ranks" and shards > 1:
        raise Error("argument", "between='ranks', but the processes of a machine share a copy of the "
                    "model (fully_shard): expected 'nodes'")
    if accumulate < 1 or (accumulate > 1 and node is not None):
        raise Error("argument", f"accumulate is {accumulate}; expected 1 or more, and 1 with DDP, which "
                    "has a no_sync() of its own" if accumulate < 1 or node is None else
                    f"accumulate is {accumulate}, but DDP accumulates inside this machine: expected "
                    "its own no_sync()")


def deciding(method: str, asked: dict[str, Any], step: Any, node: Any, inner: Any) -> None:
    """What method="auto" decides is not said beside it, and nothing else needs the step."""
    if method != "auto":
        if step is not None:
            raise Error("argument", f"step is said, but method is {method!r}; expected 'auto'")
        return
    any_other = asked.get("decide.keep") == "any"
    if any_other and inner is not None:
        raise Error("config", f"decide.keep is any, but {type(inner).__name__} steps, whatever is chosen; expected "
                    "weft.Optimizer without another optimizer, or decide_keep='optimizer'")
    for name in asked:
        if any_other and name.startswith("optimizer."):
            raise Error("config", f"{name} is set, but method auto decides it with decide.keep any: leave it out")
        if name.startswith(("replicator.", "site_replicator.", "mixer.")):
            raise Error("config", f"{name} is set, but method auto decides it: leave it out, or name a "
                        "method")
    if node is not None:
        raise Error("argument", "method='auto' with DDP inside a node is not decided here; expected a "
                    "method's name")


def rate(config: Config, own: Config) -> None:
    """A rate that was said, beside the method's own for this width: they differ by a factor of ten
    among methods."""
    said, usual = config.number("optimizer.lr"), own.number("optimizer.lr")
    if said <= 0 or usual / FAR <= said <= usual * FAR:
        return
    factor = f"{said / usual:.3g} times" if said > usual else f"1/{usual / said:.3g} of"
    log.warning("lr is %g, %s the rate of method %s for a model of this width: %g, which is taken "
                "where lr is left out", said, factor, config.number("method"), usual)


__all__ = ["agreement", "averages", "deciding", "folder", "inside", "keys", "mixing", "placing", "rate", "steps", "together",
           "unwrapped"]
