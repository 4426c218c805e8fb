#!/bin/bash
# SPDX-License-Identifier: MIT
# What is wrong with a file, a value or an argument is said in one sentence, with exit code 2;
# nothing else is printed, and nothing half-written stays.
. "$2/tests/cli/helpers.sh"
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
umount full 2>/dev/null # of a test that was killed
empty_here
some_text >text.txt
printf 'short' >short.txt
: >empty.txt
mkdir empty

# refuses_run SENTENCE KEY...: a run that is refused and leaves no file.
refuses_run() {
    local sentence=$1
    shift
    refuses "$sentence" "$weft" train "${tiny[@]}" data.path=text.txt --folder new "$@"
    no_files new
}

# -- commands, flags, keys, values
refuses "unknown command 'trian' (did you mean 'train'?)" "$weft" trian text.txt
refuses "unknown flag --step of 'weft train' (did you mean --steps?)" "$weft" train --step 3
refuses "unknown flag --outptu of 'weft report' (did you mean --output?)" "$weft" report --outptu page.html
refuses "unknown flag --outptu of 'weft list', see weft list --help" "$weft" list --outptu page.html
for flag in --join=host --resume --returns=3 --listen=7000 --replay=run --plan=here --quiet; do
    refuses "${flag%%=*} is about how 'weft train' starts and sets no key, so 'weft config' does not take it" \
        "$weft" config "$flag"
done
"$weft" train --version | grep -qx "$("$weft" --version)" || fail "train --version: $("$weft" train --version 2>&1)"
refuses "unknown flag --temprature of 'weft sample' (did you mean --temperature?)" \
    "$weft" sample run --temprature 1
refuses "--folder needs a value: --folder FOLDER" "$weft" train data.path=text.txt --folder
refuses "--resume takes no value, found 'now'" "$weft" train --resume=now
refuses "an argument is missing, expected: weft eval RUN [--data FILE]" "$weft" eval
refuses "'b' is one argument too many, expected: weft eval RUN [--data FILE]" "$weft" eval a b
refuses "--tokens is 'many', expected a whole number from 1 to 1000000" \
    "$weft" sample run --tokens many
refuses "--temperature is '-1', expected a number from 0 to 100" \
    "$weft" sample run --temperature -1
refuses "--steps is '0', expected a whole number from 1 to 10000" "$weft" bench train --steps 0
refuses "unknown benchmark 'tran', expected train, kernels, optimizers or replicators" "$weft" bench tran

refuses_run "unknown key 'optimizer.lrr' (did you mean 'optimizer.lr'?)" optimizer.lrr=1
refuses_run "unknown key 'lr' (did you mean 'optimizer.lr'?)" lr=1
# -- a launcher's variables: none is passed over
alone="unset WORLD_SIZE and RANK to train in this process alone"
whole="expected a whole number from"
RANK=0 WORLD_SIZE=two refuses_run "WORLD_SIZE is 'two', $whole 1 to 2147483647; $alone"
RANK=x WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 refuses_run "RANK is 'x', $whole 0 to 1; $alone"
RANK=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 refuses_run "RANK is '2', $whole 0 to 1; $alone"
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=http \
    refuses_run "MASTER_PORT is 'http', $whole 1 to 65535; $alone"
RANK=0 WORLD_SIZE=2 refuses_run "WORLD_SIZE=2 and RANK=0 are set, but not MASTER_ADDR; expected the name of rank 0's machine; $alone"

refuses_run "run.save_every is '5min', expected a whole number of at least 0 (steps); a time is run.save_time=5min" \
    run.save_every=5min
refuses_run "run.save_time is '5m', expected a number of at least 0 (seconds) (did you mean '5min'?)" run.save_time=5m
refuses_run "mesh.link is '1Gb,10ms', expected 'none' or RATE,LATENCY such as '100Mbit,10ms' (did you mean '1Gbit,10ms'?)" \
    mesh.link=1Gb,10ms
