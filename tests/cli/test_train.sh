#!/bin/bash
# SPDX-License-Identifier: MIT
# weft train, eval, sample and report, from a text to a report over two runs: what a run
# folder holds, stopping and resuming, data of all kinds.
. "$2/tests/cli/helpers.sh"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
empty_here
some_text >text.txt
mesh=(mesh.nodes=2 mesh.ranks_per_node=2)

# -- helpers
# trains FOLDER KEY...: a tiny run with nothing but results on stdout.
trains() {
    local folder=$1
    shift
    expect 0 "$weft" train "${tiny[@]}" --folder "$folder" --quiet "$@"
    [[ ! -s err ]] || fail "--quiet says: $(head -1 err)"
}

# losses RUN: "step loss" and "step validation_loss" of each line of metrics.jsonl.
losses() {
    sed -nE 's/^\{"step":([0-9]+),.*"(validation_loss|loss)":([^,}]*).*/\1 \2 \3/p' \
        "$1/metrics.jsonl"
}

same_losses() {
    losses "$1" >losses.1
    losses "$2" >losses.2
    (($(wc -l <losses.1) >= 9)) || fail "only $(wc -l <losses.1) losses in $1"
    same losses.1 losses.2
}

other_losses() {
    cmp -s <(losses "$1") <(losses "$2") && fail "$1 and $2 have the same losses"
}

# evaluates RUN [FLAG...]: weft eval says the validation loss that the last run printed, which
# is still in the file `out`, to 4 digits; the last may differ by one.
evaluates() {
    local trained
    trained=$(sed -nE 's/^validation loss  ([0-9.]+) nats per token .*/\1/p' out)
    expect 0 "$weft" eval "$@"
    [[ ! -s err ]] || fail "something on stderr: weft eval $* ($(head -1 err))"
    awk -v want="$trained" 'NF && $1 == "loss" && ($2 - want)^2 < 1.5e-4^2 { n++ }
        END { exit !(n == 1 && want > 0) }' out ||
        fail "weft eval $*: $(cat out), the run said $trained"
}

checkpoint() { printf '%s/checkpoints/step-%08d' "$1" "$2"; }

number='-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?'

# -- a run of two nodes with a wire between them, and its folder
expect 0 "$weft" train "${tiny[@]}" "${mesh[@]}" method=flexdemo mesh.link=100Mbit,1ms \
    replicator.exchange=sharded data.path=text.txt --folder demo run.save_every=3 \
    run.eval_every=4 run.keep=2
grep -qE "^validation loss  [0-9.]+ nats per token \([0-9.]+ bits per byte\); bigram model \
[0-9.]+$" out || fail "no validation loss: $(cat out)"
grep -qE "^time             [0-9.]+ s for 8 steps$" out || fail "no time: $(cat out)"
grep -qE "^wire             [0-9.]+ kB out of each node in all steps, waited for in [0-9]+ % of the time; [0-9]+ % of the exchange hidden behind computing$" \
    out || fail "no wire: $(cat out)"
grep -qE "^memory           [0-9.]+ [MG]B at its peak, [0-9.]+ [MG]B predicted$" out ||
    fail "no memory: $(cat out)"
grep -qx "run folder       demo" out || fail "no folder: $(cat out)"
grep -qx "mesh     2 nodes x 2 ranks x 1 thread, wire 100Mbit,1ms" err || fail "no mesh: $(cat err)"
grep -qx "method   flexdemo: demo + sgd" err || fail "no method: $(cat err)"
grep -qx "batch    64 tokens per step = 4 sequences of 16, 1 x 1 per rank" err ||
    fail "no batch: $(cat err)"
for word in model data expects kernels folder; do
    grep -q "^$word  *[^ ]" err || fail "no line '$word' at the start: $(cat err)"
done
cp out trained
cp err start

(cd demo && find . -type f | sed 's/events.out.tfevents.*/events/; s/^..//' | sort) >found
step6=checkpoints/step-00000006
step8=checkpoints/step-00000008
{
    for folder in $step6 $step8; do
        for file in config.json index.json model.safetensors replica-00000.safetensors \
            replica-00001.safetensors tokenizer.json tokenizer_config.json; do
            echo "$folder/$file"
        done
    done
    printf '%s\n' config.yaml events metrics.jsonl nodes.jsonl report.html timeline.json views.jsonl
} >wanted
same found wanted

