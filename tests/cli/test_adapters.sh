#!/bin/bash
# SPDX-License-Identifier: MIT
# Adapters as a user has them: trained on a model, asked with it, merged, gone on from; and a folder
# in PEFT's format that is not what it says is refused.
. "$2/tests/cli/helpers.sh"
empty_here
some_text >text.txt
expect 0 "$weft" train "${tiny[@]}" data.path=text.txt --folder made --quiet model.kind=llama \
    model.layers=2 model.heads=4 model.kv_heads=2 run.steps=2
mkdir base
cp made/checkpoints/step-00000002/{model.safetensors,config.json,tokenizer.json} base
more=(data.path=text.txt data.length=16 batch.tokens_per_step=64 mesh.threads=1 schedule.warmup=1
    run.steps=2 --quiet)

# -- a run's checkpoint is PEFT's folder, and the base is not copied
expect 0 "$weft" train --init base "${more[@]}" --folder run adapter.rank=2 \
    'adapter.targets=["q_proj", "down_proj"]'
at=run/checkpoints/step-00000002
[[ -e $at/adapter_model.safetensors && ! -e $at/model.safetensors && ! -e $at/config.json ]] ||
    fail "files: $(ls $at)"
grep -q '"q_proj"' $at/adapter_config.json || fail "modules: $(cat $at/adapter_config.json)"
expect 0 "$weft" verify run
expect 0 "$weft" eval run
loss=$(cut -d' ' -f2 out)
expect 0 "$weft" sample run --tokens 3
expect 0 "$weft" merge run -o whole
expect 0 "$weft" eval whole --data text.txt --length 16
merged=$(cut -d' ' -f2 out)
expect 0 "$weft" eval run --data text.txt --length 16
[[ $(cut -d' ' -f2 out) == "$merged" ]] || fail "merged it has $merged: $(cat out)"
refuses "whole holds a model already; name another folder" "$weft" merge run -o whole
refuses "merge needs -o FOLDER: where the model goes" "$weft" merge run

# -- the base elsewhere, and another one
mv base moved
refuses_like "the adapter in .*run/checkpoints/step-00000002 is of the model '.*base', which is not a \
folder with a model here; say where it is with --base" "$weft" eval run
expect 0 "$weft" eval run --base moved
[[ $(cut -d' ' -f2 out) == "$loss" ]] || fail "the loss was $loss: $(cat out)"
refuses_like "the adapters in .* were trained on a model with checksum [0-9a-f]*, but .*whole has .*" \
    "$weft" eval run --base whole
refuses "whole holds a whole model, expected an adapter of moved" "$weft" eval whole --base moved
expect 0 "$weft" train run/config.yaml --resume --quiet run.steps=3 model.init=moved
refuses_like "there is no folder .*base" "$weft" train run/config.yaml --resume --quiet \
    run.steps=4 model.init=base

# -- folders that others made
rm -rf theirs
mkdir theirs
cp $at/adapter_{config.json,model.safetensors} theirs
expect 0 "$weft" eval theirs --base moved --data text.txt --length 16
[[ $(cut -d' ' -f2 out) == "$merged" ]] || fail "theirs has another loss: $(cat out)"

# spoilt SED_COMMAND SENTENCE: an adapter_config.json that says something else
spoilt() {
    cp $at/adapter_config.json theirs
    sed -i "$1" theirs/adapter_config.json
    refuses_like "$2" "$weft" eval theirs --base moved --data text.txt
}
spoilt 's/"LORA"/"IA3"/' "theirs/adapter_config.json: peft_type is 'IA3', expected 'LORA'"
spoilt 's/"r": 2/"r": 3/' ".*lora_[AB].weight' is .*, expected .*"
spoilt 's/"r": 2/"r": 0/' "theirs/adapter_config.json: r is 0 and lora_alpha 2, .*"
spoilt 's/"r": 2/"r": 2, "use_dora": true/' \
    "theirs/adapter_config.json asks for use_dora, expected LoRA's two matrices and modules_to_save alone"
spoilt 's/"r": 2/"r": 2, "init_lora_weights": "pissa_niter_4"/; s/"init_lora_weights": true,//' \
    "theirs/adapter_config.json: init_lora_weights is 'pissa_niter_4', which changes the base model, expected .*"
spoilt 's/"modules_to_save": null/"modules_to_save": ["lm_head", 3]/' \
    "theirs/adapter_config.json: modules_to_save is no list of names of modules, .*"
spoilt 's/"modules_to_save": null/"modules_to_save": ["no_such"]/' "adapter.save has 'no_such', which no module is"
spoilt 's/"bias": "none"/"bias": "all"/' "theirs/adapter_config.json: bias is 'all', expected 'none'"
spoilt 's/}$//' "theirs/adapter_config.json.*"
cp $at/adapter_config.json theirs
head -c 500 $at/adapter_model.safetensors >theirs/adapter_model.safetensors
refuses_like "theirs/adapter_model.safetensors.*" "$weft" eval theirs --base moved --data text.txt
rm theirs/adapter_model.safetensors
refuses "theirs holds no adapter_model.safetensors" "$weft" eval theirs --base moved \
    --data text.txt
finish
