# SPDX-License-Identifier: MIT
"""Fine-tuning step by step beside torch and PEFT:

    adapters.py WEFT [NAME...]

For each architecture a tiny random model of transformers' is trained on a text by PEFT (LoRA) and
by torch (all parameters, and with the embedding frozen); weft trains the same folder, the same
adapter and the same rows in the same order. Compared are the losses of all steps, and that PEFT
loads what weft saved and computes the validation loss that weft printed. Needs torch,
transformers, peft. Exit code 1 if a row differs by more than 1e-5."""
import json
import os
import subprocess
import sys
import tempfile

import peft
import torch
import transformers as hf

V, T, ROWS, STEPS, LR, EPS, MOST = 256, 32, 4, 20, 2e-3, 1e-6, 1e-5
# what is trained whole beside the adapters
SAVED = {"llama, head and norms": ["lm_head", "norm"], "gpt_neox, tables": ["lm_head", "embed_in"]}
ROOT_SCALED = {"llama, rsLoRA"}  # the product is scaled by alpha / sqrt(rank)
MODELS = {
    "llama, rsLoRA": (hf.LlamaForCausalLM, hf.LlamaConfig, dict(num_key_value_heads=2),
                      ["q_proj", "o_proj", "up_proj"]),
    "llama, head and norms": (hf.LlamaForCausalLM, hf.LlamaConfig, dict(num_key_value_heads=2),
                              ["q_proj", "v_proj"]),
    "gpt_neox, tables": (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig, dict(), ["query_key_value"]),
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig, dict(num_key_value_heads=2), ["q_proj", "v_proj"]),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config, None, ["c_attn", "attn.c_proj", "c_fc"]),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config, dict(num_key_value_heads=2), "all-linear"),
    "phi3": (hf.Phi3ForCausalLM, hf.Phi3Config,
             dict(num_key_value_heads=2, pad_token_id=0), ["qkv_proj", "down_proj"]),
    "gpt_neox": (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig, dict(), ["query_key_value"]),
    "gemma2": (hf.Gemma2ForCausalLM, hf.Gemma2Config,
               dict(num_key_value_heads=2, head_dim=12), "all-linear"),
}


def make(name):
    cls, config, more, _ = MODELS[name]
    if more is None:
        made = config(vocab_size=V, n_positions=T, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0,
                      embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0)
    else:
        made = config(vocab_size=V, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                      num_attention_heads=4, max_position_embeddings=T, bos_token_id=0,
                      eos_token_id=0, **more)
    torch.manual_seed(3)
    return cls(made).float()


def text():
    words = "warp weft loom thread shuttle cloth the a over under and goes".split()
    out, last = [], 0
    for i in range(4000):
        draw = (i * 7919 + i * i * 31) % 2003
        last = (last * 5 + 3) % 12 if draw % 4 else draw // 4 % 12
        out.append(words[last])
    return " ".join(out).encode()


def rows_of(data):
    """The windows of each step. The text has as many as one step takes, so their order does not
    matter."""
    return [torch.tensor([list(data[r * T:r * T + T + 1]) for r in range(ROWS)])] * STEPS


def torch_losses(model, params, batches):
    optimizer = torch.optim.AdamW(params, lr=LR, betas=(0.9, 0.95), eps=EPS, weight_decay=0)
    losses = []
    for rows in batches:
        logits = model(input_ids=rows[:, :-1]).logits.double()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, V), rows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def weft_losses(weft, folder, data, keys):
    subprocess.run([weft, "train", data, f"run.folder={folder}", f"run.steps={STEPS}",
                    f"data.length={T}", f"batch.tokens_per_step={ROWS * T}", "optimizer.kind=adamw",
                    f"optimizer.lr={LR}", "optimizer.beta1=0.9", "optimizer.beta2=0.95",
                    f"optimizer.eps={EPS}", "optimizer.weight_decay=0", "optimizer.clip=0",
                    "schedule.kind=constant", "schedule.warmup=0", "data.validation_path=" + data,
                    "run.tensorboard=false"] + keys, check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in open(os.path.join(folder, "metrics.jsonl"))]
    return ([line["loss"] for line in lines if "loss" in line and "lr" in line],
            [line["validation_loss"] for line in lines if "validation_loss" in line][-1])


