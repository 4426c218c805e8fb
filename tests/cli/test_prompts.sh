#!/bin/bash
# SPDX-License-Identifier: MIT
# Prompts as a user has them: trained on, asked in a chat, resumed with the same template; and
# files and keys that do not fit are refused.
. "$2/tests/cli/helpers.sh"
empty_here
for i in 1 2 3 4; do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"say $i\"}, {\"role\": \"assistant\", \"content\": \"ab\"}]}"
done | gzip >talks.jsonl.gz
echo '{"prompt": "2+2=", "completion": "4"}' >texts.jsonl
keys=(data.rows=prompts data.length=96 batch.rows_per_step=2 mesh.nodes=2 mesh.threads=1 model.layers=1
    model.width=32 model.heads=2 data.validation=0.3 schedule.warmup=1 run.tensorboard=false)

# -- two nodes learn what an assistant says, and the checkpoint holds the template
expect 0 "$weft" train talks.jsonl.gz "${keys[@]}" method=hsdp optimizer.lr=0.02 --folder run \
    data.chat_template=chatml run.steps=60 run.save_every=30
grep -q "3 training and 1 validation prompts, .* tokens each of which 13.0 count" err out ||
    fail "of the data it says: $(grep data err)"
at=run/checkpoints/step-00000060
grep -q im_start $at/chat_template.jinja || fail "no template: $(ls $at)"
grep -q im_end $at/tokenizer_config.json || fail "no tokens: $(cat $at/tokenizer_config.json)"
expect 0 "$weft" verify run
expect 0 "$weft" eval run
grep -q " 13 tokens" out || fail "evaluated: $(cat out)"
expect 0 "$weft" eval run --data talks.jsonl.gz --prompts --length 96
grep -q " 52 tokens" out || fail "evaluated: $(cat out)"
refuses_like "there is no chat template .run., expected chatml, llama2, .*" \
    "$weft" eval run --data talks.jsonl.gz --prompts --template run

# -- an answer, and a conversation
expect 0 "$weft" sample run --chat --prompt "say 2" --temperature 0 --tokens 12
[[ $(head -c 2 out) == ab ]] || fail "the answer is $(head -1 out)"
printf 'say 1\nsay 3\n' | "$weft" sample run --chat --temperature 0 --tokens 4 >out 2>err ||
    fail "a conversation: $(cat err)"
(($(wc -l <out) >= 2)) || fail "answers: $(cat out)"
expect 0 "$weft" sample run --chat --prompt "say 2" --system "be brief" --template phi3 --tokens 3
refuses "--system and --template belong to --chat, which is not given" \
    "$weft" sample run --system x --prompt y
refuses_like "there is no chat template .chatlm., expected chatml, .*" "$weft" sample run --chat --template chatlm --prompt y

# -- resumed, it goes on with the template of its checkpoint
expect 0 "$weft" train run/config.yaml --resume --quiet run.steps=62
cmp -s $at/chat_template.jinja run/checkpoints/step-00000062/chat_template.jinja ||
    fail "another template after resuming"

# -- what does not fit
refuses "line 1 of talks.jsonl.gz has messages, which need a chat template" \
    "$weft" train talks.jsonl.gz "${keys[@]}" --quiet --folder no method=hsdp
refuses_like "data.chat_template is set, .*data.rows.*" \
    "$weft" train texts.jsonl --folder no data.chat_template=chatml
refuses "data.tokenizer is bpe, which learns from texts, with data.rows prompts: name a tokenizer.json" \
    "$weft" train texts.jsonl "${keys[@]}" --folder no method=hsdp data.tokenizer=bpe
refuses_like "data.rows is prompts, but a vit is trained on rows of its own" \
    "$weft" train texts.jsonl --folder no data.rows=prompts model.kind=vit batch.rows_per_step=2
refuses_like "data.chat_template.*chatlm.*chatml.*" \
    "$weft" train texts.jsonl --folder no data.rows=prompts data.chat_template=chatlm
finish
