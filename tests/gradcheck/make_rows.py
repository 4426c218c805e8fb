# SPDX-License-Identifier: MIT
"""Prints the table of test_rows.c: loss and gradients of a small T5 and ViT as Hugging Face's
classes compute them in float64. Needs torch and transformers (made with 2.15.0 and 5.23.0)."""
import torch
from transformers import (T5Config, T5ForConditionalGeneration, ViTConfig,
                          ViTForImageClassification)

from golden import fill, print_row

torch.set_default_dtype(torch.float64)
V, LE, LD, C, H, D, F, B, TS, TD = 53, 2, 1, 24, 3, 10, 40, 3, 37, 29
I, P, CH = 8, 4, 3


def t5(tied):
    model = T5ForConditionalGeneration(T5Config(
        vocab_size=V, d_model=C, d_kv=D, d_ff=F, num_layers=LE, num_decoder_layers=LD,
        num_heads=H, relative_attention_num_buckets=12, relative_attention_max_distance=30,
        dropout_rate=0.0, feed_forward_proj="gated-gelu", tie_word_embeddings=tied,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0))
    if not tied:  # newer classes tie it in any case
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    table = "{}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"

    def attention(kind, layer):
        return [f"layer.{layer}.{kind}.{x}.weight" for x in "qkvo"]

    def block(last):
        return (["layer.0.layer_norm.weight"] + attention("SelfAttention", 0) +
                [f"layer.{last}.layer_norm.weight"] +
                [f"layer.{last}.DenseReluDense.{x}.weight" for x in ("wi_0", "wi_1", "wo")])
    units = [["shared.weight", table.format("encoder"), table.format("decoder")]]
    units += [[f"encoder.block.{i}.{n}" for n in block(1)] for i in range(LE)]
    units[-1].append("encoder.final_layer_norm.weight")
    cross = ["layer.1.layer_norm.weight"] + attention("EncDecAttention", 1)
    units += [[f"decoder.block.{i}.{n}" for n in block(2) + cross] for i in range(LD)]
    head = ["decoder.final_layer_norm.weight"] + ([] if tied else ["lm_head.weight"])
    return model, units + [head]


def vit():
    model = ViTForImageClassification(ViTConfig(
        image_size=I, patch_size=P, num_channels=CH, hidden_size=C, num_hidden_layers=LE,
        num_attention_heads=H, intermediate_size=F, num_labels=V, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, layer_norm_eps=1e-6))
    names = ["layernorm_before.weight"]
    parts = [f"attention.attention.{x}" for x in ("query", "key", "value")]
    parts += ["attention.output.dense"]
    names += [f"{x}.weight" for x in parts] + ["layernorm_after.weight"]
    names += ["intermediate.dense.weight", "output.dense.weight"]
    names += [f"{x}.bias" for x in parts + ["intermediate.dense", "output.dense",
                                            "layernorm_before", "layernorm_after"]]
    e = "vit.embeddings."
    units = [[e + "cls_token", e + "position_embeddings",
              e + "patch_embeddings.projection.weight", e + "patch_embeddings.projection.bias"]]
    units += [[f"vit.encoder.layer.{i}.{n}" for n in names] for i in range(LE)]
    return model, units + [["vit.layernorm.weight", "vit.layernorm.bias", "classifier.weight",
                            "classifier.bias"]]


def file_names(model):
    """Parameters by the names that they have in files, whatever the class calls them."""
    state, by_place = model.state_dict(), {p.data_ptr(): p for p in model.parameters()}
    renamed = {}
    if isinstance(model, ViTForImageClassification):
        import os
        import tempfile
        from safetensors.torch import load_file
        for n, (_, p) in enumerate(model.named_parameters()):
            p.data.fill_(n + 1)
        with tempfile.TemporaryDirectory() as folder:
            model.float().save_pretrained(folder)
            model.double()
            saved = load_file(os.path.join(folder, "model.safetensors"))
        parameters = list(model.parameters())
        return {name: parameters[int(t.flatten()[0]) - 1] for name, t in saved.items()}
    for name, tensor in state.items():
        renamed[name] = by_place[tensor.data_ptr()]
    return renamed


def rows(kind):
    if kind == "vit":
        pixels = [(n * n * 7 + n * 3 + 5) % 256 for n in range(B * CH * I * I)]
        pixels = torch.tensor(pixels).reshape(B, CH, I, I) / 255 * 2 - 1
        return dict(pixel_values=pixels), torch.tensor([(n * n + n * 5 + 2) % V
                                                        for n in range(B)])
    tokens = torch.tensor([(n * n * 7 + n * 3 + 5) % V for n in range(B * (TS + TD))])
    tokens = tokens.reshape(B, TS + TD)
    mask = torch.ones(B, TS)
    mask[1, TS - 9:] = 0
    targets = torch.tensor([(n * n + n * 5 + 2) % V for n in range(B * TD)])
    targets[2] = -100
    return dict(input_ids=tokens[:, :TS], attention_mask=mask,
                decoder_input_ids=tokens[:, TS:]), targets


def row(kind, tied):
    model, units = t5(tied) if kind == "t5" else vit()
    model = model.double().train()
    parameters = file_names(model)
    fill(parameters, units)
    inputs, targets = rows(kind)
    logits = model(**inputs).logits.reshape(-1, V)
    print_row(f'"{kind}", {str(tied).lower()}', parameters, units, logits, targets)


for each in [("t5", False), ("t5", True), ("vit", False)]:
    row(*each)