# config.yaml is the whole configuration
"$weft" config "${tiny[@]}" "${mesh[@]}" method=flexdemo mesh.link=100Mbit,1ms data.path=text.txt \
    replicator.exchange=sharded run.folder=demo run.save_every=3 run.eval_every=4 run.keep=2 >config.yaml
[[ $(head -1 demo/config.yaml) == "# relative paths are seen from $PWD" ]] || fail "head: $(head -1 demo/config.yaml)"
grep -qx '# [0-9]* parameters' demo/config.yaml || fail "foot: $(tail -1 demo/config.yaml)"
sed '/^#/d' demo/config.yaml >demo.yaml
same demo.yaml config.yaml
expect 0 "$weft" config demo/config.yaml
same out demo.yaml

# metrics.jsonl: the report's parser reads every line, and the names are these
expect 0 "$weft" report demo
[[ $(cat out) == demo/report.html ]] || fail "report says: $(cat out)"
names="step loss lr grad_norm update_norm tokens tokens_per_s mfu memory_bytes memory_rank_bytes wire_bytes_out \
wire_bytes_in local_bytes_out local_bytes_in compute_s exchange_s wait_s hidden_share step_s \
elapsed_s"
evaluation="step elapsed_s validation_loss validation_tokens"
{
    for step in 1 2 3 4; do echo "$step $names"; done
    echo "4 $evaluation"
    for step in 5 6 7 8; do echo "$step $names"; done
    echo "8 $evaluation bigram_loss"
} >wanted
while IFS= read -r line; do
    grep -qxE "\{(\"[a-zA-Z_]+\":$number,?)+\}" <<<"$line" || fail "not as expected: $line"
    echo "$(sed -E 's/^\{"step":([0-9]+),.*/\1/' <<<"$line")" \
        "$(grep -oE '"[a-zA-Z_]+":' <<<"$line" | tr -d '":' | paste -sd' ')"
done <demo/metrics.jsonl >found
same found wanted

# what crossed the wire is what was predicted, and the total is what was printed
predicted=$(sed -nE 's/^expects .*, ([0-9.]+) kB per step on each node.s wire$/\1/p' start)
total=$(sed -nE 's/^wire +([0-9.]+) kB.*/\1/p' trained)
grep -oE '"wire_bytes_out":[0-9]+' demo/metrics.jsonl | sed 's/.*://' >bytes
awk -v predicted="$predicted" -v total="$total" '
    { d = $1 / 1000 - predicted; sum += $1; if (d * d > 0.06 * 0.06) bad = 1 }
    END { d = sum / 1000 - total; exit !(NR == 8 && !bad && d * d < 0.6 * 0.6) }' bytes ||
    fail "predicted $predicted kB, in all $total kB, found $(paste -sd' ' bytes)"

# events, model, index, report
grep -qa "brain.Event:2" demo/events.out.tfevents.* || fail "no TensorBoard events"
grep -qa "train/loss" demo/events.out.tfevents.* || fail "no losses among the events"
grep -q '"model_type": *"gpt2"' demo/$step8/config.json || fail "config.json names no model"
prints "kind: bytes" "$weft" data inspect demo/$step8/tokenizer.json
[[ $(tr -d ' \n' <demo/$step8/tokenizer_config.json) == '{"tokenizer_class":"PreTrainedTokenizerFast"}' ]] ||
    fail "settings: $(cat demo/$step8/tokenizer_config.json)"
(cd demo/$step8 && stat -c '%n %s' [!i]*) >wanted
tr -d ' \n' <demo/$step8/index.json |
    grep -oE '"name":"[^"]+","n_bytes":[0-9]+' | sed 's/"name":"//; s/","n_bytes":/ /' >found
same found wanted
cmp -s demo/$step8/replica-0000{0,1}.safetensors && fail "all nodes kept the same back"
head -1 demo/report.html | grep -qx '<!doctype html>' || fail "report.html is no page"
grep -qE '"steps":\{"step":\[1,.*"loss":\[[0-9]' demo/report.html || fail "report.html has no curves"
tail -1 demo/report.html | grep -q '</html>$' || fail "report.html is cut off"
# the name of SVG's elements; a chart that is saved as a picture
sed -e 's|http://www.w3.org/2000/svg||' -e "s|image.src = 'data:||" demo/report.html |
    grep -qiE '(src|href) *=|@import|https?://' && fail "report.html needs a network"

