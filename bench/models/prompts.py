# SPDX-License-Identifier: MIT
"""Fine-tuning on prompts beside torch and transformers:

    prompts.py WEFT LIBRARY

A tiny llama and a tokenizer with special tokens, both made here, are trained by torch on examples of
which only the answers count (labels -100 elsewhere), and by weft with data.rows=prompts on the same
.jsonl. Compared are, for each chat template: the text of apply_chat_template and of
weft_chat_render (LIBRARY: libweft.so), byte for byte; the losses of 20 steps; and what transformers
loads from weft's checkpoint: ids of a rendered conversation, and the loss. Needs torch,
transformers, tokenizers. Exit code 1 if a text differs or a loss by more than 1e-6."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile

import tokenizers
import torch
import transformers as hf

T, STEPS, LR, EPS, MOST = 192, 20, 1e-3, 1e-6, 1e-6
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|end|>", "<|user|>", "<|assistant|>",
           "<start_of_turn>", "<end_of_turn>", "<|eot_id|>", "<|begin_of_text|>"]
NAMED = ["chatml", "llama2", "llama3", "mistral", "gemma", "phi3", "qwen"]
TURNS = [["Who weaves?", "The weaver does."], ["Warp or weft?", "Weft.", "Why?", "It travels."],
         ["1 + 1 =", "2", "and 2 more?", " 4 "], ["Zoë, bitte: eins", "zwei – drei"]]


def library(path):
    lib = ctypes.CDLL(path)
    lib.weft_ctx_message.restype = ctypes.c_char_p
    ctx = ctypes.c_void_p()
    assert lib.weft_ctx_create(ctypes.byref(ctx)) == 0
    return lib, ctx


def rendered(weft, name, folder, messages, asks):
    lib, ctx = weft
    chat, text = ctypes.c_void_p(), ctypes.c_char_p()
    status = lib.weft_chat_open(ctx, name.encode(), folder.encode(), ctypes.byref(chat))
    if status == 0:
        status = lib.weft_chat_render(ctx, chat, json.dumps(messages).encode(), asks, ctypes.byref(text))
    assert status == 0, lib.weft_ctx_message(ctx)
    return text.value.decode()


def conversations(system):
    rows = []
    for turns in TURNS:
        rows.append([{"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(turns)])
    if system:
        rows[1].insert(0, {"role": "system", "content": "Speak of cloth."})
    return rows


def make_tokenizer(folder):
    tok = tokenizers.Tokenizer(tokenizers.models.BPE())
    tok.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = tokenizers.decoders.ByteLevel()
    words = " ".join(t for turns in TURNS for t in turns) + " user assistant system model [INST] [/INST]"
    tok.train_from_iterator([words] * 4, tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    fast = hf.PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    fast.save_pretrained(folder)
    return fast


def make_model(vocab):
    torch.manual_seed(3)
    return hf.LlamaForCausalLM(hf.LlamaConfig(
        vocab_size=vocab, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=T, bos_token_id=1, eos_token_id=2)).float()


def common(a, b):
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def labelled(fast, messages):
    """Ids and labels: what each assistant's message adds to the text of those before it counts."""
    ids = fast.apply_chat_template(messages, tokenize=True, return_dict=False)
    labels = [-100] * len(ids)
    for i, m in enumerate(messages):
        if m["role"] != "assistant":
            continue
        before = fast.apply_chat_template(messages[:i], tokenize=True, add_generation_prompt=True, return_dict=False)
        upto = fast.apply_chat_template(messages[:i + 1], tokenize=True, return_dict=False)
        first, last = common(ids, before), common(ids, upto)
        labels[first:last] = ids[first:last]
    return ids[:T + 1], labels[:T + 1]


def completed(fast, prompt, completion):
    n = common(fast(prompt, add_special_tokens=False).input_ids,
               fast(prompt + completion, add_special_tokens=False).input_ids)
    ids = fast(prompt + completion, add_special_tokens=False).input_ids + [fast.eos_token_id]
    return ids, [-100] * n + ids[n:]


