# SPDX-License-Identifier: MIT
"""Statistics that training leaves in buffers (running means of BatchNorm) of copies that differ: their mean over all
processes, for an average of the parameters. They are averaged as those are, in whose place they stand meanwhile. A process
that comes gets the persistent buffers of one of the others."""

from __future__ import annotations

from typing import Any, Sequence

import torch

from ._asked import log
from ._library import Config, Error
from ._places import Place
from ._sync import Sync
from ._world import local, plain

STATISTICS = (torch.nn.modules.batchnorm._NormBase,)  # each process has its own of its rows
MARK = 12345.678  # with the numbers: who has it not has sent something else


def of(asked: str | None, model: torch.nn.Module | None, config: Config, share: int, equal: bool | None = None) -> list[torch.Tensor]:
    """What is averaged: with "mean" all buffers of floating numbers; None: what statistics train, if it can be."""
    if asked not in (None, "mean", "own"):
        raise Error("argument", f"buffers is {asked!r}, expected 'mean' or 'own'")
    why = "the model is given as parameters alone" if model is None else \
        f"with method {config.number('method')} copies are equal, and no average is made" \
        if (config.number("mixer.kind") == "none" if equal is None else equal) else \
        "several processes of a machine share a copy, or its gradients" \
        if share > 1 or config.number("mesh.ranks_per_node") > 1 else ""
    if asked == "mean" and why:
        raise Error("argument", f"buffers='mean', but {why}; expected 'own'")
    if asked == "own" or why or model is None:
        return []
    kinds = (torch.nn.Module,) if asked == "mean" else STATISTICS
    return [b for part in model.modules() if isinstance(part, kinds) for b in part.buffers(recurse=False)
            if b.is_floating_point() and b.numel()]


def handed_over(asked: str | None, model: torch.nn.Module | None) -> dict[str, torch.Tensor]:
    """By name, what is kept of a model beside its parameters; with "own" nothing is handed over."""
    if asked == "own" or model is None:
        return {}
    return {plain(f"{path}.{name}").lstrip("."): local(b) for path, part in model.named_modules() for name, b in part._buffers.items()
            if b is not None and name not in part._non_persistent_buffers_set}


def untrained(asked: str | None, model: torch.nn.Module | None) -> list[tuple[torch.Tensor, str]]:
    """Those that are handed over, without a BatchNorm's: what a model computes with from its beginning."""
    trained = {id(b) for part in (model.modules() if model is not None else ()) if isinstance(part, STATISTICS)
               for b in part.buffers(recurse=False)}
    return [(b, name) for name, b in handed_over(asked, model).items() if id(b) not in trained]


@torch.no_grad()
def take(buffers: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    ours, said = ({name: tuple(b.shape) for name, b in those.items()} for those in (buffers, theirs))
    if ours != said:
        name = min(name for name in ours | said if ours.get(name) != said.get(name))
        raise Error("argument", f"buffer '{name}' is of shape {ours.get(name)} here, {said.get(name)} of those who train; "
                    "expected the same model, or buffers='own' in all processes")
    for name, b in buffers.items():
        b.copy_(theirs[name])


@torch.no_grad()
def average(buffers: Sequence[torch.Tensor], places: Sequence[Place], sync: Sync) -> None:
    """Masters are what they were afterwards. Collective."""
    if not buffers:
        return
    flat = torch.cat([b.reshape(-1).to("cpu", torch.float32) for b in buffers])
    room = sum(place.master.numel() for place in places)
    means = [_mean(part, places, sync) for part in flat.split(max(room - 1, 1))]
    if any(mean is None for mean in means):
        log.warning("statistics in buffers stay this process's own: another one was lost while they were averaged")
        return
    for b, mean in zip(buffers, torch.cat([m for m in means if m is not None]).split([b.numel() for b in buffers])):
        b.copy_(mean.view(b.shape))


def _mean(part: torch.Tensor, places: Sequence[Place], sync: Any) -> torch.Tensor | None:
    own = [place.master.clone() for place in places]
    sent = torch.cat([part, torch.tensor([MARK], device="cpu")])
    _lay(sent, places)
    sync.average()
    found = torch.cat([place.master.reshape(-1) for place in places])[:sent.numel()]
    sync.restore()
    for place, before in zip(places, own):
        place.master.copy_(before)
    return found[:-1] if abs(found[-1].item() / MARK - 1) < 1e-5 else None


def _lay(values: torch.Tensor, places: Sequence[Place]) -> None:
    for place in places:
        n = min(place.master.numel(), values.numel())
        place.master.view(-1)[:n].copy_(values[:n])
        values = values[n:]


__all__ = ["average", "handed_over", "of", "take"]
