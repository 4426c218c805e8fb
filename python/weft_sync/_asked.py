# SPDX-License-Identifier: MIT
"""What a program asks for and an exchange could not do is refused here, in one sentence each."""

from __future__ import annotations

import logging
from typing import Any

import torch

from ._library import Config, Error

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
        raise Error("argument", f"{said} with skips=True: a scaler tells in step what it found; "
                    "expected optimizer_clip=1.0 to clip what is agreed on")
    if node is not None:
        raise Error("argument", f"{said} with DDP inside a node, whose backward is DDP's "
                    "own; expected optimizer.agree() before the gradients are clipped, or "
                    "optimizer_clip=1.0")


#: optimizers that make a method what it is, and the method without them
PARTS_OF_METHODS = {"muon": "diloco", "accum_adamw": "dadam"}
SIGNS = ("demo", "public_demo", "topk", "signsgd", "random", "striding", "slicing")
FAR = 4  # times a method's own rate, or a part of it, from which on a rate is remarkable


def steps(config: Config, inner: torch.optim.Optimizer) -> None:
    """That the torch optimizer inside can stand for the method's own."""
    method, kind = config.number("method"), config.number("optimizer.kind")
    name = type(inner).__name__
    if kind in PARTS_OF_METHODS and kind.replace("_", "") not in name.lower():
        raise Error("argument", f"method {method} is one by its optimizer, {kind}, but {name} would "
                    f"step; expected method='{PARTS_OF_METHODS[kind]}' around {name}, or "
                    f"weft.Optimizer(model, method='{method}') without another optimizer")
    signs = config.number("replicator.kind") in SIGNS and config.number("replicator.sign")
    if signs and not isinstance(inner, torch.optim.SGD):
        log.warning("method %s hands signs to %s, which divides them by their own size: that learns "
                    "worst of what was tried; expected torch.optim.SGD or no optimizer inside, or "
                    "replicator_sign=False (method='deto-adamw')", method, name)


def rate(config: Config, own: Config) -> None:
    """A rate that was said, beside the method's own for this width: they differ by a factor of ten
    among methods."""
    said, usual = config.number("optimizer.lr"), own.number("optimizer.lr")
    if said <= 0 or usual / FAR <= said <= usual * FAR:
        return
    factor = f"{said / usual:.2g} times" if said > usual else f"1/{usual / said:.2g} of"
    log.warning("lr is %g, %s the rate of method %s for a model of this width: %g, which is taken "
                "where lr is left out", said, factor, config.number("method"), usual)


__all__ = ["agreement", "rate", "steps"]