def furthest(a, b):
    assert len(a) == len(b) == STEPS, (len(a), len(b))
    return max(abs(x - y) for x, y in zip(a, b))


def newest(run):
    folder = os.path.join(run, "checkpoints")
    return os.path.join(folder, sorted(os.listdir(folder))[-1])


def loss_on(model, rows):
    with torch.no_grad():
        logits = model(input_ids=rows[:, :-1]).logits.double()
    return float(torch.nn.functional.cross_entropy(logits.reshape(-1, V), rows[:, 1:].reshape(-1)))


def compare(weft, name, work):
    base, data = os.path.join(work, name), os.path.join(work, "text.txt")
    bytes_ = text()[:ROWS * T + 1]
    open(data, "wb").write(bytes_)
    make(name).save_pretrained(base)
    batches = rows_of(bytes_)
    adapter = os.path.join(work, name + "-adapter")
    tuned = peft.get_peft_model(make(name), peft.LoraConfig(
        r=4, lora_alpha=10, target_modules=MODELS[name][3], task_type="CAUSAL_LM",
        modules_to_save=SAVED.get(name), use_rslora=name in ROOT_SCALED))
    torch.manual_seed(5)
    for n, p in tuned.named_parameters():  # as an adapter that has learnt: B is not zero
        if "lora_B" in n:
            torch.nn.init.normal_(p, std=0.02)
    tuned.save_pretrained(adapter)
    theirs = torch_losses(tuned, [p for p in tuned.parameters() if p.requires_grad], batches)
    run = os.path.join(work, name + "-lora")
    ours, end = weft_losses(weft, run, data, [f"model.init={base}", f"adapter.init={adapter}"])
    lora = furthest(theirs, ours)
    loaded = peft.PeftModel.from_pretrained(make(name), newest(run))
    reloaded = abs(loss_on(loaded, batches[0]) - end)
    auto = hf.AutoModelForCausalLM.from_pretrained(newest(run))
    reloaded = max(reloaded, abs(loss_on(auto, batches[0]) - end))
    merged = os.path.join(work, name + "-merged")
    subprocess.run([weft, "merge", run, "-o", merged], check=True, stdout=subprocess.DEVNULL)
    whole = abs(loss_on(hf.AutoModelForCausalLM.from_pretrained(merged), batches[0]) - end)

    model = make(name)
    theirs = torch_losses(model, list(model.parameters()), batches)
    ours, _ = weft_losses(weft, os.path.join(work, name + "-full"), data, [f"model.init={base}"])
    full = furthest(theirs, ours)
    model = make(name)
    table = model.get_input_embeddings().weight
    table_name = next(n for n, p in model.named_parameters() if p is table)
    theirs = torch_losses(model, [p for p in model.parameters() if p is not table], batches)
    ours, _ = weft_losses(weft, os.path.join(work, name + "-frozen"), data,
                          [f"model.init={base}", f"model.frozen={table_name}"])
    frozen = furthest(theirs, ours)
    good = max(lora, reloaded, whole, full, frozen) <= MOST
    print(f"| {name} | {lora:.1e} | {reloaded:.1e} | {whole:.1e} | {full:.1e} | {frozen:.1e} | "
          f"{'ok' if good else 'DIFFERS'} |", flush=True)
    return good


def main():
    weft, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(MODELS)
    hf.logging.set_verbosity_error()
    print("| model | LoRA, PEFT | PEFT and transformers reload | merged | all, torch | "
          "embedding frozen, torch | |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        return 0 if all([compare(weft, name, work) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