refuses_run "mesh.link is '1Gbit,5m', expected 'none' or RATE,LATENCY such as '100Mbit,10ms' (did you mean '1Gbit,5ms'?)" \
    mesh.link=1Gbit,5m
refuses_run "run.steps is '2min', expected a whole number of at least 1 (steps)" run.steps=2min
refuses_run "mesh.memory_limit is '4Gb', expected a size such as 64kB or 4MB (did you mean '4GB'?)" mesh.memory_limit=4Gb
refuses_run "run.save_every is 'ten', expected a whole number of at least 0 (steps)" run.save_every=ten
refuses_run "run.steps is 'ten', expected a whole number of at least 1 (steps)" run.steps=ten
refuses_run "run.steps is '1.5', expected a whole number of at least 1 (steps)" --steps 1.5
refuses_run "optimizer.lr is 'nan', expected a number from 0 to 1000" optimizer.lr=nan
refuses_run "mesh.overlap is 'maybe', expected true or false" mesh.overlap=maybe
refuses_run "model.kind is 'gpt3', expected gpt2, llama, mistral, qwen2, qwen3, olmo2, olmo3, gemma, gemma2, gemma3, phi3, gpt_neox, opt, seed_oss, smollm3, starcoder2, ernie4_5, helium, granite, olmo, arcee, t5 or vit (did you mean 'gpt2'?)" \
    model.kind=gpt3
refuses_run "mesh.memory_limit is '3GBit', expected a size such as 64kB or 4MB" \
    mesh.memory_limit=3GBit
for link in 100mbit 1Gbit; do
    refuses_run "mesh.link is '$link', a rate without a latency, expected RATE,LATENCY such as '$link,10ms' or '$link,0ms'" \
        mesh.link=$link
done
refuses_run "mesh.link is '100MB,10ms', expected 'none' or RATE,LATENCY such as '100Mbit,10ms' (did you mean '100MB/s,10ms'?)" \
    mesh.link=100MB,10ms
for link in 100Mbit,10kg 10ms,100Mbit; do
    refuses_run "mesh.link is '$link', expected 'none' or RATE,LATENCY such as '100Mbit,10ms'" \
        mesh.link=$link
done
cat >bad.yaml <<'YAML'
optimizer:
  lr: 1e-3
  learning_rat: 1e-3
  beta: 0.9
YAML
refuses "bad.yaml:3: unknown key 'optimizer.learning_rat'" "$weft" train bad.yaml
sed -i 3d bad.yaml
refuses "bad.yaml:3: unknown key 'optimizer.beta' (did you mean 'optimizer.beta1'?)" \
    "$weft" train bad.yaml
printf 'rum:\n  steps: 5\n' >bad.yaml
refuses "bad.yaml:1: unknown section 'rum' (did you mean 'run'?)" "$weft" train bad.yaml
printf 'run:\n  steps: [1, 2]\n' >bad.yaml
refuses "bad.yaml:2: run.steps is a list, expected a whole number of at least 1 (steps)" \
    "$weft" train bad.yaml

# -- files that are not there, not readable, not what they should be
refuses "could not open nowhere.yaml: No such file or directory" "$weft" train nowhere.yaml
none="the folder empty has no *.txt, *.md, *.jsonl, *.csv (or those with .gz or .zst) and no *.bin"
refuses_run "$none" empty
cp text.txt text.yaml
refuses "text.yaml:1: found a single value or list, expected sections and keys" \
    "$weft" train text.yaml
refuses_run "could not open nowhere.txt: No such file or directory" data.path=nowhere.txt
export WEFT_CACHE=$PWD/cache
unset AWS_ACCESS_KEY_ID
for address in "https://a.example/b.txt could not fetch .*: Could not resolve host: a.example" \
    "s3://b/c.txt .* needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment" \
    "ftp://b/c.txt .* is an address that is not known, expected https://, http://, s3:// or a file"; do
    for word in data.path="${address%% *}" "${address%% *}"; do
        refuses_like "(${address#* }|.* is an address, and this weft was built without libcurl .*)" \
            "$weft" train "${tiny[@]}" --folder new "$word"
    done
