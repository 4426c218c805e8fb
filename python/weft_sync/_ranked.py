# SPDX-License-Identifier: MIT
"""State that differs by rank in a checkpoint of torch.distributed.checkpoint, which takes
tensors of one name for copies of one tensor and keeps one of them.

    as many ranks as saved it      each its own: the same bits
    another number                 the mean of those that had the same rows: what they have held
                                   back together stays, how it differed among them is lost"""

from __future__ import annotations

import os
import re
from typing import Any, Sequence

import torch

from ._library import Error

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
    if isinstance(first, dict):
        return {key: mean_of([v[key] for v in values]) for key in first}
    if isinstance(first, (list, tuple)):
        return type(first)(mean_of(list(parts)) for parts in zip(*values, strict=True))
    return first


class _Object:
    """One value, not a dict of many: torch would look for its keys before they are there."""

    def __init__(self, value: dict[str, Any]):
        self.value = value


__all__ = ["PerRank"]
