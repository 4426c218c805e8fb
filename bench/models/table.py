# SPDX-License-Identifier: MIT
"""Models of Hugging Face's classes, tiny and random, through weft and back:

    table.py WEFT [NAME...]

For each architecture: weft evaluates the folder that transformers saved (as f32, in several
files, as f16 and bf16), and its loss is compared with torch's on the same windows; weft
saves the model (a run with learning rate 0), transformers loads it again, and every tensor
and the logits are compared. Needs torch and transformers. Exit code 1 if a row fails."""
import json
import math
import os
import subprocess
import sys
import tempfile

import torch
import transformers as hf

V, C, L, H, T = 256, 48, 6, 4, 40
LOSS, TEXT_BYTES = 1e-5, 2400


def llama(**more):
    return hf.LlamaForCausalLM, hf.LlamaConfig(**like_llama(num_key_value_heads=2, **more))


def like_llama(**more):
    base = dict(vocab_size=V, hidden_size=C, intermediate_size=72, num_hidden_layers=L,
                num_attention_heads=H, num_key_value_heads=H, max_position_embeddings=64,
                bos_token_id=None, eos_token_id=None, pad_token_id=None)
    return {**base, **more}


def rope(kind, **more):
    return {"rope_type": kind, "rope_theta": 500.0, **more}


def gqa(**more):
    return like_llama(num_key_value_heads=2, **more)


MODELS = {
    "gpt2": lambda: (hf.GPT2LMHeadModel, hf.GPT2Config(
        vocab_size=V, n_embd=C, n_layer=L, n_head=H, n_positions=64, bos_token_id=None,
        eos_token_id=None)),
    "gpt2 untied": lambda: (hf.GPT2LMHeadModel, hf.GPT2Config(
        vocab_size=V, n_embd=C, n_layer=L, n_head=H, n_positions=64, n_inner=80,
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)),
    "llama 2": lambda: llama(),
    "llama 3.1 (llama3 rope)": lambda: llama(rope_parameters=rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32)),
    "llama linear rope": lambda: llama(rope_parameters=rope("linear", factor=2.5)),
    "llama yarn rope": lambda: llama(rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=16)),
    "llama biases": lambda: llama(attention_bias=True, mlp_bias=True),
    "smollm (tied, 3 kv)": lambda: (hf.LlamaForCausalLM, hf.LlamaConfig(**like_llama(
        hidden_size=54, num_attention_heads=9, num_key_value_heads=3,
        tie_word_embeddings=True))),
    "tinyllama (wide heads)": lambda: llama(head_dim=20),
    "mistral": lambda: (hf.MistralForCausalLM, hf.MistralConfig(
        **gqa(sliding_window=7, head_dim=16))),
    "mistral no window": lambda: (hf.MistralForCausalLM, hf.MistralConfig(
        **gqa(sliding_window=None))),
    "qwen2": lambda: (hf.Qwen2ForCausalLM, hf.Qwen2Config(**gqa())),
    "qwen2.5 (window)": lambda: (hf.Qwen2ForCausalLM, hf.Qwen2Config(
        **gqa(use_sliding_window=True, sliding_window=9, max_window_layers=0,
              rope_parameters=rope("yarn", factor=2.0,
                                   original_max_position_embeddings=32)))),
    "qwen3": lambda: (hf.Qwen3ForCausalLM, hf.Qwen3Config(**gqa(head_dim=16))),
    "olmo2": lambda: (hf.Olmo2ForCausalLM, hf.Olmo2Config(**gqa())),
    "olmo3": lambda: (hf.Olmo3ForCausalLM, hf.Olmo3Config(**gqa(sliding_window=6))),
    "olmo3 (yarn)": lambda: (hf.Olmo3ForCausalLM, hf.Olmo3Config(**gqa(
        sliding_window=6, rope_parameters={
            "full_attention": rope("yarn", factor=3.0, original_max_position_embeddings=16),
            "sliding_attention": rope("default")}))),
    "gemma2": lambda: (hf.Gemma2ForCausalLM, hf.Gemma2Config(
        **gqa(head_dim=16, sliding_window=6, query_pre_attn_scalar=20,
              attn_logit_softcapping=0.05, final_logit_softcapping=0.1,
              attn_implementation="eager"))),
    "gemma3": lambda: (hf.Gemma3ForCausalLM, hf.Gemma3TextConfig(
        **gqa(head_dim=16, sliding_window=6, query_pre_attn_scalar=16,
              rope_parameters={"full_attention": rope("linear", factor=8.0),
                               "sliding_attention": {"rope_type": "default",
                                                     "rope_theta": 100.0}}))),
    "phi3": lambda: (hf.Phi3ForCausalLM, hf.Phi3Config(**gqa(sliding_window=11))),
    "phi3 (part of a head)": lambda: (hf.Phi3ForCausalLM, hf.Phi3Config(
        **gqa(rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                               "partial_rotary_factor": 0.5}))),
    "gpt-neox (pythia)": lambda: (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(
        **neox(rope_parameters={"rope_type": "default", "rope_theta": 900.0,
                                "partial_rotary_factor": 0.5}))),
    "gpt-neox no bias": lambda: (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(
        **neox(attention_bias=False))),
    "opt": lambda: (hf.OPTForCausalLM, hf.OPTConfig(
        vocab_size=V, hidden_size=C, ffn_dim=72, num_hidden_layers=L,
        num_attention_heads=H, max_position_embeddings=64, word_embed_proj_dim=C,
        bos_token_id=None, eos_token_id=None, pad_token_id=1)),
}


