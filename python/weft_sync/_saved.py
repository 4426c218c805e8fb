# SPDX-License-Identifier: MIT
"""What is saved beside weft's own state, and what of another's can be taken over.

    Beside      a torch optimizer's state_dict has what mixing keeps, under OWN: frameworks save
                and load the optimizer alone
    plain       that state without it
    take_over   moments of torch's AdamW into weft's
    PerRank     state that differs by rank in a checkpoint of torch.distributed.checkpoint, which takes
                tensors of one name for copies of one tensor and keeps one of them

What PerRank loads, in as many ranks as saved it, is each one's own, the same bits; in another number the
mean of those that had the same rows: what they have held back together stays, how it differed among them is lost."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
from types import FrameType
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
            refuse_names()
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


def refuse_names() -> None:
    """torch.distributed.checkpoint.state_dict keeps of a state what torch's own have, and drops all else in silence."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.distributed.checkpoint.state_dict":
            raise Error("argument", "get_state_dict and set_state_dict of torch.distributed.checkpoint drop what weft keeps of an "
                        "optimizer; expected weft.PerRank(optimizer), of Mix weft.PerRank(mix), beside get_model_state_dict")
        frame = frame.f_back


def hooks(optimizer: torch.optim.Optimizer, when: str) -> list[Any]:
    """What a program has registered, as torch calls it (from 2.3 on)."""
    return list(getattr(optimizer, f"_optimizer_{when}_hooks", {}).values())


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


# --- in torch.distributed.checkpoint ---

_RANK = re.compile(r"(?:^|\.)rank (\d+) of (\d+)\.(?:tensors\.(.+))?")
_MIXED = ("what the mixer keeps is by the number of processes and has no mean; expected as many "
          "processes, or the model loaded alone")


class PerRank:
    """Around an optimizer of weft's (or anything whose state_dict has tensors under "state"), so
    that every rank saves and loads its own::

        torch.distributed.checkpoint.save({"model": model.state_dict(),
                                           "opt": weft.PerRank(optimizer)}, checkpoint_id=path)

    load likewise, before the first step; and with ``weft.PerRank(optimizer, path)`` in any number
    of processes: another number than saved it gets the mean of what they had. A process reads the
    state of all of them then. Momenta and masters are tensors of the checkpoint; all else, an inner
    optimizer's state too, is one object. :class:`Error` of another run's tensors."""

    def __init__(self, optimizer: Any, saved: str | os.PathLike[str] | None = None):
        self.optimizer, self.saved = optimizer, saved

    def _place(self) -> tuple[int, int]:
        dist = torch.distributed
        if dist.is_available() and dist.is_initialized():
            return dist.get_rank(), dist.get_world_size()
        return self.optimizer.mesh.rank, self.optimizer.mesh.size

    def _sources(self) -> list[str]:
        """Whose state this rank loads, or saves: its own; or of those that saved another number,
        all that had the rows that it has."""
        rank, size = self._place()
        n = size if self.saved is None else _saved_by(self.saved)[0]
        if n == size:
            return [f"rank {rank} of {size}"]
        if getattr(self.optimizer, "_group", None) is not None:
            raise Error("format", f"{self.saved} has the state of {n} processes, and pieces of a model (process_group) "
                        f"are loaded by as many; expected {n}, not {size}")
        share = int(getattr(self.optimizer, "placed", 1))
        if n % share:
            raise Error("format", f"{self.saved} has the state of {n} ranks, but {share} ranks "
                        f"share a copy of the model here; expected a multiple of {share}")
        return [f"rank {r} of {n}" for r in range(rank % share, n, share)]

    def state_dict(self) -> dict[str, Any]:
        """Every tensor under a name of this rank's."""
        packed = self.optimizer.state_dict()
        tensors = {f"{i}.{name}": tensor for i, part in packed["state"].items()
                   for name, tensor in part.items()}
        rest = {key: value for key, value in packed.items() if key != "state"}
        if self.saved is not None and tensors:
            self._check_names(set(tensors))
        return {source: {"tensors": tensors if k == 0 else
                         {name: torch.empty_like(tensor) for name, tensor in tensors.items()},
                         "rest": _Object(rest)}
                for k, source in enumerate(self._sources())}

    def _check_names(self, own: set[str]) -> None:
        """A missing array would be told by torch in a page for every rank."""
        theirs = _saved_by(self.saved)[1] if self.saved is not None else own
        missing = sorted(own - theirs)
        if not missing:
            return
        if any(".mixer." in name for name in missing):
            raise Error("format", _MIXED)
        raise Error("format", f"{self.saved} has no array '{missing[0]}' and {len(missing) - 1} "
                    "more of this optimizer's; expected the same model and method")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """This rank's own of what all saved."""
        sources = [state_dict[source] for source in self._sources()]
        own = sources[0]
        tensors, rest = own["tensors"], own["rest"].value
        if len(sources) > 1 or own is not state_dict.get("rank {} of {}".format(*self._place())):
            parts = [source["tensors"] for source in sources]
            here = self.optimizer.state_dict()["weft"]
            check_mixed(parts, rest["weft"], here)
            tensors = mean_of(parts)
            rest = mean_of([source["rest"].value for source in sources])
            if here is not None:
                rest["weft"] = {**rest["weft"], "rank": here["rank"], "size": here["size"]}
        state: dict[int, dict[str, torch.Tensor]] = {}
        for key, tensor in tensors.items():
            i, name = key.split(".", 1)
            state.setdefault(int(i), {})[name] = tensor
        self.optimizer.load_state_dict({"state": state, **rest})


