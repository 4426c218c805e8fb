#!/bin/bash
# SPDX-License-Identifier: MIT
# Models that people bring: a folder in Hugging Face layout says what the model is, and what
# does not fit is refused before anything is written.
. "$2/tests/cli/helpers.sh"
empty_here
some_text >text.txt
expect 0 "$weft" train "${tiny[@]}" data.path=text.txt --folder made --quiet model.kind=llama \
    model.layers=2 model.heads=4 model.kv_heads=2 model.rope_theta=5000 model.norm_eps=1e-4
mkdir given
cp made/checkpoints/step-00000008/{model.safetensors,config.json,tokenizer.json} given
more=(data.path=text.txt data.length=16 batch.tokens_per_step=64 mesh.threads=1 schedule.warmup=1
    run.steps=2 --quiet)

# -- nothing has to be repeated
expect 0 "$weft" eval given --data text.txt
loss=$(cut -d' ' -f2 out)
expect 0 "$weft" train --init given "${more[@]}" --folder more optimizer.lr=0
for line in "kind: llama" "layers: 2" "heads: 4" "kv_heads: 2" "rope_theta: 5000" "norm_eps: 0.0001"; do
    grep -q "  $line\$" more/config.yaml || fail "no '$line' in config.yaml"
done
expect 0 "$weft" eval more --data text.txt
[[ $(cut -d' ' -f2 out) == "$loss" ]] || fail "the loss was $loss: $(cat out)"

# -- nor the folder be there any longer
cp -r given brief
expect 0 "$weft" train --init brief "${more[@]}" --folder later
rm -r brief
expect 0 "$weft" train --init brief "${more[@]}" --folder later --resume run.steps=3
expect 0 "$weft" train later/config.yaml --resume --quiet run.steps=4

# -- a tokenizer in another form is not taken for bytes; a chat template stays with the model
cp -r given spm && mv spm/tokenizer.json spm/tokenizer.model
refuses_like "spm has tokenizer.model but no tokenizer.json, expected that; transformers writes it: .*" \
    "$weft" eval spm --data text.txt
refuses_like "spm has tokenizer.model but no tokenizer.json.*" \
    "$weft" train --init spm "${more[@]}" --folder none
expect 0 "$weft" train --init spm "${more[@]}" --folder spelt data.tokenizer=bytes
cp -r given talks
echo '{"chat_template": "{% for m in messages %}{{ m.content }};{% endfor %}"}' >talks/tokenizer_config.json
expect 0 "$weft" train --init talks "${more[@]}" --folder tuned
refuses_like "tuned/.*/chat_template.jinja has a template in Jinja, which weft does not run: name the format .*" \
    "$weft" sample tuned --chat --prompt "the cat" --tokens 2
expect 0 "$weft" sample tuned --chat --template llama2 --prompt "the cat" --tokens 2
expect 0 "$weft" train tuned/config.yaml --resume --quiet run.steps=3
[[ -e tuned/checkpoints/step-00000003/chat_template.jinja ]] || fail "the chat template was lost"

# -- what contradicts it is refused, and nothing is written
contradicts() {
    refuses "model.${1%%=*} is ${1#*=}, but the model in given has $2; leave the key out" \
        "$weft" train --init given "${more[@]}" --folder none "model.$1"
}
contradicts heads=2 4
contradicts kv_heads=3 2
contradicts rope_theta=10000 5000
contradicts norm_eps=0.001 0.0001
contradicts layers=3 2
contradicts kind=olmo2 llama
contradicts tied=true false
expect 0 "$weft" train --init given "${more[@]}" --folder dropped model.dropout=0.1

# -- a run is a model to start from for plans and measurements, too
expect 0 "$weft" plan model.init=dropped data.path=text.txt --node-flops 1G --link 100Mbit,5ms
folder_of_run=$(ls -d dropped/checkpoints/step-* | tail -1)
mv out of_run
expect 0 "$weft" plan "model.init=$folder_of_run" data.path=text.txt --node-flops 1G --link 100Mbit,5ms
cmp -s out of_run || fail "the plan of a run's model is not that of its checkpoint"
expect 0 "$weft" bench train model.init=dropped --steps 1 --warmup 0 batch.tokens_per_step=64 data.length=16
# edited SED_COMMAND: a copy of the folder with another config.json
edited() {
    rm -rf other && cp -r given other
    sed -i "$1" other/config.json
}
edited 's/"num_hidden_layers": 2/"num_hidden_layers": 1/'
refuses_like "other/model.safetensors has a tensor 'model.layers.1.[a-z_.]*' of [0-9]+ x [0-9]+, \
for which a llama of 1 layers as in its config.json has no place" \
    "$weft" train --init other "${more[@]}" --folder none
expect 2 "$weft" eval other --data text.txt
edited 's/"num_hidden_layers": 2/"num_hidden_layers": 3/'
refuses_like "other/model.safetensors has no tensor 'model.layers.2.[a-z_.]*' of [0-9]+ x [0-9]+, \
which its config.json asks for" "$weft" train --init other "${more[@]}" --folder none
edited 's/"tie_word_embeddings": false/"tie_word_embeddings": true/'
refuses_like "other/model.safetensors: row [0-9]+ of 'lm_head.weight' is not that of the embedding, \
but config.json says that the two are one .tie_word_embeddings." \
    "$weft" train --init other "${more[@]}" --folder none
rm other/config.json
refuses "other has no config.json, which says what the model is" \
    "$weft" train --init other "${more[@]}" --folder none
no_files none

# -- several files with an index
index='{"weight_map": {'
names=$(grep -aoE '"(model|lm_head)[a-z0-9_.]*"' given/model.safetensors)
for name in $names; do index+="$name: \"part.safetensors\", "; done
mkdir parts
cp given/{config,tokenizer}.json parts
cp given/model.safetensors parts/part.safetensors
echo "${index%, }}}" >parts/model.safetensors.index.json
expect 0 "$weft" eval parts --data text.txt
[[ $(cut -d' ' -f2 out) == "$loss" ]] || fail "parts: the loss was $loss: $(cat out)"
echo "${index}\"x\": \"part.safetensors\"}}" >parts/model.safetensors.index.json
refuses "parts/model.safetensors.index.json says that part.safetensors holds tensor 'x', but it \
does not" "$weft" eval parts --data text.txt
echo '{"weight_map": {"lm_head.weight": "part.safetensors"}}' >parts/model.safetensors.index.json
refuses_like "parts/model.safetensors.index.json lists 1 tensors, but its 1 files hold [0-9]+" \
    "$weft" eval parts --data text.txt
echo '{"weight_map": {"x": "../given/model.safetensors"}}' >parts/model.safetensors.index.json
refuses "parts/model.safetensors.index.json: the file of tensor 'x' is not the name of a file \
beside the index" "$weft" eval parts --data text.txt
echo '{"weight_map": {"x": "gone.safetensors"}}' >parts/model.safetensors.index.json
refuses "parts/model.safetensors.index.json names gone.safetensors, which is not there" \
    "$weft" eval parts --data text.txt

finish