done
refuses "text.txt is a file, expected the folder of a run or a model" \
    "$weft" train --init text.txt data.path=text.txt
refuses_run "could not open nowhere.txt: No such file or directory" data.path=text.txt,nowhere.txt
refuses_run "could not open nowhere.txt: No such file or directory" \
    data.validation_path=nowhere.txt
refuses_run "could not open nowhere.json: No such file or directory" data.tokenizer=nowhere.json
refuses_run "$none" data.path=empty
refuses_run "data.path names no text; give data.path=my.txt" data.path=
refuses_run "data.tokenizer is 'bpee', expected bytes, bpe, ids or the path of a tokenizer.json" \
    data.tokenizer=bpee
refuses_run "text.txt: not a JSON object: line 1, column 3: '[' or '{' expected near 'the'" \
    data.tokenizer=text.txt
for command in eval sample; do
    refuses "empty holds no complete checkpoint (checkpoints/step-*) and no model.safetensors or model.safetensors.index.json" \
        "$weft" $command empty
    refuses "there is no folder nowhere" "$weft" $command nowhere
done
refuses "there is no folder nowhere" "$weft" merge nowhere -o merged
# -- what is no run's folder is refused alike by all who read one: what was found, what is expected
mkdir -p several/{a,b} shape
printf 'method: none\n' | tee several/a/config.yaml >several/b/config.yaml
echo '{}' >shape/config.json
for command in report watch audit verify "train --replay" "report --trace step.json"; do
    for row in "could not open the run folder nowhere: No such file or directory|nowhere" \
        "http://a.example/run is an address, expected a run folder of this machine|http://a.example/run" \
        "ftp://a.example/run is an address, expected a run folder of this machine|ftp://a.example/run" \
        "text.txt is a file, expected a run folder|text.txt" \
        "shape is the folder of a model, expected that of a run|shape" \
        "several holds runs, expected one of them: several/a, several/b|several"; do
        [[ $command:$row != watch:*nowhere ]] || continue # it waits for that one
        # shellcheck disable=SC2086
        run "$weft" $command "${row#*|}"
        [[ $code == 2 && $(cat err) == *"${row%|*}" ]] || fail "$command ${row#*|}: code $code, $(cat err)"
    done
done
for command in eval sample "merge -o merged" "config --init" "train text.txt --init"; do
    # shellcheck disable=SC2086
    refuses "several holds runs, expected one of them: several/a, several/b" "$weft" $command several
    # shellcheck disable=SC2086
    refuses "ftp://a.example/m is an address that is not known, expected https://, http://, s3:// or a folder" \
        "$weft" $command ftp://a.example/m
done
refuses "could not open empty/metrics.jsonl: No such file or directory" "$weft" report empty

# as somebody who may not read or write here, which root is not
somebody=()
if (($(id -u) == 0)); then somebody=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
chmod 755 .
if "${somebody[@]}" "$weft" --version >/dev/null 2>&1 && "${somebody[@]}" test -r text.txt; then
    mkdir locked open
    cp text.txt locked.txt
    cp bad.yaml locked.yaml
    chmod 000 locked.txt locked.yaml
    chmod 555 locked
    chmod 777 open
    refuses "could not open locked.txt: Permission denied" \
        "${somebody[@]}" "$weft" train "${tiny[@]}" data.path=locked.txt --folder open/new
    no_files open
    refuses "could not open locked.yaml: Permission denied" \
        "${somebody[@]}" "$weft" train locked.yaml
    refuses "could not create locked/new: Permission denied" \
        "${somebody[@]}" "$weft" train "${tiny[@]}" data.path=text.txt --folder locked/new
    chmod 755 locked
fi

# -- a run folder that cannot be made
refuses_run "text.txt is there already and is not a folder" --folder text.txt
refuses_run "could not create text.txt/new: Not a directory" --folder text.txt/new
refuses_run "run.folder is '', expected a text that is not empty" run.folder= --folder ''
some_text >again.txt
same text.txt again.txt