def _saved_by(path: str | os.PathLike[str]) -> tuple[int, set[str]]:
    """Ranks whose state a checkpoint has, and the names of their arrays."""
    from torch.distributed.checkpoint import FileSystemReader
    try:
        names = FileSystemReader(path).read_metadata().state_dict_metadata
    except OSError as error:
        raise Error("file", f"{path} is no checkpoint of torch.distributed.checkpoint: "
                    f"{error}") from None
    matches = [match for match in map(_RANK.search, names) if match]
    found = {int(match[2]) for match in matches}
    if len(found) != 1:
        raise Error("format", f"{path} has the state of {sorted(found) or 'no'} ranks; expected "
                    "what one run saved with weft.PerRank")
    return found.pop(), {match[3] for match in matches if match[3]}


def check_mixed(parts: Sequence[dict[str, torch.Tensor]], saved: dict[str, Any] | None,
                here: dict[str, Any] | None) -> None:
    """That no mixer has arrays or numbers which hold only among those that saved them."""
    differs = any(".mixer." in name and not torch.equal(tensor, other[name])
                  for name, tensor in parts[0].items() for other in parts[1:])
    numbers = [len((weft or {}).get("numbers", ())) for weft in (saved, here)]
    if differs or numbers[0] != numbers[1]:
        raise Error("format", _MIXED)


def mean_of(values: Sequence[Any]) -> Any:
    """Of alike values: tensors' mean, dicts and lists by their entries, of all else the first.
    Equal tensors stay as they are, bit by bit."""
    first = values[0]
    if isinstance(first, torch.Tensor) and first.is_floating_point():
        if all(torch.equal(first, other) for other in values[1:]):
            return first
        return torch.stack([v.double() for v in values]).mean(dim=0).to(first.dtype)
    if isinstance(first, dict):  # torch has no state of a parameter that a process has not used
        return {key: mean_of([v[key] for v in values if key in v]) for key in dict.fromkeys(k for v in values for k in v)}
    if isinstance(first, (list, tuple)):
        return type(first)(mean_of(list(parts)) for parts in zip(*values, strict=True))
    return first


class _Object:
    """One value, not a dict of many: torch would look for its keys before they are there."""

    def __init__(self, value: dict[str, Any]):
        self.value = value


__all__ = ["OWN", "Beside", "PerRank", "load_plain", "plain", "steps_of", "take_over"]
