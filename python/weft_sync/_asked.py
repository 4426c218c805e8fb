# SPDX-License-Identifier: MIT
"""What a program asks for and an exchange could not do is refused here, in one sentence each."""

from __future__ import annotations

from typing import Any

from ._library import Error


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


__all__ = ["agreement"]