# -- text that is too little, ranks that do not fit, vocabularies that differ
refuses_run "empty.txt is empty, expected text" data.path=empty.txt
refuses_run "empty.txt is empty, expected text" data.validation_path=empty.txt
refuses_run "empty.txt is empty, expected text" data.path=empty.txt data.tokenizer=bpe
few="expected at least 17"
refuses_run "data.length is 16 but short.txt has only 5 training tokens, $few" data.path=short.txt
refuses_run "data.length is 16 but short.txt has only 5 validation tokens, $few" data.validation_path=short.txt
# -- plan and config say it, too, of what lies here: by a key, a run file or as an operand
printf '{"data": {"path": "short.txt", "length": 16}}' >short.yaml
head -c 40 text.txt >forty.txt
mkdir -p few
cp short.txt few/a.txt
cp short.txt few/b.txt
for command in config "plan --link 1Gbit,1ms --node-flops 1T"; do
    for words in "short.txt training 5 short.txt" "short.txt training 5 data.path=short.txt" \
        "short.txt training 5 short.yaml" "few training 12 few" \
        "short.txt validation 5 text.txt data.validation_path=short.txt" \
        "forty.txt validation 8 forty.txt data.validation=0.2"; do
        read -r name role n words <<<"$words"
        # shellcheck disable=SC2086
        refuses "data.length is 16 but $name has only $n $role tokens, $few" "$weft" $command data.length=16 $words
    done
    for bad in "could not open nowhere.txt: No such file or directory" "empty.txt is empty, expected text" \
        "$weft is a program or library (ELF), expected text in UTF-8"; do
        name=${bad#could not open }
        name=${name%%[: ]*}
        # shellcheck disable=SC2086
        refuses "$bad" "$weft" $command text.txt data.validation_path="$name"
    done
    # what keys name may all lie on another machine
    # shellcheck disable=SC2086
    expect 0 "$weft" $command data.path=there.txt data.validation_path=nowhere.txt
    # shellcheck disable=SC2086
    expect 0 "$weft" $command text.txt data.length=16
done
refuses_like "data\.length is 32768 but text\.txt has only [0-9]+ training tokens, expected at \
least 32769" "$weft" train "${tiny[@]}" data.path=text.txt data.length=32768 \
    batch.tokens_per_step=32768 --folder new
no_files new
refuses_run "batch.tokens_per_step is 64, expected a multiple of 48 (3 ranks times data.length 16) \
such as 48" mesh.nodes=3
refuses_run "batch.tokens_per_step is 64, expected a multiple of 128 (8 ranks times data.length \
16) such as 128" mesh.nodes=2 mesh.ranks_per_node=4
refuses_run "batch.micro is 3, expected a divisor of 4, the sequences of each rank in a step" \
    batch.micro=3
refuses_run "model.width is 16, expected a multiple of model.heads (3)" model.heads=3
refuses_run "model.vocab is 255, but the tokenizer has 256 ids" model.vocab=255
refuses_run "data.weights has 2 numbers, expected one for each data.path (1)" data.weights=1,2

# -- a model that is too big, for the machine and for a limit
huge='the run needs [0-9.]+ [kMGT]B \([0-9]+ ranks? x [0-9.]+ [kMGT]B: [0-9.]+ [kMGT]B parameters, '
huge+='gradients and state, [0-9.]+ [kMGT]B activations\), but %s; use fewer layers or width, '
huge+='batch\.micro=1 or model\.recompute=true'
# shellcheck disable=SC2059
refuses_like "$(printf "$huge" '[0-9.]+ [MGT]B is free')" "$weft" train data.path=text.txt \
    model.width=65536 model.layers=1000 model.heads=16 --folder new
# shellcheck disable=SC2059
refuses_like "$(printf "$huge" '(3\.[0-9]|4\.0) GB is free under mesh\.memory_limit')" \
    "$weft" train data.path=text.txt model.width=8192 model.layers=3 model.heads=16 \
    mesh.memory_limit=4GB --folder new
# shellcheck disable=SC2059
refuses_like "$(printf "$huge" '0 B is free under mesh\.memory_limit')" "$weft" train "${tiny[@]}" \
    data.path=text.txt mesh.memory_limit=64kB --folder new
no_files new

# -- token shards: another tokenizer, cut off, a flipped bit
expect 0 "$weft" data encode text.txt -o bytes.bin
expect 0 "$weft" data train-tokenizer text.txt -o bpe.json --vocab 280
expect 0 "$weft" data encode text.txt -o bpe.bin --tokenizer bpe.json
bytes_hash=$("$weft" data inspect bytes.bin | sed -n 's/^tokenizer hash: //p')
bpe_hash=$("$weft" data inspect bpe.bin | sed -n 's/^tokenizer hash: //p')
other="was written with another tokenizer: hash"
refuses_run "bpe.bin $other $bpe_hash with 280 ids, expected $bytes_hash with 256" data.path=bpe.bin
refuses_run "bytes.bin $other $bytes_hash with 256 ids, expected $bpe_hash with 280" \
    data.path=bytes.bin data.tokenizer=bpe.json
n=$(stat -c %s bytes.bin)
for bytes in 0 10 64 65 $((n - 1)) $((n + 2)); do
    cp bytes.bin cut.bin
    truncate -s "$bytes" cut.bin
    case $bytes in
    0) sentence="cut.bin is empty, expected tokens" ;;
    10) sentence="cut.bin is cut off: 10 bytes, expected a header of 64" ;;
    *) sentence="cut.bin says that it has $(((n - 64) / 2)) tokens of 2 bytes, but \
$((bytes - 64)) bytes follow its header" ;;
    esac
    refuses_run "$sentence" data.path=cut.bin