# -- a second run into the same folder
(cd demo && find . -type f -exec cksum {} + | sort) >before
refuses "demo holds a run already; continue it with --resume or name another run.folder" \
    "$weft" train "${tiny[@]}" data.path=text.txt --folder demo
(cd demo && find . -type f -exec cksum {} + | sort) >after
same before after

# -- a folder that nobody names gets a number; --resume takes the last one
mkdir numbered && (
    cd numbered || exit 1
    short=("${tiny[@]}" data.path=../text.txt --quiet)
    for n in "" -2 -3; do
        expect 0 "$weft" train "${short[@]}" run.steps=2
        grep -qx "run folder       runs/weft$n" out || fail "number '$n': $(cat out)"
    done
    expect 0 "$weft" train "${short[@]}" run.steps=3 --resume
    grep -qx "run folder       runs/weft-3" out || fail "resumed: $(cat out)"
    expect 0 "$weft" train runs/weft-2/config.yaml --quiet run.steps=4 --resume
    grep -qx "run folder       runs/weft-2" out || fail "resumed by its file: $(cat out)"
    expect 0 "$weft" train runs/weft --quiet run.steps=5 --resume
    grep -qx "run folder       runs/weft" out || fail "resumed by its folder: $(cat out)"
) || exit 1

# -- evaluation
cp trained out
evaluates demo
trains other data.path=text.txt
evaluates other
tail -c 900 text.txt >tail.txt
trains held data.path=text.txt data.validation_path=tail.txt
cp out trained
evaluates held
cp trained out
evaluates held --data tail.txt
expect 0 "$weft" eval held --data tail.txt --tokens 32 --json
grep -qxE "\{\"loss\": $number, \"perplexity\": $number, \"bits_per_byte\": $number, \
\"tokens\": 32\}" out || fail "eval --json says: $(cat out)"

# -- samples
for try in 1 2; do
    expect 0 "$weft" sample other --prompt "the cat" --tokens 60
    [[ ! -s err ]] || fail "sample says: $(head -1 err)"
    cp out sample.$try
done
same sample.1 sample.2
[[ $(head -c 7 sample.1) == "the cat" ]] || fail "the sample does not begin with its prompt"
(($(wc -c <sample.1) == 68)) || fail "$(wc -c <sample.1) bytes, expected 7 + 60 and a newline"
expect 0 "$weft" sample other --prompt "the cat" --tokens 60 --seed 2
cmp -s out sample.1 && fail "another seed gives the same text"
expect 0 "$weft" sample other --prompt "the cat" --tokens 60 --temperature 0 --seed 3
cp out greedy
cmp -s greedy sample.1 && fail "temperature 0 gives the text of 0.8"
expect 0 "$weft" sample other --prompt "the cat" --tokens 60 --temperature=0 --seed=4
same out greedy
expect 0 "$weft" sample other --prompt "the cat" --tokens 60 --top-k 1 --seed 5
same out greedy

# -- reports
expect 0 "$weft" report demo -o one.html
same one.html demo/report.html
expect 0 "$weft" report demo other -o both.html
[[ $(cat out) == both.html ]] || fail "report says: $(cat out)"
for name in demo other; do grep -q "\"name\":\"$name\"" both.html || fail "$name is not in both.html"; done
expect 0 "$weft" report demo other
same compare.html both.html

