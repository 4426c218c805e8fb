# SPDX-License-Identifier: MIT
"""Compares the loss that transformers computes with a saved t5 or vit and what `weft eval`
prints for the same rows.

    python bench/models/pairs_and_images.py t5  WEFT RUN pairs.tsv LENGTH
    python bench/models/pairs_and_images.py vit WEFT RUN FOLDER      (of folders of PNG, one per class)

Needs torch, transformers, tokenizers, pillow. RUN is a checkpoint folder in Hugging Face layout.
The classes load RUN, and save it again beside it; weft evaluates both."""
import json
import os
import subprocess
import sys
import tempfile

import torch


def weft_loss(weft, run, data, more):
    out = subprocess.run([weft, "eval", run, "--data", data, "--json"] + more, check=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)["loss"]


def t5_loss(model, run, path, length):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(run, "tokenizer.json"))
    start, end = model.config.decoder_start_token_id, model.config.eos_token_id
    total, count = 0.0, 0
    for line in open(path, encoding="utf-8"):
        source, target = [tokenizer.encode(x).ids for x in line.rstrip("\n").split("\t")[:2]]
        source = source[:length - 1] + [end]
        target = (target + [end])[:length]
        logits = model(input_ids=torch.tensor([source]),
                       decoder_input_ids=torch.tensor([[start] + target[:-1]])).logits[0]
        total += float(torch.nn.functional.cross_entropy(logits.double(), torch.tensor(target),
                                                         reduction="sum"))
        count += len(target)
    return total / count


def vit_loss(model, folder):
    import numpy
    from PIL import Image
    total, count = 0.0, 0
    mode = "L" if model.config.num_channels == 1 else "RGB"
    for label, name in enumerate(sorted(os.listdir(folder))):
        for file in sorted(os.listdir(os.path.join(folder, name))):
            image = Image.open(os.path.join(folder, name, file)).convert(mode)
            pixels = torch.tensor(numpy.array(image)).double() / 255 * 2 - 1
            pixels = pixels.unsqueeze(0) if mode == "L" else pixels.permute(2, 0, 1)
            logits = model(pixel_values=pixels.float().unsqueeze(0)).logits.double()
            total += float(torch.nn.functional.cross_entropy(logits, torch.tensor([label])))
            count += 1
    return total / count


def main():
    kind, weft, run, data = sys.argv[1:5]
    if kind == "t5":
        from transformers import T5ForConditionalGeneration as Model
        more = ["--length", sys.argv[5]]
    else:
        from transformers import ViTForImageClassification as Model
        more = []
    model = Model.from_pretrained(run).eval()
    with torch.no_grad():
        theirs = t5_loss(model, run, data, int(sys.argv[5])) if kind == "t5" else vit_loss(model,
                                                                                          data)
    ours = weft_loss(weft, run, data, more)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer = os.path.join(run, "tokenizer.json")
        if os.path.exists(tokenizer):
            with open(tokenizer, "rb") as a, open(os.path.join(folder, "tokenizer.json"), "wb") as b:
                b.write(a.read())
        again = weft_loss(weft, folder, data, more)
    print(f"transformers {theirs:.9f}, weft {ours:.9f}, of what transformers saved {again:.9f}")
    if not (abs(theirs - ours) < 1e-5 and abs(again - ours) < 1e-6):
        sys.exit("the losses differ")


main()