done
sum='[0-9a-f]{16}'
for at in 0 7 8 12 16 24 32 40 48 56 63 64 $((n / 2)) $((n - 1)); do
    cp bytes.bin cut.bin
    flip cut.bin "$at"
    if ((at < 8)); then
        sentence="the first bytes of cut\.bin are damaged"
    elif ((at == 8)); then
        sentence="cut\.bin is a token shard of version 0, expected 1"
    elif ((at < 64)); then
        sentence="the header of cut\.bin is damaged: its checksum is $sum, expected $sum"
    else
        sentence="the tokens of cut\.bin are damaged: their checksum is $sum, expected $sum"
    fi
    refuses_like "$sentence" "$weft" train "${tiny[@]}" data.path=cut.bin --folder new
    refuses_like "$sentence" "$weft" data inspect cut.bin
done
no_files new
cp text.txt text.bin
refuses_run "token 0 of text.bin has the id 26740, expected 0 to 255: the file was written with \
another tokenizer, or holds no tokens" data.path=text.bin

# -- checkpoints: a flipped bit, a missing or a foreign file, cut off
demo=(mesh.nodes=2 replicator.kind=demo data.path=text.txt run.save_every=4)
expect 0 "$weft" train "${tiny[@]}" "${demo[@]}" --folder run --quiet
expect 0 "$weft" eval run
cp out evaluated
old=run/checkpoints/step-00000004
step=run/checkpoints/step-00000008
# says SENTENCE COMMAND...: the command does its work and passes over a checkpoint for that reason.
says() {
    local sentence=$1
    shift
    expect 0 "$@"
    grep -qxE -- "weft: warning: a damaged checkpoint is passed over: $sentence" err ||
        fail "no '$sentence' in '$(cat err)'"
}
# damaged SENTENCE: eval and sample take the checkpoint before and leave the run as it is; a copy
# is resumed from there.
damaged() {
    (cd run && find . -type f -exec cksum {} + | sort) >before
    says "$1" "$weft" eval run
    says "$1" "$weft" sample run --tokens 3
    (cd run && find . -type f -exec cksum {} + | sort) >after
    same before after
    rm -rf away && mkdir away && cp -r run away/run
    cd away || exit 1
    says "$1" "$weft" train run/config.yaml data.path=../text.txt --folder run --resume \
        --quiet run.steps=12
    cd .. || exit 1
    [[ -e away/$old/index.json && -e away/$step/index.json ]] || fail "steps 4 and 8 are not there"
    [[ -e away/run/checkpoints/step-00000012/index.json ]] || fail "not resumed to its end"
    no_files away/run/checkpoints/*.damaged
}
sum='[0-9a-f]{32}'
n_files=0
for path in "$step"/*; do
    n_files=$((n_files + 1))
    n=$(stat -c %s "$path")
    sentence="$path is damaged: its hash is $sum, expected $sum"
    if [[ $path == */index.json ]]; then sentence="$path is (damaged|not valid).*"; fi
    cp "$path" kept
    places="0 $((n - 1))" # the middle is below
    [[ $path != */index.json ]] || places="0 8 $((n / 3)) $((n - 56)) $((n - 40)) $((n - 1))"
    for at in $places; do
        flip "$path" "$at"
        says "$sentence" "$weft" eval run
        refuses_like "$sentence" "$weft" sample $step
        cp kept "$path"
    done
    flip "$path" $((n / 2))
    damaged "$sentence"
    truncate -s $((n / 2)) "$path"
    if [[ $path != */index.json ]]; then
        damaged "$path is damaged: it has $((n / 2)) bytes, expected $n"
        rm "$path"
        damaged "$step is not complete: its index.json lists ${path##*/}, which is not there"
    else
        damaged "$path is damaged.*"
    fi
    cp kept "$path"