# -- JSON on stdout, nothing on stderr; the lines come as the steps do
expect 0 "$weft" train "${tiny[@]}" data.path=text.txt --folder json --json run.eval_every=4
[[ ! -s err ]] || fail "--json says on stderr: $(head -1 err)"
step="\{\"step\": [0-9]+, \"loss\": $number, \"lr\": $number, \"tokens_per_s\": $number, \
\"wire_bytes_out\": [0-9]+, \"hidden_share\": $number, \"elapsed_s\": $number\}"
evaluation="\{\"step\": [0-9]+, \"validation_loss\": $number, \"tokens\": [0-9]+, \
\"elapsed_s\": $number\}"
(($(grep -cxE "$step" out) == 8)) || fail "not 8 steps: $(cat out)"
(($(grep -cxE "$evaluation" out) == 2)) || fail "not 2 evaluations: $(cat out)"
(($(wc -l <out) == 10)) || fail "$(wc -l <out) lines of JSON, expected 10"
mkdir json.parsed
tr -d ' ' <out >json.parsed/metrics.jsonl
expect 0 "$weft" report json.parsed -o parsed.html
for folder in json json.parsed; do
    sed -nE 's/^\{"step":([0-9]+),"loss":([^,]*).*/\1 \2/p' $folder/metrics.jsonl >losses.$folder
done
paste -d' ' losses.json losses.json.parsed |
    awk '{ d = $2 - $4; if ($1 != $3 || d * d > 1e-14) bad = 1 } END { exit !(NR == 8 && !bad) }' ||
    fail "other losses on stdout than in metrics.jsonl"

# -- stopped by a signal, resumed: the bits of the uninterrupted run
long=("${tiny[@]}" "${mesh[@]}" method=flexdemo data.path=text.txt run.steps=40 run.eval_every=10)
expect 0 "$weft" train "${long[@]}" --folder whole --quiet
cp out whole.out
for signal in TERM HUP QUIT INT; do
    folder=stopped.$signal
    set -m # or a child in the background would ignore SIGINT
    # under nohup SIGHUP is ignored, by weft, too
    env --default-signal=$signal "$weft" train "${long[@]}" --folder "$folder" --json mesh.link=100Mbit,40ms \
        >steps 2>err </dev/null &
    set +m
    for ((i = 0; i < 1000; i++)); do
        [[ -s steps ]] && break
        sleep 0.02
    done
    kill -s $signal $!
    code=0
    wait $! || code=$?
    [[ $code == 0 ]] || fail "exit code $code after SIG$signal: $(head -1 err)"
    last=$(sed -n '$s/.*"step": \([0-9]*\),.*/\1/p' steps)
    ((last >= 1 && last < 40)) || fail "SIG$signal ended the run after step $last of 40"
    [[ -s $(checkpoint "$folder" "$last")/index.json ]] || fail "SIG$signal: $last is not saved"
    rm steps
    expect 0 "$weft" eval "$folder"
    expect 0 "$weft" train "${long[@]}" --folder "$folder" --quiet --resume
    cmp -s <(head -1 out) <(head -1 whole.out) || fail "resumed: $(head -1 out)"
    a=$(checkpoint "$folder" 40) b=$(checkpoint whole 40)
    for file in model replica-00000 replica-00001; do
        same "$a/$file.safetensors" "$b/$file.safetensors"
    done
    same_losses "$folder" whole
    [[ -s $folder/report.html ]] || fail "no report after resuming"
done
expect 0 "$weft" train stopped.INT/config.yaml --resume run.steps=50 --quiet
[[ -e $(checkpoint stopped.INT 50)/index.json ]] || fail "a finished run cannot be made longer"

# -- a reader that ends does not end a run, and what it does not read is an error at the end
(set +o pipefail; "$weft" train "${long[@]}" --folder piped --json 2>&1 </dev/null; echo $? >piped.code) | head -1 >/dev/null
[[ $(cat piped.code) == 1 ]] || fail "exit code $(cat piped.code) with a closed pipe, expected 1"
same "$(checkpoint piped 40)/model.safetensors" "$(checkpoint whole 40)/model.safetensors"

# -- steps without a checkpoint are not overwritten
mkdir bare
cp whole/metrics.jsonl bare
"$weft" train "${long[@]}" --folder bare --quiet --resume 2>err >/dev/null || fail "without a checkpoint: $(cat err)"
grep -q "bare has steps of a run and no checkpoint to resume from: the run begins anew with step 1, and what was written is in bare/before-1" err ||
    fail "a run that begins anew says $(cat err)"
same_losses bare whole
same bare/before-1/metrics.jsonl whole/metrics.jsonl

