#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the golden tokenizer and token shard files beside this script.

A second opinion, not a part of weft: the tokenizers and their encodings come from Hugging
Face's `tokenizers`, the checksums from `xxhash` (pip install tokenizers xxhash), and the
bytes of the shards are put together here from docs/file-formats.md.
Made with tokenizers 0.23.3 and xxhash 4.1.0."""
import json
import pathlib
import struct

import xxhash
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXT = """The weaver throws the weft across the warp, and the weft binds the warp.
The warp threads are held; the weft's thread crosses them, one thread at a time.
It's the weaver's art that the cloth doesn't show where one thread ends, they'll say.
In 1801 the loom read 2400 cards; in 1804, 24000 cards.\n\n
  while (thread < threads) { cross(warp, weft); thread += 1; }
Über die Kette läuft der Schuß; nić wątku przecina nić osnowy; 糸が糸を渡る。
"""
PROBES = [
    "", "a", " ", "\n", "The weaver's weft", "the  warp\n\n\nand   the\tthread  ",
    "don't DON'T they'LL we\u017f 'S's", "1 12 123 1234 12345 \u00b2\u0663\u2167",
    "x\r\n\r\ny \r\n z", "...!? \u2014 (warp)\n;weft", "<|endoftext|> weft <|begin|>",
    "\u00a0\u2003\u3000 \u1680\u180e\u200b\u0085a", "Schuß ŁĄKA нить 糸 \U0001f9f5\U0001f9f5",
    "threadthreadthread" * 8, "weft", " weft", "a\u0301e\u0308", "\u001c\u001f\u0000\u007f",
]


def train(rule):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=rule == "gpt2")
    split = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = (byte_level if rule == "gpt2"
                       else pre_tokenizers.Sequence([split, byte_level]))
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[], show_progress=False))
    return t


def encodings(name, tokenizer):
    # a special token in plain text is text to weft: hide it from the other's search
    lines = []
    for probe in PROBES:
        plain = Tokenizer.from_str(without_added(tokenizer.to_str()))
        ids = plain.encode(probe, add_special_tokens=False).ids
        lines.append("%s %s %s" % (name, probe.encode().hex() or "-",
                                   ",".join(map(str, ids)) or "-"))
    return lines


def without_added(text):
    whole = json.loads(text)
    whole["added_tokens"] = []
    whole["post_processor"] = None
    return json.dumps(whole)


def write_json(name, whole):
    path = HERE / name
    path.write_text(json.dumps(whole, ensure_ascii=False, indent=0) + "\n", encoding="utf8")


def make_tokenizers():
    lines = []
    gpt2 = train("gpt2")
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    gpt2.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    whole = json.loads(gpt2.to_str())
    write_json("tokenizer-gpt2.json", whole)
    lines += encodings("tokenizer-gpt2.json", gpt2)

    old = json.loads(gpt2.to_str())  # as the oldest files: merges as strings, no type
    old["model"]["merges"] = [m if isinstance(m, str) else " ".join(m)
                              for m in old["model"]["merges"]]
    del old["model"]["type"]
    old["model"]["unk_token"] = old["model"]["continuing_subword_prefix"] = ""
    write_json("tokenizer-gpt2-old.json", old)

    whole = json.loads(train("llama3").to_str())
    vocab = whole["model"]["vocab"]
    vocab["\u0120weft\u0120only\u0120whole"] = len(vocab)  # no piece is this
    vocab["Schu\u00c3\u0141"] = len(vocab)  # "Schuß": no merges make it
    whole["model"]["ignore_merges"] = True
    whole["model"]["byte_fallback"] = False
    llama3 = Tokenizer.from_str(json.dumps(whole))
    llama3.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|reserved 0|>"])
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<|begin_of_text|> $A",
            special_tokens=[("<|begin_of_text|>", llama3.token_to_id("<|begin_of_text|>"))])])
    write_json("tokenizer-llama3.json", json.loads(llama3.to_str()))
    lines += encodings("tokenizer-llama3.json", llama3)
    (HERE / "tokenizer-encodings.txt").write_text("\n".join(lines) + "\n")


def shard(tokens, width=2, version=1, vocab=256, tokenizer_hash=0):
    payload = struct.pack("<%d%s" % (len(tokens), "H" if width == 2 else "I"), *tokens)
    head = struct.pack("<8sIIQQQQQ", b"\x89weftTK\n", version, width, len(tokens), vocab,
                       tokenizer_hash, xxhash.xxh3_64_intdigest(payload), 0)
    return head + struct.pack("<Q", xxhash.xxh3_64_intdigest(head)) + payload


def bytes_tokenizer_hash():
    """The hash of the tokenizer "bytes", after docs/file-formats.md."""
    u64 = lambda x: struct.pack("<Q", x)
    data = b"none" + u64(0) + u64(256)
    for byte in range(256):
        data += u64(1 | 2) + u64(1) + bytes([byte])
    return xxhash.xxh3_64_intdigest(data + u64(0))


def make_shards():
    text = TEXT.encode()[:100]
    own = bytes_tokenizer_hash()
    good = shard(text, tokenizer_hash=own)
    put = lambda name, data: (HERE / ("shard-%s.bin" % name)).write_bytes(data)
    put("good", good)
    put("wide", shard(text, width=4, vocab=256, tokenizer_hash=own))
    put("broken-flip", good[:90] + bytes([good[90] ^ 4]) + good[91:])
    put("broken-short", good[:-2])
    put("broken-long", good + b"\0\0")
    put("broken-version", shard(text, version=2, tokenizer_hash=own))
    put("broken-other-tokenizer", shard(text, tokenizer_hash=0x1234))
    put("broken-id", shard(list(text) + [256], tokenizer_hash=own))
    put("nanogpt", struct.pack("<100H", *text))
    put("broken-nanogpt-odd", struct.pack("<100H", *text)[:-1])
    put("broken-nanogpt-id", struct.pack("<101H", *text, 300))
    head = lambda *x: struct.pack("<256i", *(x + (0,) * (256 - len(x))))
    put("llmc-16", head(20240520, 1, 100) + struct.pack("<100H", *text))
    put("llmc-32", head(20240801, 7, 100) + struct.pack("<100I", *text))
    put("broken-llmc-version", head(20240520, 2, 100) + struct.pack("<100H", *text))
    put("broken-llmc-count", head(20240520, 1, 101) + struct.pack("<100H", *text))


make_tokenizers()
make_shards()
