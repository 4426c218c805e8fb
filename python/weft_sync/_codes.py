# SPDX-License-Identifier: MIT
"""What mixers send, coded by torch's operations where the tensor lies, to the bit as libweft codes
it (docs/wire-format.md, sections; lib/wire/isa/valuecoding.c, lib/wire/bins.c). The order of sums
is libweft's on a CPU; elsewhere a sum in another order may move a number of SparseLoCo's to the
next bin."""

from __future__ import annotations

from typing import NamedTuple

import torch

BLOCK, RUN = 64, 512  # numbers that share a scale, or a table of bins
NAN, LEAST, TOO_LARGE = 0x7fc0, (127 - 100) << 7, (127 + 100) << 23
LIMITS = {"int8": 127, "int4": 7}
BITS = {"f32": 32, "bf16": 16, "int8": 8, "int4": 4, "sign": 1}
_LOW = 0xffffffff


class Rounding(NamedTuple):
    """Stochastic rounding: a function of these and of the number of the value."""

    seed: int
    step: int
    place: int


def n_bytes(values: str, n: int) -> int:
    """Bytes of a section of n numbers."""
    scale = 0 if values in ("f32", "bf16") else 2
    whole, rest = divmod(n, BLOCK)
    return whole * (scale + BLOCK * BITS[values] // 8) + \
        (scale + (rest * BITS[values] + 7) // 8 if rest else 0)


def _bits(x: torch.Tensor) -> torch.Tensor:
    """The bits of float32 numbers, as int64 from 0 on."""
    return x.view(torch.int32).to(torch.int64) & _LOW


def _floats(bits: torch.Tensor) -> torch.Tensor:
    """The numbers of such bits."""
    return torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32).view(torch.float32)


def _bf16(x: torch.Tensor) -> torch.Tensor:
    """The bits of the nearest bf16, as int64."""
    bits = _bits(x)
    cut = bits >> 16
    return torch.where((bits & 0x7fffffff) > 0x7f800000, cut | 0x40,
                       (bits + 0x7fff + (cut & 1)) >> 16 & 0xffff)


def _of_bf16(bits: torch.Tensor) -> torch.Tensor:
    return _floats(bits << 16)


def _two_bytes(x: torch.Tensor) -> torch.Tensor:
    """[...] int64 -> [..., 2] bytes, the lower first."""
    return torch.stack((x & 255, x >> 8), -1).to(torch.uint8)


def _of_two_bytes(x: torch.Tensor) -> torch.Tensor:
    wide = x.to(torch.int64)
    return wide[..., 0] | wide[..., 1] << 8


def _packed(x: torch.Tensor, bits: int) -> torch.Tensor:
    """[rows, n] numbers of so many bits -> [rows, n bits / 8] bytes, the first number lowest."""
    per = 8 // bits
    shifts = torch.arange(per, device=x.device) * bits
    return ((x.to(torch.int64).view(x.shape[0], -1, per) & ((1 << bits) - 1)) << shifts) \
        .sum(-1).to(torch.uint8)


def _unpacked(x: torch.Tensor, bits: int) -> torch.Tensor:
    """[rows, m] bytes -> [rows, 8 m / bits] int64."""
    shifts = torch.arange(8 // bits, device=x.device) * bits
    return ((x.to(torch.int64).unsqueeze(-1) >> shifts) & ((1 << bits) - 1)).flatten(1)


def _draw(rounding: Rounding, n: int, device: torch.device) -> torch.Tensor:
    """16 random bits for each of n values, a multiple of 8: Philox4x32-10, as lib/base/rng.c."""
    seed = rounding.seed ^ rounding.place * 0xD1342543DE82EF95 & (1 << 64) - 1
    index = torch.arange(n // 8, dtype=torch.int64, device=device)
    c = [index & _LOW, (index >> 32) ^ (10 << 16),
         torch.full_like(index, rounding.step & _LOW), torch.full_like(index, rounding.step >> 32)]
    k0, k1 = seed & _LOW, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]  # of 64 bits, wherever their sign bit is
        c = [(b >> 32 & _LOW) ^ c[1] ^ k0, b & _LOW, (a >> 32 & _LOW) ^ c[3] ^ k1, a & _LOW]
        k0, k1 = (k0 + 0x9E3779B9) & _LOW, (k1 + 0xBB67AE85) & _LOW
    words = torch.stack(c, -1)
    return torch.stack((words & 0xffff, words >> 16), -1).view(-1)


def _integers(x: torch.Tensor, limit: int, rounding: Rounding | None) \
        -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of blocks [b, 64]: scales as bf16 bits, integers, what the others decode."""
    most = (_bits(x) & 0x7fffffff).amax(1)
    scale = (_bits(_floats(most) / torch.full_like(_floats(most), limit)) + 0xffff) >> 16
    scale = torch.where(scale < LEAST, 0, scale)
    scale = torch.where(most >= TOO_LARGE, NAN, scale)
    plain = ((scale == 0) | (scale == NAN)).unsqueeze(1)
    unit = torch.where(plain, 1.0, _of_bf16(scale).unsqueeze(1))
    add: torch.Tensor | int = 1 << 22
    if rounding is not None:
        add = (_draw(rounding, x.numel(), x.device) << 7 | 1 << 6).view(x.shape)
    size = torch.where(plain, 0.0, x.abs()) * ((1 << 23) / unit)
    q = ((size.to(torch.int64) + add) >> 23).clamp(max=limit)
    q = torch.where(_bits(x) >= 1 << 31, -q, q)
    q = torch.where(plain, 0, q)
    return scale, q, torch.where(plain, _of_bf16(scale).unsqueeze(1), q.to(torch.float32) * unit)


def _signs(x: torch.Tensor, counts: torch.Tensor) \
        -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of blocks [b, 64] of so many numbers: scales, sign bits, what the others decode. Sixteen sums
    side by side, as libweft has them."""
    size = x.abs().view(-1, 4, 16)
    lanes = size[:, 0] + size[:, 1]
    lanes = lanes + size[:, 2]
    lanes = lanes + size[:, 3]
    for width in (8, 4, 2, 1):
        lanes = lanes[:, :width] + lanes[:, width:]
    scale = _bf16(lanes[:, 0] / counts)
    scale = torch.where(scale < LEAST, 0, scale)
    scale = torch.where((_bits(x) & 0x7fffffff).amax(1) >= TOO_LARGE, NAN, scale)
    plain = ((scale == 0) | (scale == NAN)).unsqueeze(1)
    below = torch.where(plain, 0, _bits(x) >> 31)
    return scale, below, _floats(scale.unsqueeze(1) << 16 | below << 31)


def encode(values: str, x: torch.Tensor, rounding: Rounding | None = None) \
        -> tuple[torch.Tensor, torch.Tensor]:
    """x [n] float32 -> a section's bytes [n_bytes] uint8, and what the others decode [n]."""
    n = x.numel()
    if values == "f32":
        return x.contiguous().view(torch.uint8), x
    if values == "bf16":
        code = _bf16(x)
        return _two_bytes(code).view(-1), _of_bf16(code)
    blocks = torch.nn.functional.pad(x, (0, -n % BLOCK)).view(-1, BLOCK)
    if values == "sign":
        counts = torch.full((blocks.shape[0],), float(BLOCK), device=x.device)
        if n % BLOCK:
            counts[-1:] = float(n % BLOCK)
        scale, q, decoded = _signs(blocks, counts)
    else:
        scale, q, decoded = _integers(blocks, LIMITS[values], rounding)
    payload = _packed(q, BITS[values])
    coded = torch.cat((_two_bytes(scale), payload), 1).view(-1)
    return coded[:n_bytes(values, n)], decoded.view(-1)[:n]


def decode(values: str, coded: torch.Tensor, n: int) -> torch.Tensor:
    """What encode has written, or another rank that libweft has checked -> [n] float32."""
    if values == "f32":
        return coded.view(torch.float32)
    if values == "bf16":
        return _of_bf16(_of_two_bytes(coded.view(-1, 2)))
    width = 2 + BLOCK * BITS[values] // 8
    blocks = torch.nn.functional.pad(coded, (0, -(-n // BLOCK) * width - coded.numel()))
    blocks = blocks.view(-1, width)
    scale = _of_two_bytes(blocks[:, :2]).unsqueeze(1)
    q = _unpacked(blocks[:, 2:], BITS[values])
    if values == "sign":
        return _floats(scale << 16 | q << 31).view(-1)[:n]
    q = torch.where(q > LIMITS[values], q - (1 << BITS[values]), q)
    decoded = torch.where(scale == NAN, _of_bf16(scale), q.to(torch.float32) * _of_bf16(scale))
    return decoded.view(-1)[:n]


# --- SparseLoCo's ---


def choose(e: torch.Tensor, c: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """e [n] -> of each run of c its k of largest magnitude, equal ones from the left, the last run
    filled up with zeros: places [runs, k] int32 ascending, values [runs, k]."""
    runs = torch.nn.functional.pad(e, (0, -e.numel() % c)).view(-1, c)
    size = runs.view(torch.int32) & 0x7fffffff  # the bits of magnitudes order like them
    order = size.sort(dim=1, descending=True, stable=True).indices[:, :k]
    places = order.sort(dim=1).values
    return places.to(torch.int32), runs.gather(1, places)


def _sums(x: torch.Tensor) -> torch.Tensor:
    """Of each row, added from the left, as libweft does; on a CPU cumsum is that."""
    return x.cumsum(1)[:, -1]


def _bins_of(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs [r, n]: bytes [r, 8 + n / 4 upwards], and what the others decode [r, n]."""
    wide, n = x.to(torch.float64), x.shape[1]
    mean = (_sums(wide) / n).unsqueeze(1)
    width = 1.5 * (_sums((wide - mean) * (wide - mean)) / n).sqrt().unsqueeze(1)
    finite = width.isfinite()
    place = ((wide - mean) / width + 2.5).floor().nan_to_num(2, 3, 0).clamp(0, 3)
    bins = torch.where(width > 0, place, 2.0).to(torch.int64) * finite
    table = []
    for b in range(4):
        among = bins == b
        found = _sums(torch.where(among, wide, 0.0)) / among.sum(1).clamp(min=1)
        entry = _bf16(found.to(torch.float32))
        table.append(torch.where((entry & 0x7fff) < 0x7f80, entry, entry & 0x8000 | 0x7f7f))
    tables = torch.where(finite, torch.stack(table, 1), NAN)
    tables = torch.where(finite & (torch.stack([(bins == b).sum(1) for b in range(4)], 1) == 0),
                         0, tables)
    two_bits = _packed(torch.nn.functional.pad(bins, (0, -n % 4)), 2)
    coded = torch.cat((_two_bytes(tables).flatten(1), two_bits), 1)
    return coded, _of_bf16(tables.gather(1, bins))


def encode_bins(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x [n] -> numbers of 2 bits in runs of 512: bytes, and what the others decode [n]."""
    whole = x.numel() // RUN * RUN
    parts = [_bins_of(x[:whole].view(-1, RUN))] if whole else []
    if x.numel() > whole:
        parts.append(_bins_of(x[whole:].view(1, -1)))
    if not parts:
        return torch.empty(0, dtype=torch.uint8, device=x.device), x
    return torch.cat([p[0].reshape(-1) for p in parts]), \
        torch.cat([p[1].reshape(-1) for p in parts])