# -- two processes in one folder: the second is refused while the first lives, not after kill -9
"$weft" train "${long[@]}" --folder shared --quiet mesh.link=100Mbit,40ms >/dev/null 2>&1 </dev/null &
for ((i = 0; i < 1000; i++)); do
    [[ -s shared/metrics.jsonl ]] && break
    sleep 0.02
done
refuses_like "process $! on .* writes here since .* \(shared/lease\); wait for its end or name another \
run.folder" "$weft" train "${long[@]}" --folder shared --quiet
refuses_like "process $! on .* writes here since .*" "$weft" train "${long[@]}" --folder shared \
    --quiet --resume
kill -9 $!
wait $! 2>/dev/null
[[ -s shared/lease ]] || fail "kill -9 left no lease"
rm -f shared/metrics.jsonl
expect 0 "$weft" train "${long[@]}" --folder shared --quiet --resume
grep -q "is gone: its lease was taken over" err || fail "nothing said of the lease: $(cat err)"
[[ -e shared/lease ]] && fail "the lease is still there"
same "$(checkpoint shared 40)/model.safetensors" "$(checkpoint whole 40)/model.safetensors"

# -- a damaged newest checkpoint is passed over, and so is a damaged line
expect 0 "$weft" train "${long[@]}" --folder hurt --quiet run.save_every=10
flip "$(checkpoint hurt 40)/model.safetensors" 5000
flip "$(checkpoint hurt 30)/replica-00001.safetensors" 3000
flip hurt/metrics.jsonl 0
expect 0 "$weft" eval hurt
grep -q "passed over" err || fail "eval says nothing of damage: $(cat err)"
expect 0 "$weft" train "${long[@]}" --folder hurt --quiet --resume run.save_every=10
(($(grep -c "a damaged checkpoint is passed over: .*safetensors is damaged" err) == 2)) ||
    fail "damage is not said: $(cat err)"
grep -q "line 1 of hurt/metrics.jsonl is left out" err || fail "no word of line 1: $(cat err)"
same "$(checkpoint hurt 40)/model.safetensors" "$(checkpoint whole 40)/model.safetensors"

# -- another working folder, relative paths; keys before and after the file
mkdir -p away/inner
printf 'data:\n  path: ../text.txt\nrun:\n  folder: inner/run\n' >away/run.yaml
cd away || exit 1
expect 0 "$weft" train run.yaml "${tiny[@]}" --quiet
expect 0 "$weft" eval inner/run
expect 0 "$weft" train "${tiny[@]}" optimizer.lr=1e-3 run.yaml run.folder=before --quiet
expect 0 "$weft" train run.yaml "${tiny[@]}" run.folder=after optimizer.lr=1e-3 --quiet
cd inner || exit 1
expect 0 "$weft" sample run --tokens 5
cd ../..
same away/before/checkpoints/step-00000008/model.safetensors \
    away/after/checkpoints/step-00000008/model.safetensors
same_losses away/inner/run other
other_losses away/inner/run away/before

# -- several files and their weights
seq 3000 >numbers.txt
for weights in 3,1 1,3; do
    trains mixed.$weights data.path=text.txt,numbers.txt data.weights=$weights
done
other_losses mixed.3,1 mixed.1,3
grep -qx "  weights: \[3, 1\]" mixed.3,1/config.yaml || fail "the weights are not in config.yaml"
mkdir texts
cp text.txt texts/a.txt
cp numbers.txt texts/b.txt
trains folder data.path=texts
evaluates folder

# -- tokenizers and token shards
trains bpe data.path=text.txt data.tokenizer=bpe data.vocab=280
prints "ids: 280" "$weft" data inspect "$(checkpoint bpe 8)/tokenizer.json"
grep -q '"eos_token": "<|endoftext|>"' "$(checkpoint bpe 8)/tokenizer_config.json" || fail "no end token"
expect 0 "$weft" train "${tiny[@]}" --folder bpe --resume --quiet data.path=text.txt \
    data.tokenizer=bpe data.vocab=280 run.steps=9
evaluates bpe
expect 0 "$weft" data encode text.txt -o text.bin
trains shard data.path=text.bin
same_losses shard other
expect 0 "$weft" data train-tokenizer text.txt -o tokenizer.json --vocab 280
expect 0 "$weft" data encode text.txt -o bpe.bin --tokenizer tokenizer.json
trains bpe.shard data.path=bpe.bin data.tokenizer=tokenizer.json
trains bpe.text data.path=text.txt data.tokenizer=tokenizer.json
same_losses bpe.shard bpe.text
other_losses bpe.text other

