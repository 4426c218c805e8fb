# SPDX-License-Identifier: MIT
"""Prints the table of test_huggingface.c: loss and gradients of small models as Hugging
Face's classes compute them in float64. Needs torch and transformers (made with 2.4.1 and
4.51.3, and again with 2.15.0 and 5.24.0)."""
import torch
from transformers import (ArceeConfig, ArceeForCausalLM, GemmaConfig, GemmaForCausalLM, GPT2Config, GPT2LMHeadModel,
                          GraniteConfig, GraniteForCausalLM, LlamaConfig, LlamaForCausalLM, Olmo2Config,
                          Olmo2ForCausalLM, OlmoConfig, OlmoForCausalLM, SeedOssConfig, SeedOssForCausalLM,
                          SmolLM3Config, SmolLM3ForCausalLM, Starcoder2Config, Starcoder2ForCausalLM)

from golden import fill, print_row

torch.set_default_dtype(torch.float64)
V, CONTEXT, L, C, H, F, B, T = 53, 16, 2, 24, 4, 40, 3, 13


def gpt2(tied):
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=V, n_positions=CONTEXT, n_embd=C, n_layer=L, n_head=H, n_inner=F,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, tie_word_embeddings=tied,
        bos_token_id=None, eos_token_id=None))
    block = ["ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias",
             "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight", "ln_2.bias",
             "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"]
    units = [["transformer.wte.weight", "transformer.wpe.weight"]]
    units += [[f"transformer.h.{i}.{name}" for name in block] for i in range(L)]
    head = ["transformer.ln_f.weight", "transformer.ln_f.bias"]
    return model, units + [head + ([] if tied else ["lm_head.weight"])]


def llama(kind, kv_heads, tied):
    config, model, norms = {
        "llama": (LlamaConfig, LlamaForCausalLM,
                  ["input_layernorm", "post_attention_layernorm"]),
        "gemma": (GemmaConfig, GemmaForCausalLM,
                  ["input_layernorm", "post_attention_layernorm"]),
        "seed_oss": (SeedOssConfig, SeedOssForCausalLM,
                     ["input_layernorm", "post_attention_layernorm"]),
        "smollm3": (SmolLM3Config, SmolLM3ForCausalLM,
                    ["input_layernorm", "post_attention_layernorm"]),
        "starcoder2": (Starcoder2Config, Starcoder2ForCausalLM,
                       ["input_layernorm", "post_attention_layernorm"]),
        "granite": (GraniteConfig, GraniteForCausalLM,
                    ["input_layernorm", "post_attention_layernorm"]),
        "olmo": (OlmoConfig, OlmoForCausalLM, []),
        "arcee": (ArceeConfig, ArceeForCausalLM,
                  ["input_layernorm", "post_attention_layernorm"]),
        "olmo2": (Olmo2Config, Olmo2ForCausalLM,
                  ["post_attention_layernorm", "post_feedforward_layernorm"])}[kind]
    model = model(config(
        vocab_size=V, hidden_size=C, intermediate_size=F, num_hidden_layers=L,
        num_attention_heads=H, num_key_value_heads=kv_heads,
        max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, rope_theta=1000.0,
        head_dim=C // H, attention_dropout=0,
        **{"seed_oss": {"residual_dropout": 0}, "smollm3": {"no_rope_layers": [1, 0]},
           "granite": {"embedding_multiplier": 3.0, "attention_multiplier": 0.4,
                       "residual_multiplier": 0.3, "logits_scaling": 0.7}}.get(kind, {}),
        tie_word_embeddings=tied, pad_token_id=None, bos_token_id=None, eos_token_id=None))
    block = norms[:1] + [f"self_attn.{x}_proj" for x in "qkvo"]
    star = kind == "starcoder2"
    block += norms[1:] + (["mlp.c_fc", "mlp.c_proj"] if star else
                          [f"mlp.{x}_proj" for x in ("gate", "up", "down")[kind == "arcee":]])
    block += ["self_attn.q_norm", "self_attn.k_norm"] if kind == "olmo2" else []
    units = [["model.embed_tokens.weight"]]
    biases = [f"self_attn.{x}_proj.bias" for x in "qkv"] if kind == "seed_oss" else []
    if star:
        biases = [f"self_attn.{x}_proj.bias" for x in "qkvo"] + [f"{n}.bias" for n in ("mlp.c_fc", "mlp.c_proj", *norms)]
    units += [[f"model.layers.{i}.{name}" for name in [f"{n}.weight" for n in block] + biases]
              for i in range(L)]
    return model, units + [(["model.norm.weight"] if norms else []) + (["model.norm.bias"] if star else []) +
                           ([] if tied else ["lm_head.weight"])]


def row(kind, tied, kv_heads):
    model, units = gpt2(tied) if kind == "gpt2" else llama(kind, kv_heads, tied)
    model = model.double().train()
    parameters = dict(model.named_parameters())
    fill(parameters, units, 0 if kind == "gemma" else 1)
    tokens = torch.tensor([(n * n * 7 + n * 3 + 5) % V for n in range(B * T)])
    targets = torch.tensor([(n * n + n * 5 + 2) % V for n in range(B * T)])
    targets[2] = -100
    logits = model(tokens.reshape(B, T)).logits.reshape(B * T, V)
    print_row(f'"{kind}", {str(tied).lower()}, {kv_heads}', parameters, units, logits, targets)


for each in [("gpt2", True, 4), ("gpt2", False, 4), ("llama", True, 2),
             ("llama", False, 4), ("olmo2", True, 1), ("olmo2", False, 4), ("gemma", True, 1), ("seed_oss", False, 2),
             ("smollm3", True, 2), ("starcoder2", False, 2), ("granite", True, 2), ("granite", False, 4),
             ("olmo", True, 2), ("olmo", False, 4), ("arcee", True, 2)]:
    row(*each)
