# SPDX-License-Identifier: MIT
"""FSDP2 under weft, two nodes of two shards, is weft's own program on two nodes of two shards: the
same llama from the same initial values on the same text, to rounding.

Both see the whole text in each step, so the order of its windows does not count. Where a method
depends on which node has which windows, all windows are the same."""

import json
import os
import pathlib
import struct
import subprocess

import pytest
import torch
from models import start_gloo
from ranks import run
from torch import nn
from torch.nn import functional as F

import weft_sync.torch as weft
from weft_sync._library import _candidates

fully_shard = pytest.importorskip("torch.distributed.fsdp").fully_shard

VOCAB, WIDTH, LAYERS, HEADS, FFN, LENGTH, ROWS, STEPS = 256, 48, 2, 4, 72, 16, 8, 12
PROGRAM = pathlib.Path(os.environ.get("WEFT_PROGRAM") or
                       pathlib.Path(_candidates()[0]).resolve().parent / "weft")


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


def turned(x):
    """Rotary positions: of a head's columns the first half is turned with the second."""
    half = x.shape[-1] // 2
    angle = torch.arange(LENGTH)[:, None] * 10000.0 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        for name in "qkvo":
            setattr(self, f"{name}_proj", nn.Linear(WIDTH, WIDTH, bias=False))

    def forward(self, x):
        q, k, v = (f(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2)
                   for f in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(x.shape))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(WIDTH, FFN, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(FFN, WIDTH, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()
        self.self_attn, self.mlp = Attention(), Gated()

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Names are those of weft's checkpoints, which are Hugging Face's."""

    def __init__(self):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(VOCAB, WIDTH)
        self.model.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.model.norm = Norm()
        self.lm_head = nn.Linear(WIDTH, VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.1)

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            x = block(x)
        return self.lm_head(self.model.norm(x))


def llama():
    torch.manual_seed(3)
    return Llama()


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB,
          "hidden_size": WIDTH, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "hidden_act": "silu",
          "max_position_embeddings": LENGTH, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "tie_word_embeddings": False}


# --- files of safetensors: a head of JSON, then numbers ---


def write_tensors(path, tensors):
    head, at, parts = {}, 0, []
    for name, tensor in tensors.items():
        parts.append(tensor.detach().contiguous().numpy().tobytes())
        head[name] = {"dtype": "F32", "shape": list(tensor.shape),
                      "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_tensors(path):
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + length])
    head.pop("__metadata__", None)
    return {name: torch.frombuffer(bytearray(data[8 + length:][slice(*about["data_offsets"])]),
                                   dtype=torch.float32).view(about["shape"])
            for name, about in head.items()}


# --- the two runs ---


def text_of(same):
    """ROWS windows and the byte that follows the last."""
    line = b"a window again. " if same else b"the quick brown fox jumps over the lazy dog; "
    return (line * ROWS * LENGTH)[:ROWS * LENGTH + 1]


def weft_itself(folder, text, keys):
    """Losses, and the parameters after the last step."""
    (folder / "init").mkdir()
    write_tensors(folder / "init" / "model.safetensors", llama().state_dict())
    (folder / "init" / "config.json").write_text(json.dumps(CONFIG))
    (folder / "text").write_bytes(text)
    run_keys = {"data.path": folder / "text", "data.validation": 0, "data.length": LENGTH,
                "batch.rows_per_step": ROWS, "mesh.nodes": 2, "mesh.ranks_per_node": 2,
                "mesh.threads": 1, "run.steps": STEPS, "run.folder": folder / "run",
                "schedule.kind": "constant", "schedule.warmup": 0, **keys}
    subprocess.run([PROGRAM, "train", "--quiet", "--init", folder / "init",
                    *(f"{key}={value}" for key, value in run_keys.items())], check=True)
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [told["loss"] for told in map(json.loads, lines) if "loss" in told]
    last = folder / "run" / "checkpoints" / f"step-{STEPS:08}" / "model.safetensors"
    return losses, read_tensors(last)


def fsdp(text, keys, wanted):
    """The same on rank r of four: windows 2 r and 2 r + 1. Losses; and by tensor, how far it has
    moved and how far it is from what is wanted."""
    rank = start_gloo()
    mesh = weft.device_mesh("cpu", 2)
    model = llama()
    for block in model.model.layers:
        fully_shard(block, mesh=mesh["shard"])
    fully_shard(model, mesh=mesh["shard"])
    keys = dict(keys)
    decay = float(keys.pop("optimizer.weight_decay"))
    matrices = [(n, p) for n, p in model.named_parameters() if p.dim() > 1]
    vectors = [(n, p) for n, p in model.named_parameters() if p.dim() == 1]
    opt = weft.Optimizer([{"params": matrices}, {"params": vectors, "weight_decay": 0.0}],
                         method=keys.pop("method"), lr=keys.pop("optimizer.lr"),
                         weight_decay=decay, keys=keys)
    windows = torch.tensor(list(text[:-1])).view(ROWS, LENGTH)[2 * rank:2 * rank + 2]
    targets = torch.tensor(list(text[1:])).view(ROWS, LENGTH)[2 * rank:2 * rank + 2]
    losses = []
    for _ in range(STEPS):
        loss = F.cross_entropy(model(windows).flatten(0, 1), targets.flatten())
        loss.backward()
        losses.append(opt.step(loss.detach()).loss)
    begun, apart = llama().state_dict(), {}
    for name, p in model.named_parameters():
        found = p.full_tensor().detach()
        apart[name] = [(found - other[name]).abs().max().item() for other in (begun, wanted)]
    return losses, apart


ADAMW = {"optimizer.lr": 2e-3, "optimizer.weight_decay": 0.1, "optimizer.clip": 0}
SGD = {"optimizer.lr": 2e-2, "optimizer.weight_decay": 0.1, "optimizer.clip": 0}


@pytest.mark.parametrize("method,same,more", [
    ("hsdp", False, ADAMW), ("hsdp", False, {**ADAMW, "optimizer.clip": 0.5}),
    ("flexdemo", True, {**SGD, "replicator.sign": "false"})])
def test_two_nodes_of_two_shards_are_wefts_own(method, same, more, tmp_path):
    if not PROGRAM.is_file():
        pytest.skip(f"{PROGRAM} is not there: expected weft's program beside libweft, or its path "
                    "in WEFT_PROGRAM")
    text, keys = text_of(same), {"method": method, **more}
    wanted, parameters = weft_itself(tmp_path, text, keys)
    for losses, apart in run(fsdp, 4, text, keys, parameters):
        assert torch.allclose(torch.tensor(losses), torch.tensor(wanted), rtol=1e-5, atol=1e-5)
        for name, (moved, off) in apart.items():
            assert moved > 1e-4 and off < 5e-3 * moved, (name, moved, off)