done
((n_files == 8)) || fail "$n_files files in a checkpoint, expected 8"
: >$step/notes.txt
for command in "eval run" "sample run --tokens 3" "train run/config.yaml --resume run.steps=12"; do
    # shellcheck disable=SC2086
    refuses "$step has a file that its index.json does not list: notes.txt" "$weft" $command
done
rm $step/notes.txt
mv $step run/checkpoints/step-00000009
says "run/checkpoints/step-00000009 holds step 8, as its index.json says" "$weft" eval run
mv run/checkpoints/step-00000009 $step
expect 0 "$weft" eval run
same out evaluated

# -- resuming another run, evaluating with another tokenizer, no prompt
resumes() {
    local sentence=$1
    shift
    sentence="copy/checkpoints/step-00000008 $sentence"
    refuses_like "$sentence" "$weft" train "${tiny[@]}" "${demo[@]}" --folder copy \
        --resume run.steps=12 "$@"
    [[ ! -e copy/checkpoints/step-00000012 ]] || fail "another run was continued: $*"
    diff -r run copy >differences || fail "a refused run changed: $(head -1 differences)"
}
cp -r run copy
had=$(sed -n 's/.*"parameters": *\([0-9]*\).*/\1/p' $step/index.json)
resumes "was trained with replicator demo, this run has full" replicator.kind=full
resumes "was trained with optimizer adamw, this run has sgd" optimizer.kind=sgd
resumes "has $had parameters and seed 1, this run [0-9]+ and 1" model.width=32
resumes "has $had parameters and seed 1, this run [0-9]+ and 1" model.kind=llama
resumes "has $had parameters and seed 1, this run $had and 2" run.seed=2
resumes "has a model with model.heads 2, this run one with 4" model.heads=4
for file in model.safetensors replica-00000.safetensors; do
    cksum <$step/$file >before
    cksum <copy/checkpoints/step-00000008/$file >after
    same before after
done
refuses "bpe.bin $other $bpe_hash with 280 ids, expected $bytes_hash with 256" \
    "$weft" eval run --data bpe.bin
refuses "could not open nowhere.txt: No such file or directory" "$weft" eval run --data nowhere.txt
refuses "empty.txt is empty, expected text" "$weft" eval run --data empty.txt
refuses_like "data\.length is 16 but short\.txt has only 5 [a-z]+ tokens, expected at least 17" \
    "$weft" eval run --data short.txt
