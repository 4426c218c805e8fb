# SPDX-License-Identifier: MIT
"""A small T5 of Hugging Face transformers that learns to translate, with weft between the
processes. The text is yours: two files (or .gz) of as many lines, a sentence and its
translation, such as Multi30k's; without any it is numbers in German and English, made here.

    pip install transformers
    torchrun --nproc-per-node 2 t5_translation.py
    torchrun --nproc-per-node 2 t5_translation.py --source train.de.gz --target train.en.gz

Words are the most frequent ones of the files; each process has lines of its own.
"""

import argparse
import collections
import gzip
import os
import re
import time

import torch
from transformers import T5Config, T5ForConditionalGeneration

import weft_sync.torch as weft

parser = argparse.ArgumentParser()
parser.add_argument("--source", default="")
parser.add_argument("--target", default="")
parser.add_argument("--method", default="flexdemo")
parser.add_argument("--key", action="append", default=[], help="section.key=value of weft")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--lr", type=float, default=None, help="default: the method's own")
parser.add_argument("--batch", type=int, default=16, help="sentences of each process")
args = parser.parse_args()

rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
PAD, END, OTHER, WORDS, LENGTH = 0, 1, 2, 2000, 24


def lines_of(path: str) -> list[list[str]]:
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
        return [re.findall(r"\w+|[^\w\s]", line.lower()) for line in f]


def made() -> tuple[list[list[str]], list[list[str]]]:
    """Four digits in a row, in words."""
    german = "eins zwei drei vier fünf sechs sieben acht".split()
    english = "one two three four five six seven eight".split()
    rows = [[(i * k + i // 7) % 8 for k in range(1, 5)] for i in range(400)]
    return [[german[j] for j in r] for r in rows], [[english[j] for j in r] for r in rows]


def numbers(sentences: list[list[str]]) -> torch.Tensor:
    """Rows of word numbers, and their padding."""
    counts = collections.Counter(word for s in sentences for word in s)
    number = {w: i + 3 for i, (w, _) in enumerate(counts.most_common(WORDS - 3))}
    rows = torch.full((len(sentences), LENGTH), PAD)
    for row, sentence in zip(rows, sentences):
        ids = [number.get(word, OTHER) for word in sentence[:LENGTH - 1]] + [END]
        row[:len(ids)] = torch.tensor(ids)
    return rows


if bool(args.source) != bool(args.target):
    raise SystemExit("one of --source and --target is missing; expected both, or neither")
sentences, translations = (lines_of(args.source), lines_of(args.target)) if args.source \
    else made()
if len(sentences) != len(translations):
    raise SystemExit(f"{args.source} has {len(sentences)} lines, {args.target} "
                     f"{len(translations)}; "
                     "expected as many: line by line a sentence and its translation")
source, target = numbers(sentences), numbers(translations)
n_test = max(len(source) // 20, 1)
mine = torch.arange(n_test, len(source))[rank::size]

torch.manual_seed(1)
model = T5ForConditionalGeneration(T5Config(
    vocab_size=WORDS, d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, dropout_rate=0.0,
    pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=PAD))
# --- the lines that are weft's ---
optimizer = weft.Optimizer(model, method=args.method, lr=args.lr,
                           keys=dict(k.split("=", 1) for k in args.key))
# ---


def loss_of(rows: torch.Tensor) -> torch.Tensor:
    labels = target[rows].masked_fill(target[rows] == PAD, -100)
    return model(input_ids=source[rows], attention_mask=(source[rows] != PAD).long(),
                 labels=labels).loss


draw = torch.Generator().manual_seed(100 + rank)
sent, waited, exchanged, begun = 0, 0.0, 0.0, time.monotonic()
for step in range(1, args.steps + 1):
    loss = loss_of(mine[torch.randint(len(mine), (args.batch,), generator=draw)])
    loss.backward()
    report = optimizer.step(loss)
    optimizer.zero_grad()
    sent += report.wire_bytes + report.local_bytes
    waited, exchanged = waited + report.wait_s, exchanged + report.exchange_s
    if rank == 0 and step % 50 == 0 and report.loss is not None:
        print(f"step {step}: loss {report.loss:.3f}, "
              f"{1e3 * (time.monotonic() - begun) / step:.0f} ms a step", flush=True)

with optimizer.averaged(), torch.no_grad():
    loss = loss_of(torch.arange(min(n_test, 200)))
if rank == 0:
    hidden = 1 - waited / exchanged if exchanged > 0 else 1.0
    print(f"{size} processes, {args.method}: {sent / args.steps / 1e3:.1f} kB a step sent by each, "
          f"{100 * max(hidden, 0):.0f} % of the exchange hidden, loss on held-out sentences "
          f"{loss:.3f} a word")
