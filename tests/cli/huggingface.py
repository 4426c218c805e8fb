# SPDX-License-Identifier: MIT
"""Models as transformers writes them today: weft's loss of a text is that of transformers, and
after a step that changes nothing transformers reads the same tensors and the same loss from what
weft wrote. Usage: huggingface.py PROGRAM. Exit code 77 without transformers: nothing was tested."""
import glob
import re
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}; pip install torch transformers, and WEFT_PYTHON says which Python has them")
    sys.exit(77)

T = 32
SIZES = dict(vocab_size=256, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=T, initializer_range=0.2, pad_token_id=None,
             bos_token_id=None, eos_token_id=None)
MODELS = [
    ("gpt2", dict(n_embd=32, n_layer=4, n_head=4, n_positions=T, n_inner=48)), ("llama", {}),
    ("mistral", dict(sliding_window=7)), ("qwen2", {}), ("qwen3", dict(head_dim=8)), ("olmo2", {}),
    ("olmo3", dict(sliding_window=8)), ("gemma", dict(head_dim=16)), ("gemma2", dict(head_dim=16, sliding_window=8)),
    ("gemma3_text", dict(head_dim=16, sliding_window=8)), ("phi3", {}), ("gpt_neox", {}),
    ("opt", dict(ffn_dim=48, word_embed_proj_dim=32)), ("seed_oss", dict(head_dim=16)),
    ("smollm3", {}), ("smollm3", dict(no_rope_layers=[1, 0, 1, 0], tie_word_embeddings=False)),
    ("starcoder2", {}), ("starcoder2", dict(sliding_window=9, tie_word_embeddings=False)),
    ("ernie4_5", dict(head_dim=8)), ("ernie4_5", dict(head_dim=16, tie_word_embeddings=False)),
    ("helium", dict(head_dim=8)), ("granite", {}),
    ("granite", dict(embedding_multiplier=3.0, attention_multiplier=0.4, residual_multiplier=0.3, logits_scaling=0.7)),
    ("olmo", {}), ("olmo", dict(attention_bias=True, tie_word_embeddings=True)), ("arcee", {}),
    ("arcee", dict(attention_bias=True, mlp_bias=True)),
    ("t5", {}), ("t5", dict(num_decoder_layers=3, d_kv=16, tie_word_embeddings=False)),
]
# Of pairs: the ids after the 256 bytes are the start and the end of a target.
START, END = 256, 257
T5 = dict(vocab_size=258, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu",
          initializer_factor=0.5, dropout_rate=0.0, pad_token_id=START, decoder_start_token_id=START, eos_token_id=END)
REFUSED = [("olmo", dict(clip_qkv=8.0), "clip_qkv is set"), ("arcee", dict(hidden_act="silu"), 'hidden_act is "silu"'),
           ("granite", dict(hidden_act="gelu"), 'hidden_act is "gelu"')]


def class_of(kind):
    return transformers.AutoModelForSeq2SeqLM if kind == "t5" else transformers.AutoModelForCausalLM


def make(kind, more, folder):
    config = transformers.AutoConfig.for_model(kind, **{**(T5 if kind == "t5" else SIZES), **more})
    model = class_of(kind).from_config(config).float()
    if kind == "t5" and "tie_word_embeddings" in more:  # a new one has one matrix all the same, as read ones have not
        model.lm_head.weight = torch.nn.Parameter(torch.randn(T5["vocab_size"], T5["d_model"]) * 0.2)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder)


def loss_of(folder, text):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).float().eval()
    rows = torch.tensor(list(text[:(len(text) - 1) // T * T])).reshape(-1, T)
    targets = torch.tensor(list(text[1:rows.numel() + 1]))
    with torch.no_grad():
        logits = model(rows).logits.double().reshape(-1, SIZES["vocab_size"])
    return float(torch.nn.functional.cross_entropy(logits, targets))


def loss_of_pairs(folder, pairs):
    """Nats per target, the end of each target among them."""
    model = class_of("t5").from_pretrained(folder).float().eval()
    total = n = 0
    with torch.no_grad():
        for source, target in pairs:
            targets = torch.tensor([*target, END])
            begun = torch.tensor([[START, *target]])
            logits = model(input_ids=torch.tensor([[*source, END]]), decoder_input_ids=begun).logits.double()[0]
            total += float(torch.nn.functional.cross_entropy(logits, targets, reduction="sum"))
            n += len(targets)
    return total / n


def train(weft, folder, text, out):
    return subprocess.run(
        [weft, "train", "--init", folder, f"data.path={text}", "data.tokenizer=bytes", f"data.length={T}",
         "batch.tokens_per_step=64", "mesh.threads=1", "optimizer.lr=0", "run.steps=1", "schedule.warmup=1",
         "--quiet", "--folder", out], capture_output=True, text=True)


def main(weft):
    torch.manual_seed(1)
    failed = False
    with tempfile.TemporaryDirectory() as room:
        text = bytes(torch.randint(97, 123, (2048,)).tolist())
        pairs = [(text[i:i + 12], text[i + 12:i + 17 + i % 13]) for i in range(0, 1920, 30)]
        with open(f"{room}/text.txt", "wb") as file:
            file.write(text)
        with open(f"{room}/pairs.tsv", "wb") as file:
            file.write(b"".join(b"%s\t%s\n" % pair for pair in pairs))
        for i, (kind, more) in enumerate(MODELS):
            given, run = f"{room}/{i}", f"{room}/run-{i}"
            make(kind, more, given)
            data = f"{room}/pairs.tsv" if kind == "t5" else f"{room}/text.txt"
            done = train(weft, given, data, run)
            said = subprocess.run([weft, "eval", run, "--data", data], capture_output=True, text=True)
            found = re.match(r"loss ([\d.]+)", said.stdout)
            if done.returncode or not found:
                print(kind, more, done.stderr, said.stderr)
                failed = True
                continue
            written = glob.glob(f"{run}/checkpoints/step-*")[0]
            before, after = load_file(f"{given}/model.safetensors"), load_file(f"{written}/model.safetensors")
            same = before.keys() == after.keys() and all(torch.equal(before[n], after[n]) for n in before)
            theirs = [loss_of_pairs(f, pairs) if kind == "t5" else loss_of(f, text) for f in (given, written)]
            losses = [float(found[1]), *theirs]
            good = same and max(losses) - min(losses) < 1e-4  # weft prints four digits
            print("ok  " if good else "FAIL", kind, more, *losses, "" if same else "other tensors")
            failed |= not good
        for kind, more, what in REFUSED:
            make(kind, more, f"{room}/{kind}")
            done = train(weft, f"{room}/{kind}", f"{room}/text.txt", f"{room}/run-{kind}")
            good = done.returncode == 2 and what in done.stderr
            print("ok  " if good else "FAIL", kind, done.stderr.strip())
            failed |= not good
    return failed


transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
sys.exit(main(sys.argv[1]))
