# SPDX-License-Identifier: MIT
"""What the processes of a run must have in common beside weft's keys and the tensors' names and
sizes, a line each: libweft compares the lines when they begin, and when a process comes.

    optimizer: AdamW        group 0 lr: 0.001        dtype of body.weight: bfloat16"""

from __future__ import annotations

from typing import Any, Iterable

import torch

#: how an optimizer computes on this device, which may be another one elsewhere
OWN = ("params", "foreach", "fused", "capturable", "differentiable", "initial_lr")


def _value(group: dict[str, Any], name: str) -> Any:
    value = group.get("initial_lr", group[name]) if name == "lr" else group[name]
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value


def text_of(groups: Iterable[dict[str, Any]], named: Iterable[tuple[str, torch.Tensor]],
            inner: Any = None) -> str:
    lines = [f"optimizer: {type(inner).__name__ if inner is not None else 'of weft'}"]
    for i, group in enumerate(groups):
        lines.append(f"group {i}: {len(group['params'])} parameters")
        lines += [f"group {i} {name}: {_value(group, name)}" for name in sorted(group)
                  if name not in OWN and isinstance(_value(group, name),
                                                    (bool, int, float, str, tuple, list))]
    lines += [f"dtype of {name}: {str(p.dtype).removeprefix('torch.')}" for name, p in named
              if p.dtype != torch.float32]
    return "".join(line.replace("\n", " ") + "\n" for line in lines)


def rounding(device: torch.device) -> str:
    """What the last bits of a product depend on: kind of device, torch, the precision asked for."""
    name = getattr(getattr(torch, device.type), "get_device_name", None)
    kind = name(device) if name is not None else torch.backends.cpu.get_cpu_capability()
    return f"torch {torch.__version__}, {device.type}, {kind}, {torch.get_float32_matmul_precision()}"


__all__ = ["rounding", "text_of"]