# -- the other kinds, every method on its mesh
for kind in llama olmo2; do
    trains $kind data.path=text.txt model.kind=$kind model.kv_heads=1 method=hsdp "${mesh[@]}"
    evaluates $kind
    grep -q "\"model_type\": *\"$kind\"" "$(checkpoint $kind 8)/config.json" || fail "not $kind"
    expect 0 "$weft" sample $kind --tokens 5
done
other_losses llama olmo2
trains fsdp data.path=text.txt method=fsdp mesh.ranks_per_node=2
grep -q "^wire" out && fail "one node has no wire to speak of: $(cat out)"
trains ddp data.path=text.txt method=ddp mesh.nodes=2 run.tensorboard=false
grep -q "^wire  *[0-9.]* kB" out || fail "two nodes had no wire: $(cat out)"
# a method that sends in two of eight steps: the progress line has the mean of all, and no share of exchanges that were not
expect 0 "$weft" train "${tiny[@]}" --folder diloco data.path=text.txt method=diloco mesh.nodes=2 mixer.outer_every=4
total=$(sed -nE 's/^wire +([0-9.]+) kB.*/\1/p' out)
sed -nE 's/^train 8\/8 .*wire ([0-9.]+)kB\/step, waits [0-9]+%$/\1/p' err | awk -v mean="$total" '
    { near = $1 > 0.98 * mean / 8 && $1 < 1.02 * mean / 8 } END { exit !(NR == 1 && near) }' ||
    fail "not the mean of $total kB: $(tail -1 err) $(grep ^wire out)"
ls ddp/events* >/dev/null 2>&1 && fail "TensorBoard events in spite of run.tensorboard=false"
[[ -e fsdp/metrics.jsonl && -e ddp/metrics.jsonl ]] || fail "no metrics"

# -- a loss that is not finite ends the run with exit code 1 and valid metrics
expect 1 "$weft" train "${tiny[@]}" data.path=text.txt --folder diverged --quiet \
    optimizer.kind=sgd optimizer.lr=1000 optimizer.clip=0 run.steps=40
grep -qxE "weft: the loss is not finite at step [0-9]+ \(learning rate [0-9.]+\): bucket 0, [a-z0-9_.]+; \
the last checkpoint is as it was" err || fail "diverged: $(cat err)"
expect 0 "$weft" report diverged

# -- a run that could not begin does not hold its folder
refuses "there is no folder nowhere" \
    "$weft" train "${tiny[@]}" data.path=text.txt --folder late --quiet model.init=nowhere
trains late data.path=text.txt
same_losses late other

# -- a finished run has nothing left to do, and model.init takes a run
expect 0 "$weft" train late/config.yaml --resume --quiet
grep -qx "nothing left to do: 8 of run.steps=8 are done in late; its loss: weft eval late" out || fail "finished: $(cat out)"
trains begun data.path=text.txt model.init=late
[[ $(losses begun | head -1) != $(losses late | head -1) ]] || fail "model.init changed nothing"

# a run goes on from another folder: its relative paths are seen from where it was started
expect 0 "$weft" train text.txt "${tiny[@]}" run.folder=moved --quiet
grep -q '^training loss    [0-9.]*, mean of the last 8 steps; [0-9.e-]* of the training text was read, nothing twice: ' out ||
    fail "what the two losses mean: $(cat out)"
mkdir elsewhere
cd elsewhere || exit 1
expect 0 "$weft" train ../moved/config.yaml --resume run.steps=12 --quiet
expect 0 "$weft" eval ../moved
[[ $(tail -1 ../moved/metrics.jsonl) == *'"step":12,'* ]] || fail "it did not go on: $(tail -1 ../moved/metrics.jsonl)"
refuses "could not open none.txt: No such file or directory" \
    "$weft" train ../moved/config.yaml data.path=none.txt --resume run.steps=13 --quiet
[[ $(ls) == err*out ]] || fail "left elsewhere: $(ls)"
cd ..
finish