def neox(**more):
    kept = like_llama(**more)
    kept.pop("num_key_value_heads")
    kept["hidden_size"] = 64
    return kept


def make(name):
    """A model whose parameters, gains and biases too, are far from where they begin."""
    torch.manual_seed(sum(map(ord, name)))
    architecture, config = MODELS[name]()
    model = architecture(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.15 if p.dim() > 1 else 0.3))
    return architecture, model


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().split("\n")[-1])
    return done.stdout


def windows(text):
    ids = torch.tensor(list(text))
    rows = (len(ids) - 1) // T
    return ids[:rows * T].reshape(rows, T), ids[1:rows * T + 1].reshape(rows, T)


def torch_loss(model, text):
    x, y = windows(text)
    with torch.no_grad():
        logits = model(x).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(),
                                             y.flatten()).item(), logits


def weft_loss(weft, folder, path):
    return json.loads(run(weft, "eval", folder, "--data", path, "--length", str(T),
                          "--json"))["loss"]


def newest(folder):
    checkpoints = os.path.join(folder, "checkpoints")
    return os.path.join(checkpoints, sorted(os.listdir(checkpoints))[-1])


def check(weft, name, path, text):
    architecture, model = make(name)
    found = {}
    expected, logits = torch_loss(model, text)
    model.save_pretrained("f32")
    found["loads"] = abs(weft_loss(weft, "f32", path) - expected)
    model.save_pretrained("parts", max_shard_size="60kB")
    assert os.path.exists("parts/model.safetensors.index.json")
    found["parts"] = abs(weft_loss(weft, "parts", path) - expected)
    for short, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        architecture.from_pretrained("f32", dtype=dtype).save_pretrained(short)
        rounded, _ = torch_loss(architecture.from_pretrained(short, dtype=torch.float32)
                                .eval(), text)
        found[short] = abs(weft_loss(weft, short, path) - rounded)
    run(weft, "train", "--init", "f32", "data.path=" + path, f"data.length={T}",
        f"batch.tokens_per_step={2 * T}", "run.steps=1", "optimizer.lr=0", "--quiet",
        "mesh.ranks_per_node=2", "optimizer.weight_decay=0", "run.folder=run")
    again, report = architecture.from_pretrained(newest("run"), output_loading_info=True)
    if report["missing_keys"] or report["unexpected_keys"]:
        raise RuntimeError(f"reloaded: {report['missing_keys']} {report['unexpected_keys']}")
    before, after = model.state_dict(), again.state_dict()
    moved = [k for k in before if not torch.equal(before[k], after[k])]
    if moved or before.keys() != after.keys():
        raise RuntimeError(f"changed: {moved[:3]}")
    found["reloads"] = (torch_loss(again.eval(), text)[1] - logits).abs().max().item()
    return found


def main():
    weft, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(MODELS)
    hf.utils.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    columns = ["loads", "parts", "f16", "bf16", "reloads"]
    print(f"| {'model':25} | " + " | ".join(f"{c:7}" for c in columns) + " |")
    print("|" + "-" * 27 + "|---------" * len(columns) + "|")
    # letters and signs of ASCII: bytes of all values are no text, and weft refuses them
    text = bytes(32 + (i * i * 7 + i // 11 * 13 + i % 29) % 95 for i in range(TEXT_BYTES))
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            path = os.path.join(folder, "text.txt")
            with open(path, "wb") as file:
                file.write(text)
            try:
                found = check(weft, name, path, text)
                worst = max(found.values())
                cells = [f"{found[c]:.1e}" for c in columns]
                failed += not worst <= LOSS or math.isnan(worst)
            except (RuntimeError, AssertionError) as error:
                cells = [f"{error}"]
                failed += 1
            print(f"| {name:25} | " + " | ".join(f"{c:7}" for c in cells) + " |", flush=True)
            os.chdir("/")
    print(f"{len(names) - failed} of {len(names)} models, differences at most {LOSS:g}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
