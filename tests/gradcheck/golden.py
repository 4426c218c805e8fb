# SPDX-License-Identifier: MIT
"""What make_huggingface.py and make_rows.py have in common: the parameters that net.h gives a
model by a formula, and a row of a table: the loss, the norm of each unit's gradient, and a sum
of all its elements with signs of their own, which an element out of place changes."""
import torch


def value(number, i):
    """Element i of parameter number `number`, in [-1, 1]."""
    return ((i * i * 31 + i * 7919 + number * 104729) % 2003 - 1001) / 1001


def fill(parameters, units, gain=1):
    """`gain`: what norms multiply by beside their noise; 0 where 1 is added to it."""
    for number, name in enumerate(n for unit in units for n in unit):
        p = parameters[name]
        v = torch.tensor([value(number, i) for i in range(p.numel())])
        matrix = p.dim() >= 2
        v = 0.35 * v if matrix else 0.1 * v + (0 if name.endswith("bias") else gain)
        p.data = v.float().double().reshape(p.shape)


def print_row(head, parameters, units, logits, targets):
    """`head`: what names the row in its table."""
    loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    loss.backward()
    norms = [sum(float((parameters[n].grad ** 2).sum()) for n in unit) ** 0.5
             for unit in units]
    signs = 0.0
    for number, name in enumerate(n for unit in units for n in unit):
        g = parameters[name].grad.flatten()
        signs += sum(value(number, i + 1) * float(g[i]) for i in range(g.numel()))
    numbers = ", ".join(f"{x:.9g}" for x in norms)
    print(f"    {{{head}, {float(loss):.9g},")
    print(f"     {{{numbers}}}, {signs:.9g}}},")
