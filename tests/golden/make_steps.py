#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the golden tokenizers with steps (tokenizer-steps-*.json) and tokenizer-steps.jsonl:
texts and their ids as Hugging Face's `tokenizers` encodes them, special tokens in text taken as
text. Made with tokenizers 0.23.3 (pip install tokenizers)."""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "bench" / "tokenizers"))
import kinds  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

CHOSEN = ["gpt2-prefix", "qwen2", "starcoder", "neox-spaces", "behaviors", "llama2", "mistral",
          "gemma", "metaspace-words"]
kinds.VOCAB = 440
texts = kinds.texts()
probes = texts[:10] + texts[10::23]
lines = []
for name in CHOSEN:
    whole = json.loads(kinds.KINDS[name]().to_str())
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    (HERE / f"tokenizer-steps-{name}.json").write_text(text + "\n", encoding="utf-8")
    tokenizer = Tokenizer.from_str(text)
    tokenizer.encode_special_tokens = True
    for probe in probes:
        ids = tokenizer.encode(probe, add_special_tokens=False).ids
        lines.append(json.dumps({"tokenizer": name, "text": probe, "ids": ids},
                                separators=(",", ":")))
(HERE / "tokenizer-steps.jsonl").write_text("\n".join(lines) + "\n")
