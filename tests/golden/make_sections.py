#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the golden section files beside this script.

A third opinion, not a part of weft: the encoder of docs/wire-format.md, "Sections", in whole
numbers of any length. Each file is the bytes of one section; what it holds follows from the
rules below, which tests/unit/wire/test_golden.c repeats. The broken ones are a good one with
one thing changed."""
import math
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def up(x):
    d = x.bit_length()
    return x if d <= 20 else -(-x >> (d - 20)) << (d - 20)


def binomials(places, picked):
    rows = [[1] * (places + 1)]
    for j in range(1, picked + 1):
        row = [0]
        for n in range(1, places + 1):
            row.append(up(row[-1] + rows[j - 1][n - 1]))
        rows.append(row)
    return rows


class Enumerative:
    def __init__(self, elements, k):
        self.k, self.low, self.elements = k, 0, elements
        while elements >> (self.low + 1) >= max(16 * k, 128):
            self.low += 1
        places, picked = elements, min(k, elements - k)
        if self.low:
            places, picked = -(-elements >> self.low) + k - 1, k
        self.b = binomials(places, picked)
        self.total = self.b[picked][places]
        sizes = [r for r in range(1, 17) if self.total ** r <= 2 ** 128]
        if self.total >= 2 ** 64:
            sizes = [1]
        best = min(sizes, key=lambda r: (self.bits(r) / r, r))
        self.group = next(r for r in sizes if 100 * self.bits(r) * best <= 101 * self.bits(best) * r)

    def number_bits(self, r):
        return (self.total ** r - 1).bit_length()

    def bits(self, r):
        return self.number_bits(r) + r * self.k * self.low

    def number(self, indices):
        if self.low:
            members = [(i >> self.low) + j for j, i in enumerate(indices)]
        elif 2 * self.k > self.elements:
            members = [i for i in range(self.elements) if i not in indices]
        else:
            members = indices
        return sum(self.b[j + 1][m] for j, m in enumerate(members))

    def code(self, chunks):
        joined = sum(self.number(c) * self.total ** i for i, c in enumerate(chunks))
        code, width = joined, self.number_bits(len(chunks))
        for c in chunks:
            for i in c:
                code |= (i & ((1 << self.low) - 1)) << width
                width += self.low
        assert width == self.bits(len(chunks))
        return code, width


class Fixed:
    group = 1

    def __init__(self, elements, k):
        self.k, self.width = k, (elements - 1).bit_length()

    def bits(self, r):
        return self.k * self.width * r

    def code(self, chunks):
        return sum(i << j * self.width for j, i in enumerate(chunks[0])), self.bits(1)


class Bitmap:
    group = 1

    def __init__(self, elements, k):
        self.elements = elements

    def bits(self, r):
        return self.elements * r

    def code(self, chunks):
        return sum(1 << i for i in chunks[0]), self.elements


def pack(codes):
    stream, at = 0, 0
    for code, width in codes:
        assert code < 1 << width
        stream |= code << at
        at += width
    return stream.to_bytes((at + 7) // 8, "little")


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bf16_up(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return bits + 0xffff >> 16


def bf16_near(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return bits + 0x7fff + (bits >> 16 & 1) >> 16


def bf16_value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def values_and_scale(codec, values):
    if codec == "f32":
        return b"", struct.pack("<%df" % len(values), *values)
    if codec == "bf16":
        return b"", struct.pack("<%dH" % len(values), *map(bf16_near, values))
    if codec == "sign":
        scale = bf16_near(f32(sum(map(abs, values)) / len(values)))
        return struct.pack("<H", scale), pack([(int(x < 0), 1) for x in values])
    limit, bits = (127, 8) if codec == "int8" else (7, 4)
    scale = bf16_up(f32(max(map(abs, values)) / limit))
    s = bf16_value(scale)
    q = [int(math.copysign(min(math.floor(abs(x) / s + 0.5), limit), x)) for x in values]
    return struct.pack("<H", scale), pack([(x & (1 << bits) - 1, bits) for x in q])


def indices_of(chunk, elements, k):
    """Ascending, spread out and different from chunk to chunk."""
    return [elements * j // k + (chunk * 7 + j * 3) % max(1, elements // k) for j in range(k)]


def value_of(v):
    """Sums of few powers of two, so that sums of them are exact."""
    return (v * 37 % 101 - 50) / 8


def section(codec, index_class, n_chunks, elements, k):
    code = index_class(elements, k)
    w, groups = code.bits(code.group), 1
    while groups * code.group * k < 64 or (-groups * w % 8) * 128 > groups * w:
        groups += 1
    per_block, out = groups * code.group, b""
    for first in range(0, n_chunks, per_block):
        chunks = [indices_of(c, elements, k)
                  for c in range(first, min(first + per_block, n_chunks))]
        values = [value_of(v) for v in range(first * k, (first + len(chunks)) * k)]
        scale, coded = values_and_scale(codec, values)
        out += scale + pack(code.code(chunks[g:g + code.group])
                            for g in range(0, len(chunks), code.group)) + coded
    return out


def dense(codec, n):
    out = b""
    for first in range(0, n, 64):
        scale, coded = values_and_scale(codec, [value_of(v) for v in range(first, min(first + 64, n))])
        out += scale + coded
    return out


def write(name, data):
    (HERE / ("section-%s.bin" % name)).write_bytes(data)


def change(data, at, byte):
    return data[:at] + bytes([byte]) + data[at + 1:]


for codec in ("f32", "bf16", "int8", "int4", "sign"):
    write("4-of-64-" + codec, section(codec, Enumerative, 37, 64, 4))
    write("dense-" + codec, dense(codec, 150))
write("4-of-64-fixed", section("int8", Fixed, 37, 64, 4))
write("4-of-64-bitmap", section("int8", Bitmap, 37, 64, 4))
write("8-of-64", section("int8", Enumerative, 37, 64, 8))
write("50-of-64", section("int8", Enumerative, 9, 64, 50))
write("32-of-4096", section("int8", Enumerative, 5, 4096, 32))
write("5-of-1000", section("int4", Enumerative, 20, 1000, 5))

good = section("int8", Enumerative, 16, 64, 4)
assert len(good) == 105
radix = math.comb(64, 4)
write("broken-number", good[:2] + pack([(radix * radix, 39)] + [(0, 39)] * 7) + good[41:])
write("broken-scale-negative", change(good, 1, good[1] | 0x80))
write("broken-scale-infinite", b"\x80\x7f" + good[2:])
write("broken-scale-zero", b"\0\0" + good[2:])
write("broken-minus-128", change(good, 41, 0x80))
fixed = section("int8", Fixed, 1, 64, 4)
write("broken-spare-bits", section("sign", Enumerative, 1, 64, 4)[:-1] + b"\x10")
write("broken-equal-indices", fixed[:2] + pack([(5, 6), (5, 6), (6, 6), (7, 6)]) + fixed[5:])
bitmap = section("int8", Bitmap, 1, 64, 4)
write("broken-ones", bitmap[:2] + b"\x1f" + bytes(7) + bitmap[10:])