def batch(rows):
    ids, labels = torch.full((len(rows), T + 1), 0), torch.full((len(rows), T + 1), -100)
    for r, (i, l) in enumerate(rows):
        ids[r, :len(i)], labels[r, :len(l)] = torch.tensor(i), torch.tensor(l)
    return ids, labels


def loss_of(model, ids, labels):
    logits = model(input_ids=ids[:, :-1]).logits.double()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


def torch_losses(model, ids, labels):
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.95), eps=EPS, weight_decay=0)
    losses = []
    for _ in range(STEPS):
        loss = loss_of(model, ids, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def weft_losses(weft, base, run, data, rows, keys):
    subprocess.run([weft, "train", data, f"model.init={base}", f"run.folder={run}", f"run.steps={STEPS}",
                    "data.rows=prompts", f"data.length={T}", f"batch.rows_per_step={rows}",
                    "optimizer.kind=adamw", f"optimizer.lr={LR}", "optimizer.beta1=0.9", "optimizer.beta2=0.95",
                    f"optimizer.eps={EPS}", "optimizer.weight_decay=0", "optimizer.clip=0",
                    "schedule.kind=constant", "schedule.warmup=0", "data.validation_path=" + data,
                    "run.tensorboard=false"] + keys, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in open(os.path.join(run, "metrics.jsonl"))]
    return ([line["loss"] for line in lines if "loss" in line and "lr" in line],
            [line["validation_loss"] for line in lines if "validation_loss" in line][-1])


def compare(weft, lib, name, work):
    base, run = os.path.join(work, name), os.path.join(work, name + "-run")
    fast = make_tokenizer(base)
    make_model(len(fast)).save_pretrained(base)
    system = name not in ("texts", "phi3")
    keys, texts = [], "-"
    if name == "texts":
        lines = [{"prompt": t[0] + " ", "completion": t[1]} for t in TURNS]
        rows = [completed(fast, line["prompt"], line["completion"]) for line in lines]
    else:
        named = (ctypes.c_void_p(),)
        lib[0].weft_chat_open(lib[1], name.encode(), base.encode(), ctypes.byref(named[0]))
        assert lib[0].weft_chat_save(lib[1], named[0], base.encode()) == 0
        fast = hf.AutoTokenizer.from_pretrained(base)
        chats = conversations(system)
        for chat in chats + [c[:-1] for c in chats]:
            for asks in (False, True):
                theirs = fast.apply_chat_template(chat, tokenize=False, add_generation_prompt=asks)
                for wanted in ("auto", name):
                    ours = rendered(lib, wanted, base, chat, asks)
                    assert ours == theirs, (name, ours, theirs)
        texts = "equal"
        lines = [{"messages": c} for c in chats]
        rows = [labelled(fast, c) for c in chats]
    data = os.path.join(work, name + ".jsonl")
    open(data, "w").write("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    ids, labels = batch(rows)
    theirs = torch_losses(make_model(len(fast)), ids, labels)
    ours, end = weft_losses(weft, base, run, data, len(rows), keys)
    far = max(abs(x - y) for x, y in zip(theirs, ours))
    folder = os.path.join(run, "checkpoints", sorted(os.listdir(os.path.join(run, "checkpoints")))[-1])
    with torch.no_grad():
        again = abs(float(loss_of(hf.AutoModelForCausalLM.from_pretrained(folder), ids, labels)) - end)
    kept = name == "texts" or hf.AutoTokenizer.from_pretrained(folder).apply_chat_template(
        lines[1]["messages"], return_dict=False) == fast.apply_chat_template(lines[1]["messages"], return_dict=False)
    good = far <= MOST and again <= MOST and kept and len(ours) == STEPS
    print(f"| {name} | {texts} | {int((labels[:, 1:] >= 0).sum())} of {int(sum(len(r[0]) for r in rows))} | "
          f"{far:.1e} | {again:.1e} | {'ok' if good else 'DIFFERS'} |", flush=True)
    return good


def main():
    weft, lib = os.path.abspath(sys.argv[1]), library(sys.argv[2])
    hf.logging.set_verbosity_error()
    print("| template | texts | tokens that count | loss of a step, torch | reloaded | |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        return 0 if all([compare(weft, lib, name, work) for name in ["texts"] + NAMED]) else 1


if __name__ == "__main__":
    sys.exit(main())
