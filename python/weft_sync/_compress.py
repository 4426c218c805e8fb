# SPDX-License-Identifier: MIT
"""Compression by torch's operations, where the tensor lies: the transform and the choice of
libweft (docs/methods.md section 3). Tensors are matrices [rows, columns], or vectors.

`choose` takes a momentum and returns what is sent of it, as (places [chunks, k] int32 ascending
in a chunk, values [chunks, k] f32); places is None where it is sent whole. `expand` is what a
receiver makes of that, in the momentum's shape; `agreed` what is made of that of several ranks,
[ranks, chunks, k], or its signs."""

from __future__ import annotations

import functools
import math

from typing import Optional, Tuple

import torch


@functools.lru_cache(maxsize=16)
def dct(c: int, device: torch.device) -> torch.Tensor:
    """The orthonormal DCT-II of c points: X = D x."""
    i = torch.arange(c, dtype=torch.float64, device="cpu")
    matrix = torch.cos(math.pi * (2 * i[None] + 1) * i[:, None] / (2 * c)) * math.sqrt(2 / c)
    matrix[0] /= math.sqrt(2)
    return matrix.float().to(device)


def largest(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row the k of largest magnitude; a NaN counts as the largest."""
    size = torch.nan_to_num(x.abs(), nan=math.inf)
    places = size.topk(k, dim=1, sorted=False).indices.sort(dim=1).values
    return places.to(torch.int32), x.gather(1, places)


def spread(places: torch.Tensor, values: torch.Tensor, width: int) -> torch.Tensor:
    """[chunks, width], zero but for the values."""
    x = torch.zeros(values.shape[0], width, dtype=values.dtype, device=values.device)
    return x.scatter_(1, places.long(), values)


def mean(places: torch.Tensor, values: torch.Tensor, width: int) -> torch.Tensor:
    """[chunks, width]: of each coefficient the mean over the ranks that sent it with a value other than
    0, added in their order, by operations in which no two numbers meet."""
    x = spread(places[0], values[0], width)
    senders = spread(places[0], (values[0] != 0).to(x.dtype), width)
    for at, value in zip(places[1:].long(), values[1:]):
        x.scatter_(1, at, x.gather(1, at) + value)
        senders.scatter_(1, at, senders.gather(1, at) + (value != 0))
    return x.div_(senders.clamp_(min=1))


STILL = 2.0 ** -63  # smaller values move nothing (lib/compress/spectrum.h)


def signs(x: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    """The signs of chunks x, whose coefficients are `of`: 0 where all of those are still, NaN where one is
    not finite."""
    state = (of.abs() >= STILL).any(1, keepdim=True).to(x.dtype)
    state.masked_fill_(~of.isfinite().all(1, keepdim=True), math.nan)
    return torch.where(x >= 0, state, -state)


#: places inside each chunk (None: all of them), and their values
Places = Optional[torch.Tensor]
Chosen = Tuple[Places, torch.Tensor]


class Runs:
    """Runs of c of the flattened tensor; k of each, of their DCT or of themselves (topk)."""

    def __init__(self, c: int, k: int, transformed: bool = True):
        self.c, self.k, self.transformed = c, k, transformed

    def choose(self, m: torch.Tensor) -> Chosen:
        flat = m.reshape(-1)
        x = torch.nn.functional.pad(flat, (0, -flat.numel() % self.c)).view(-1, self.c)
        if self.transformed:
            x = x @ dct(self.c, m.device).t()
        return largest(x, self.k)

    def expand(self, places: Places, values: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        assert places is not None
        return self._lay(self._back(spread(places, values, self.c)), shape)

    def agreed(self, places: torch.Tensor, values: torch.Tensor, shape: torch.Size, sign: bool) -> torch.Tensor:
        means = mean(places, values, self.c)
        x = self._back(means)
        return self._lay(signs(x, means) if sign else x, shape)

    def _back(self, x: torch.Tensor) -> torch.Tensor:
        return x @ dct(self.c, x.device) if self.transformed else x

    def _lay(self, x: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        return x.view(-1)[:shape.numel()].view(shape)


class Squares(Runs):
    """Squares of side x side of a matrix, c elements each; k of the 2-D DCT of each."""

    def __init__(self, side: int, k: int):
        super().__init__(side * side, k)

    def choose(self, m: torch.Tensor) -> Chosen:
        c, m = math.isqrt(self.c), m.reshape(m.shape[0], -1)
        x = torch.nn.functional.pad(m, (0, -m.shape[1] % c, 0, -m.shape[0] % c))
        down, across = x.shape[0] // c, x.shape[1] // c
        x = x.view(down, c, across, c).transpose(1, 2)
        d = dct(c, m.device)
        return largest((d @ x @ d.t()).reshape(down * across, c * c), self.k)

    def _back(self, x: torch.Tensor) -> torch.Tensor:
        d = dct(math.isqrt(self.c), x.device)
        return (d.t() @ x.view(-1, len(d), len(d)) @ d).view(x.shape)

    def _lay(self, x: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        c, rows, cols = math.isqrt(self.c), shape[0], shape.numel() // shape[0]
        down, across = -(-rows // c), -(-cols // c)
        x = x.view(down, across, c, c).transpose(1, 2).reshape(down * c, across * c)
        return x[:rows, :cols].reshape(shape)


class Whole:
    """All of a small tensor."""

    transformed = False

    def choose(self, m: torch.Tensor) -> Chosen:
        return None, m.reshape(1, -1).clone()

    def expand(self, _places: Places, values: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        return values.view(shape)
