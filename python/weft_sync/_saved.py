# SPDX-License-Identifier: MIT
"""What is saved beside weft's own state, and what of another's can be taken over.

    Beside      a torch optimizer's state_dict has what mixing keeps, under OWN: frameworks save
                and load the optimizer alone
    plain       that state without it
    take_over   moments of torch's AdamW into weft's"""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable, Iterator, Sequence

import torch

from ._asked import log
from ._library import Config, Error
from ._world import local

OWN = "weft_mix"


class Beside:
    """`give` and `take` are of what mixes around the optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer, give: Callable[[], dict[str, Any]],
                 take: Callable[[dict[str, Any]], None]):
        self.give, self.take, self.quiet = give, take, False
        self.handles: list[Any] = []
        if not hasattr(optimizer, "register_state_dict_post_hook"):  # before torch 2.3
            log.warning("this version of torch saves nothing of weft.Mix with the optimizer: save "
                        "and load Mix's own state_dict(), in frameworks too")
            return
        setattr(optimizer, "_weft_beside", self)
        self.handles = [optimizer.register_state_dict_post_hook(self._add),
                        optimizer.register_load_state_dict_pre_hook(self._part)]

    def _add(self, _optimizer: Any, packed: dict[str, Any]) -> None:
        if not self.quiet:
            packed[OWN] = self.give()

    def _part(self, _optimizer: Any, packed: dict[str, Any]) -> dict[str, Any]:
        if OWN in packed and not self.quiet:
            self.take(packed[OWN])
        return {key: value for key, value in packed.items() if key != OWN}


@contextlib.contextmanager
def _alone(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    beside = getattr(optimizer, "_weft_beside", None)
    if beside is None:
        yield
        return
    beside.quiet = True
    try:
        yield
    finally:
        beside.quiet = False


def plain(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The optimizer's own state."""
    with _alone(optimizer):
        return optimizer.state_dict()


def load_plain(optimizer: torch.optim.Optimizer, packed: dict[str, Any]) -> None:
    with _alone(optimizer):
        optimizer.load_state_dict(packed)


def steps_of(packed: dict[str, Any]) -> int:
    """Steps that a torch optimizer has done, by its state."""
    if not {"state", "param_groups"} <= set(packed):
        raise Error("format", f"the state has {', '.join(map(str, packed)) or 'nothing'}; expected "
                    "that of an optimizer of weft's or of torch's")
    return max((int(part["step"]) for part in packed["state"].values() if "step" in part), default=0)


def take_over(packed: dict[str, Any], config: Config, shapes: Sequence[torch.Size],
              write: Callable[[str, int, torch.Tensor], None]) -> int:
    """A state of torch's AdamW for weft's own; the steps that it has done."""
    steps, kind = steps_of(packed), config.number("optimizer.kind")
    if kind != "adamw":
        raise Error("format", f"the state is of a torch optimizer, but method {config.number('method')} "
                    f"steps by weft's {kind}; expected that torch optimizer as second argument")
    for group in packed["param_groups"]:
        _check_group(group, config)
    order = [i for group in packed["param_groups"] for i in group["params"]]
    if len(order) != len(shapes):
        raise Error("format", f"the state is of {len(order)} parameters, this model has {len(shapes)}")
    for index, (i, shape) in enumerate(zip(order, shapes)):
        part = packed["state"].get(i)
        if part is not None and ("exp_avg_sq" not in part or int(part["step"]) != steps):
            raise Error("format", f"parameter {index} has {', '.join(part)} after step "
                        f"{part.get('step', '?')} of {steps}; expected AdamW's moments after the same")
        for name, theirs in (("optimizer.m", "exp_avg"), ("optimizer.v", "exp_avg_sq")):
            value = torch.zeros(shape) if part is None else local(part[theirs])
            if value.shape != shape:
                raise Error("format", f"'{theirs}' of parameter {index} was saved as "
                            f"{tuple(value.shape)}, this model has {tuple(shape)}")
            write(name, index, value)
    return steps


def _check_group(group: dict[str, Any], config: Config) -> None:
    own = {"betas": (config.number("optimizer.beta1"), config.number("optimizer.beta2")),
           "eps": (config.number("optimizer.eps"),), "amsgrad": (False,), "maximize": (False,)}
    for name, values in own.items():
        said = group.get(name, values)
        said = tuple(said) if isinstance(said, (list, tuple)) else (said,)
        if not all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(said, values, strict=True)):
            key = "optimizer_eps" if name == "eps" else name
            raise Error("format", f"the state is of an AdamW with {name}={group[name]}, this optimizer "
                        f"has {values if len(values) > 1 else values[0]}" + (
                            f"; create it with {key}={group[name]}" if name in ("betas", "eps") else
                            ", as weft's own; expected the torch optimizer as second argument"))


__all__ = ["OWN", "Beside", "load_plain", "plain", "steps_of", "take_over"]
