# SPDX-License-Identifier: MIT
"""Tokenizers of the kinds that people have, small and trained here, and texts to try them on.
No published vocabulary is needed: what decides ids is the kind's steps and its merges."""
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import trainers

BLANK = "\u2581"
VOCAB = 1100  # ids to learn; tests/golden/make_steps.py wants fewer
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
         r"\s*[\r\n]+|\s+(?!\S)|\s+")

WORDS = ("the of and warp weft thread loom a to in shuttle cloth It's don't WE'LL they've I'm "
         "caf\u00e9 na\u00efve e\u0301tude \u0416\u0438\u0437\u043d\u044c \u4e2d\u6587 "
         "\u65e5\u672c\u8a9e \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \ud55c\uad6d "
         "\U0001f9f5 \u2460 \u00bd x\u00b2 \ufb01n \u212b 1 23 4567 89012 3.14 \u0663 "
         "foo_bar() {}; <b> </b> http://a.b/c?d=e !? ... -- \u2014 \u201cq\u201d "
         "<s> </s> <|endoftext|> <unk> <0x0A> \u2581 \u2581\u2581 \u00a0 \u3000 \u200d").split(" ")
SPACES = [" ", " ", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\u00a0",
          "\u2028", "\u0085", "\u3000", ""]


SPECIAL = ["<s>", "</s>", "<|endoftext|>", "<unk>", "<0x0A>"]  # in texts, never learnt from


def sentence(rng, n, words=WORDS):
    return "".join(rng.choice(words) + rng.choice(SPACES) for _ in range(n))


def texts():
    """About 900 texts: each word and space alone, pairs, mixtures, any characters."""
    rng = random.Random(7)
    out = ["", " ", "  ", "\n", "a", " a", "a ", "  a  b  ", "aaaa" * 50, "1234567890" * 9]
    out += WORDS + SPACES + [" " + w for w in WORDS] + [w + "\n" for w in WORDS]
    out += [sentence(rng, n) for n in range(1, 40) for _ in range(10)]
    for _ in range(200):
        codes = [rng.choice([rng.randrange(0x20, 0x7f), rng.randrange(0xa0, 0x600),
                             rng.randrange(0x4e00, 0x9fff), rng.randrange(0x1f300, 0x1f600)])
                 for _ in range(rng.randrange(1, 30))]
        out.append("".join(map(chr, codes)))
    return out


def corpus():
    rng = random.Random(3)
    words = [w for w in WORDS if w not in SPECIAL]
    return [sentence(rng, 60, words) for _ in range(300)]


def train(model, normalizer=None, pre_tokenizer=None, decoder=None, special=(), added=(),
          **trainer):
    t = Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    if pre_tokenizer:
        t.pre_tokenizer = pre_tokenizer
    if decoder:
        t.decoder = decoder
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=VOCAB, show_progress=False,
        special_tokens=list(special), **trainer))
    if added:
        t.add_tokens(list(added))
    return t


def byte_level(**kw):
    return pre.ByteLevel(add_prefix_space=kw.get("prefix", False),
                         use_regex=kw.get("regex", True))


def byte_pair(pre_tokenizer, normalizer=None, alphabet=True, added=(), **model):
    return train(models.BPE(**model), normalizer, pre_tokenizer, decoders.ByteLevel(),
                 ["<|endoftext|>"], added,
                 initial_alphabet=pre.ByteLevel.alphabet() if alphabet else [])