refuses "the prompt is empty, expected some text" "$weft" sample run --prompt ""
refuses "$step is not a run folder (no config.yaml); give --data FILE" "$weft" eval $step
cp -r run spoilt
echo '{"step":8,"loss":' >>spoilt/metrics.jsonl
expect 0 "$weft" report spoilt
grep -qE "line [0-9]+ of spoilt/metrics\.jsonl is left out, for it is not a JSON object" err ||
    fail "no word of a damaged line: $(cat err)"

# -- no room: a limit on the size of files, then a full disk
room() {
    local kB=$1
    shift
    bash -c 'ulimit -f "$1" && shift && exec "$@"' room "$kB" "$@"
}
# no_room REGEX COMMAND...: exit code 2; all lines but the last are warnings, and the last one matches.
no_room() {
    local regex=$1
    shift
    expect 2 "$@"
    head -n -1 err | grep -vq "^weft: warning: the checkpoint of step [48] is not written: " &&
        fail "more than warnings of checkpoints: $(cat err)"
    tail -n 1 err | grep -qxE -- "weft: (rank 0: )?(the last checkpoint, of step 8, could not be written: )?$regex" ||
        fail "found '$(tail -n 1 err)', expected 'weft: $regex'"
}
# whole RUN: what is there under its final name is whole.
whole() {
    [[ ! -e $1/config.yaml ]] || expect 0 "$weft" config "$1/config.yaml"
    [[ ! -s $1/metrics.jsonl || $(tail -c 1 "$1/metrics.jsonl" | od -An -c) == *\\n* ]] ||
        fail "the last line of $1/metrics.jsonl is cut off"
    for folder in "$1"/checkpoints/step-????????; do
        [[ ! -e $folder ]] || same "$folder/model.safetensors" \
            "run/checkpoints/${folder##*/}/model.safetensors"
    done
    [[ -z $(find "$1" -name '*.tmp*') ]] || fail "left behind: $(find "$1" -name '*.tmp*')"
}
biggest=$(($(stat -c %s $step/optimizer.safetensors) / 1024 + 1))
model=$(($(stat -c %s $step/model.safetensors) / 1024 + 1))
for kB in 1 $((model / 2)) "$model" $((biggest - 1)); do
    no_room "could not (write|reserve [0-9]+ bytes for) .*: File too large" \
        room "$kB" "$weft" train "${tiny[@]}" "${demo[@]}" --folder small.$kB --quiet
    whole small.$kB
    [[ -z $(ls -d small."$kB"/checkpoints/step-???????? 2>/dev/null) ]] || fail "half a checkpoint"
    [[ ! -e small.$kB/report.html ]] || fail "a report of a run that failed"
done
rm -f small.1/metrics.jsonl # steps without a checkpoint
expect 0 "$weft" train "${tiny[@]}" "${demo[@]}" --folder small.1 --quiet --resume
same small.1/checkpoints/step-00000008/model.safetensors $step/model.safetensors
for arguments in "data encode text.txt -o big.bin" "data train-tokenizer text.txt -o big.json" \
    "report run -o big.html"; do
    # shellcheck disable=SC2086
    refuses_like "could not write .*: File too large" room 1 "$weft" $arguments
    no_files big*
done

mkdir full
fits=$((2 * ($(du -s -k --apparent-size $old | cut -f1) + 40)))
if mount -t tmpfs -o size=$((fits * 2 / 3))k tmpfs full 2>/dev/null; then
    trap 'umount full' EXIT
    sentence="could not (write|reserve [0-9]+ bytes for) .*: No space left on device"
    no_room "$sentence" "$weft" train "${tiny[@]}" "${demo[@]}" --folder full/run --quiet
    whole full/run
    [[ -e full/run/checkpoints/step-00000004/index.json ]] || fail "the first checkpoint is lost"
    [[ ! -e full/run/checkpoints/step-00000008 ]] || fail "the second checkpoint had no room"
    expect 0 "$weft" eval full/run
    mount -o remount,size=$((fits * 2))k full
    expect 0 "$weft" train "${tiny[@]}" "${demo[@]}" --folder full/run --quiet --resume
    whole full/run
    same full/run/checkpoints/step-00000008/model.safetensors $step/model.safetensors
fi

finish
