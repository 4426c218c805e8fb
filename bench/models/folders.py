# SPDX-License-Identifier: MIT
"""Folders as people have them from the Hub, tiny and random, through weft's commands:

    folders.py WEFT [NAME...]

Each folder has the config.json of a published model, key by key (with small sizes), its tensors
under the names and types of the published files, and what lies beside them: files of other
formats, generation_config.json, index and shards, buffers that old versions wrote. weft
evaluates it (the loss is compared with torch's on the same ids), says what a run would need,
trains three steps from it, verifies, samples from and evaluates what it saved; transformers
loads that. Needs torch, transformers and tokenizers. Exit code 1 if a folder fails."""
import copy
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers as hf
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

T, LOSS = 40, 1e-5
TEXT = " ".join(4 * [f"the {a} of the {b} goes {c} the loom" for a in ("warp", "weft", "thread", "edge")
                for b in ("cloth", "shuttle", "reed", "beam") for c in ("under", "over", "through")])


def llama_like(**more):
    """What configurations of llama's family have in common, as the Hub spells it."""
    return {"attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu",
            "hidden_size": 48, "initializer_range": 0.02, "intermediate_size": 72,
            "max_position_embeddings": 128, "num_attention_heads": 4, "num_hidden_layers": 3,
            "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_scaling": None,
            "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "transformers_version": "4.45.0", "use_cache": True, **more}


FOLDERS = {
    "gpt2": dict(
        config={"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
                "attn_pdrop": 0.1, "bos_token_id": 300, "embd_pdrop": 0.1, "eos_token_id": 300,
                "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
                "n_ctx": 128, "n_embd": 48, "n_head": 4, "n_layer": 3, "n_positions": 128,
                "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
                "summary_proj_to_labels": True, "summary_type": "cls_index",
                "summary_use_proj": True, "vocab_size": 301,
                "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}},
        dtype=torch.float32, strip="transformer.",
        buffers=lambda n: {f"h.{i}.attn.bias": torch.tril(torch.ones(1, 1, 128, 128)) for i in range(n)},
        files=["64.tflite", "flax_model.msgpack", "onnx/config.json", "merges.txt", "vocab.json"]),
    "llama 3.2": dict(
        config=llama_like(architectures=["LlamaForCausalLM"], model_type="llama", bos_token_id=298,
                          eos_token_id=[299, 300], head_dim=12, mlp_bias=False, pretraining_tp=1,
                          tie_word_embeddings=True, vocab_size=301, rope_theta=500000.0,
                          rope_scaling={"factor": 32.0, "high_freq_factor": 4.0,
                                        "low_freq_factor": 1.0, "rope_type": "llama3",
                                        "original_max_position_embeddings": 64}),
        files=["original/consolidated.00.pth", "original/params.json", "original/tokenizer.model",
               "USE_POLICY.md", "LICENSE.txt"]),
    "qwen 3": dict(
        config=llama_like(architectures=["Qwen3ForCausalLM"], model_type="qwen3", bos_token_id=299,
                          eos_token_id=300, head_dim=16, max_window_layers=3, rms_norm_eps=1e-06,
                          rope_theta=1000000, sliding_window=None, tie_word_embeddings=True,
                          use_sliding_window=False, vocab_size=320),
        files=["merges.txt", "vocab.json"], write_head=True),
    "qwen 2.5": dict(
        config=llama_like(architectures=["Qwen2ForCausalLM"], model_type="qwen2", bos_token_id=299,
                          eos_token_id=299, max_window_layers=3, rms_norm_eps=1e-06,
                          rope_theta=1000000.0, sliding_window=128, use_mrope=False,
                          tie_word_embeddings=True, use_sliding_window=False, vocab_size=320)),
    "gemma 3": dict(
        config=llama_like(architectures=["Gemma3ForCausalLM"], model_type="gemma3_text",
                          attn_logit_softcapping=None, final_logit_softcapping=None,
                          bos_token_id=298, eos_token_id=[297, 300], pad_token_id=296, head_dim=16,
                          cache_implementation="hybrid", hidden_activation="gelu_pytorch_tanh",
                          num_hidden_layers=7, query_pre_attn_scalar=16, rms_norm_eps=1e-06,
                          rope_local_base_freq=10000, rope_theta=1000000, sliding_window=8,
                          sliding_window_pattern=6, num_key_value_heads=1, tie_word_embeddings=None,
                          vocab_size=304), drop=["hidden_act", "tie_word_embeddings"],
        files=["added_tokens.json", "special_tokens_map.json", "tokenizer.model"]),
    "smollm 2": dict(
        config=llama_like(architectures=["LlamaForCausalLM"], model_type="llama", bos_token_id=300,
                          eos_token_id=300, hidden_size=54, num_attention_heads=9,
                          num_key_value_heads=3, initializer_range=0.041666666666666664,
                          is_llama_config=True, pretraining_tp=1, rope_interleaved=False,
                          rope_theta=100000, tie_word_embeddings=True, vocab_size=301,
                          **{"transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}}),
        files=["onnx/model.onnx", "runs/1/events.out", "train_results.json"]),
    "mistral": dict(
        config=llama_like(architectures=["MistralForCausalLM"], model_type="mistral",
                          bos_token_id=299, eos_token_id=300, head_dim=16, sliding_window=12,
                          rope_theta=1000000.0, vocab_size=301),
        drop=["attention_bias", "rope_scaling"], shards=True,
        files=["consolidated.safetensors", "params.json", "tokenizer.model.v3"]),
    "phi 3": dict(
        config=llama_like(architectures=["Phi3ForCausalLM"], model_type="phi3", bos_token_id=1,
                          eos_token_id=300, pad_token_id=300, embd_pdrop=0.0, resid_pdrop=0.0,
                          num_key_value_heads=4, sliding_window=15, vocab_size=320,
                          original_max_position_embeddings=128, _name_or_path="Phi-3-mini",
                          auto_map={"AutoConfig": "configuration_phi3.Phi3Config",
                                    "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"}),
        shards=True, files=["configuration_phi3.py", "modeling_phi3.py", "sample_finetune.py"]),
    "olmo 2": dict(
        config=llama_like(architectures=["Olmo2ForCausalLM"], model_type="olmo2", eos_token_id=300,
                          pad_token_id=299, num_key_value_heads=4, rms_norm_eps=1e-06,
                          rope_theta=500000, vocab_size=320, torch_dtype="float32"),
        dtype=torch.float32, shards=True),
    "pythia": dict(
        config={"architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0,
                "hidden_act": "gelu", "hidden_size": 64, "initializer_range": 0.02,
                "intermediate_size": 96, "layer_norm_eps": 1e-05, "max_position_embeddings": 128,
                "model_type": "gpt_neox", "num_attention_heads": 4, "num_hidden_layers": 3,
                "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False,
                "torch_dtype": "float16", "transformers_version": "4.24.0", "use_cache": True,
                "use_parallel_residual": True, "vocab_size": 304},
        dtype=torch.float16,
        buffers=lambda n: {
            k: v for i in range(n) for k, v in {
                f"gpt_neox.layers.{i}.attention.bias":
                    torch.tril(torch.ones(1, 1, 128, 128, dtype=torch.bool)),
                f"gpt_neox.layers.{i}.attention.masked_bias": torch.tensor(-1e9),
                f"gpt_neox.layers.{i}.attention.rotary_emb.inv_freq": torch.ones(2)}.items()}),
    "tinyllama": dict(
        config=llama_like(architectures=["LlamaForCausalLM"], model_type="llama", bos_token_id=1,
                          eos_token_id=2, pretraining_tp=1, vocab_size=301),
        drop=["attention_dropout"],
        buffers=lambda n: {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(6)
                           for i in range(n)}),
    "no tokenizer": dict(
        config=llama_like(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=256,
                          bos_token_id=None, eos_token_id=None), no_tokenizer=True),
    "written by this transformers": dict(
        config=llama_like(architectures=["LlamaForCausalLM"], model_type="llama", bos_token_id=299,
                          eos_token_id=300, vocab_size=301,
                          rope_scaling={"factor": 4.0, "rope_type": "yarn",
                                        "original_max_position_embeddings": 32}), saved=True),
}


def tokenizer(folder):
    """Byte-level BPE of 301 entries, the last five of them special."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=296, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    while made.get_vocab_size() < 296:  # a text of so few words has few merges
        made.add_tokens([f"<unused{made.get_vocab_size()}>"])
    made.add_special_tokens([f"<|special{i}|>" for i in range(4)] + ["<|endoftext|>"])
    made.save(os.path.join(folder, "tokenizer.json"))
    write(folder, "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>",
        "model_max_length": 128, "clean_up_tokenization_spaces": False})
    return made


def write(folder, name, content):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(content if isinstance(content, str) else json.dumps(content, indent=2))


def make(name, folder):
    """Writes the folder; returns the model in f32 with the values of the files, and the ids."""
    what = FOLDERS[name]
    config = {k: v for k, v in what["config"].items() if k not in what.get("drop", [])}
    write(folder, "config.json", config)
    torch.manual_seed(sum(map(ord, name)))
    read = hf.AutoConfig.from_pretrained(folder)
    read._attn_implementation = "eager"
    model = hf.AutoModelForCausalLM.from_config(read, dtype=torch.float32).eval()
    dtype = what.get("dtype", torch.bfloat16)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.1 if p.dim() > 1 else 0.2))
            p.copy_(p.to(dtype).float())
    tensors = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items()}
    if read.tie_word_embeddings and not what.get("write_head"):
        tensors = {k: v for k, v in tensors.items() if k not in ("lm_head.weight", "embed_out.weight")}
    if "lm_head.weight" in tensors and read.model_type == "gpt_neox":  # called so since 5
        tensors["embed_out.weight"] = tensors.pop("lm_head.weight")
    tensors = {k.removeprefix(what.get("strip", "")): v.clone() for k, v in tensors.items()}
    tensors.update(what.get("buffers", lambda n: {})(read.num_hidden_layers))
    if what.get("saved"):
        copy.deepcopy(model).to(dtype).save_pretrained(folder)
    elif what.get("shards"):
        shard(folder, tensors)
    else:
        save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    for extra in what.get("files", []) + ["README.md", ".gitattributes"]:
        write(folder, extra, "{}" if extra.endswith(".json") else "not for weft\n")
    write(folder, "generation_config.json", {"_from_model_config": True, "eos_token_id": 300,
                                             "do_sample": True, "temperature": 0.6})
    if what.get("no_tokenizer"):
        return model, list(TEXT.encode())
    return model, tokenizer(folder).encode(TEXT, add_special_tokens=False).ids


def shard(folder, tensors, n=3):
    names, index = sorted(tensors), {}
    for i in range(n):
        file = f"model-{i + 1:05}-of-{n:05}.safetensors"
        part = {k: tensors[k] for k in names[i::n]}
        save_file(part, os.path.join(folder, file), {"format": "pt"})
        index.update({k: file for k in part})
    write(folder, "model.safetensors.index.json", {
        "metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": index})


def torch_loss(model, ids):
    ids = torch.tensor(ids)
    rows = (len(ids) - 1) // T
    x, y = ids[:rows * T].reshape(rows, T), ids[1:rows * T + 1].reshape(rows, T)
    with torch.no_grad():
        logits = model(x).logits.double()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()).item()


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise RuntimeError(f"{command[1]}: " + (done.stderr or done.stdout).strip().split("\n")[-1])
    return done.stdout


def newest(folder):
    checkpoints = os.path.join(folder, "checkpoints")
    return os.path.join(checkpoints, sorted(os.listdir(checkpoints))[-1])


def check(weft, name, folder):
    model, ids = make(name, folder)
    data = os.path.join(os.getcwd(), "text.txt")
    with open(data, "w") as file:
        file.write(TEXT)

    def loss(of, length=T):
        return json.loads(run(weft, "eval", of, "--data", data, "--length", str(length),
                              "--json"))["loss"]
    found = {"loss": abs(loss(folder) - torch_loss(model, ids))}
    small = [f"data.length={T}", f"batch.tokens_per_step={2 * T}", "run.steps=3"]
    facts = ["--nodes", "2", "--link", "100Mbit,5ms", "--node-flops", "100G"]
    run(weft, "plan", "data.path=" + data, "model.init=" + folder, *small, *facts)
    run(weft, "plan", "--hf", folder, *facts)
    for what, keys in (("full", []), ("lora", ["adapter.rank=4"])):
        run(weft, "train", data, "model.init=" + folder, "run.folder=" + what, *small, *keys)
        run(weft, "verify", what)
        run(weft, "sample", what, "--prompt", "the warp", "--tokens", "8")
        ours = loss(what)
        hf.utils.logging.set_verbosity_error()
        again = hf.AutoModelForCausalLM.from_pretrained(newest(what), dtype=torch.float32,
                                                        attn_implementation="eager").eval()
        found[what] = abs(ours - torch_loss(again, ids))
    run(weft, "sample", folder, "--prompt", "the warp", "--tokens", "8")
    return found


def main():
    weft, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(FOLDERS)
    hf.utils.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    print(f"| {'folder':28} | loss    | full    | lora    |\n|{'-' * 30}|{'---------|' * 3}")
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory() as room:
            os.chdir(room)
            folder = os.path.join(room, name.replace(" ", "-"))
            os.mkdir(folder)
            try:
                found = check(weft, name, folder)
                cells = " | ".join(f"{v:.1e}" for v in found.values())
                failed += not max(found.values()) <= LOSS
            except (RuntimeError, OSError, ValueError) as error:
                cells, failed = str(error), failed + 1
            print(f"| {name:28} | {cells} |", flush=True)
            os.chdir("/")
    print(f"{len(names) - failed} of {len(names)} folders, differences at most {LOSS:g}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