BYTE_TOKENS = [f"<0x{b:02X}>" for b in range(256)]
BLANK_DECODER = decoders.Sequence([decoders.Replace(BLANK, " "), decoders.ByteFallback(),
                                   decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def in_words():
    """Learns words that begin with their blank, so that no merge goes from one to the next."""
    return pre.Metaspace(replacement=BLANK, prepend_scheme="never")


def pieces(normalizer, pre_tokenizer, added=(), fallback=True, learn=None, **model):
    """Sentencepiece's BPE as it is converted: learnt on words, run on whole texts."""
    t = train(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=fallback, **model),
              normalizer, learn or in_words(), BLANK_DECODER, ["<unk>", "<s>", "</s>"] +
              (BYTE_TOKENS if fallback else []), (), limit_alphabet=60)
    if added:
        t.add_tokens(list(added))
    t.pre_tokenizer = pre_tokenizer or pre.Sequence([])
    if pre_tokenizer is None:
        import json
        j = json.loads(t.to_str())
        j["pre_tokenizer"] = None
        t = Tokenizer.from_str(json.dumps(j))
    return t


def special_bytes(t):
    """As in published files: the tokens of bytes are of the vocabulary alone."""
    import json
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(j))


def llama2():
    return special_bytes(pieces(
        normalizers.Sequence([normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)]), None))


def mistral():
    return special_bytes(pieces(None, pre.Metaspace(BLANK, prepend_scheme="first", split=False)))


def gemma():
    added = ["\n\n", "\n\n\n", BLANK * 2, BLANK * 4, "<b>", "</b>"]
    return special_bytes(pieces(
        normalizers.Replace(" ", BLANK), pre.Split(" ", "merged_with_previous"),
        [AddedToken(a, normalized=False) for a in added]))


KINDS = {
    "gpt2": lambda: byte_pair(byte_level()),
    "gpt2-prefix": lambda: byte_pair(byte_level(prefix=True)),
    "llama3": lambda: byte_pair(pre.Sequence(
        [pre.Split(Regex(LLAMA3), "isolated"), byte_level(regex=False)]), ignore_merges=True),
    "qwen2": lambda: byte_pair(pre.Sequence(
        [pre.Split(Regex(QWEN2), "isolated"), byte_level(regex=False)]), normalizers.NFC()),
    "gpt4o": lambda: byte_pair(pre.Sequence(
        [pre.Split(Regex(GPT4O), "removed", invert=True), byte_level(regex=False)])),
    "starcoder": lambda: byte_pair(pre.Sequence(
        [pre.Digits(individual_digits=True), byte_level()]), alphabet=False),
    "neox-spaces": lambda: byte_pair(byte_level(), normalizers.NFC(), added=[
        AddedToken(" " * n, normalized=True) for n in (2, 3, 4)] + [
        AddedToken("<b>", lstrip=True, rstrip=True, normalized=False),
        AddedToken("warp", single_word=True, normalized=False)]),
    "deepseek-splits": lambda: byte_pair(pre.Sequence(
        [pre.Split(Regex(r"[\r\n]"), "isolated"), pre.Split(Regex(r"\s?\p{L}+"), "isolated"),
         pre.Split(Regex(r"\s?\p{P}+"), "isolated"), pre.Split(Regex(r"\s+$"), "isolated"),
         pre.Digits(individual_digits=False), byte_level(regex=False)])),
    "behaviors": lambda: byte_pair(pre.Sequence(
        [pre.Split(Regex(r"[.!?]"), "merged_with_previous"),
         pre.Split(Regex(r"\("), "merged_with_next"), pre.Split("-", "contiguous"),
         pre.Split(Regex(r"\w+\s"), "isolated", invert=True), byte_level(regex=False)]),
        normalizers.Sequence([normalizers.NFKD(), normalizers.Strip(),
                              normalizers.Replace(Regex(r"\p{Mn}"), "")])),
    "llama2": llama2,
    "mistral": mistral,
    "gemma": gemma,
    "metaspace-words": lambda: pieces(
        normalizers.NFKC(), pre.Sequence([pre.Digits(individual_digits=True),
                                          pre.Metaspace(BLANK, prepend_scheme="always")]),
        fallback=False),
    "crossing-merges": lambda: special_bytes(pieces(
        normalizers.Replace(" ", BLANK), None,
        learn=pre.Split(Regex("[.\n]"), "isolated"))),
}
