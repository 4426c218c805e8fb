#!/bin/bash
# SPDX-License-Identifier: MIT
# `weft tune`: a search over keys in processes of its own; it ends, goes on after a signal and
# after a kill, comes to the same whichever way, and leaves no process behind.
. "$2/tests/cli/helpers.sh"
empty_here
some_text >text.txt
small=("${tiny[@]}" data.path=text.txt)
search=(--key optimizer.lr=1e-5..1e-1 --trials 4 --seeds 2 --budget 9 --eta 3 --rungs 2)

# processes of weft that have this folder in their command line
left() {
    local line file
    for file in /proc/[0-9]*/cmdline; do
        line=$(tr '\0' ' ' 2>/dev/null <"$file") || continue
        [[ $line == *" tune "*"$1"* ]] && echo "$file: $line"
    done
}
settled() { # the lines of a journal without the seconds
    grep -v '^#' "$1/journal.tsv" | cut -f 1-5
}

expect 0 "$weft" tune "${small[@]}" "${search[@]}" --jobs 1 --folder whole
grep -q '^trial    steps     loss   spread  optimizer.lr$' out || fail "the table: $(cat out)"
(($(grep -c '^ *[0-3] ' out) == 4)) || fail "lines of trials: $(cat out)"
grep -qE '^ *[0-3] +9 +[0-9.]+ +[0-9.]+ ' out || fail "no trial at the budget: $(cat out)"
grep -q 'best.yaml$' out || fail "no word of best.yaml"
grep -qE '^  lr: ' whole/best.yaml || fail "best.yaml is $(cat whole/best.yaml)"
printf 'optimizer: {lr: 0.5}\n' >run.yaml
expect 0 "$weft" config run.yaml whole/best.yaml
grep -qF "  lr: $(sed -n 's/^  lr: //p' whole/best.yaml)" out || fail "best.yaml is not taken: $(grep ' lr:' out)"
(($(settled whole | wc -l) >= 4 + 2)) || fail "journal: $(cat whole/journal.tsv)"

# nothing is trained again, and the same comes out
cp whole/journal.tsv before
expect 0 "$weft" tune "${small[@]}" "${search[@]}" --jobs 1 --folder whole --json
same before whole/journal.tsv
grep -qE '^\{"trials": \[\{"trial": [0-3], "steps": 9, "seeds": 2, "loss": [0-9.]+, ' out ||
    fail "json: $(cat out)"
python3 -c 'import json, sys; json.load(open("out"))' || fail "no JSON"

# a rung's loss is that of a run of its own, whole budget, same seed and keys
lr=$(sed -n 's/^  lr: //p' whole/best.yaml)
expect 0 "$weft" train "${small[@]}" run.steps=9 run.folder=alone "optimizer.lr=$lr" --quiet
best=$(head -1 whole/best.yaml | sed 's/.*trial \([0-9]*\) .*/\1/')
cmp -s alone/checkpoints/step-00000009/model.safetensors \
    "whole/trial-000$best-seed-1/checkpoints/step-00000009/model.safetensors" ||
    fail "the best trial is not the run that its keys give"

# a search of which only some lines are left comes to the same losses
mkdir cut && head -4 before >cut/journal.tsv
expect 0 "$weft" tune "${small[@]}" "${search[@]}" --jobs 1 --folder cut --quiet
[[ $(settled cut) == "$(settled whole)" ]] || fail "cut: $(diff <(settled cut) <(settled whole))"

# a signal: the children stop, the search ends well, and goes on later
wait_for() { # until a file is there
    local i
    for ((i = 0; i < 3000; i++)); do
        [[ -s $1 ]] && return
        sleep 0.1
    done
    fail "$1 did not appear"
}
long=("${small[@]}" run.steps=100000 run.log_every=1)
for signal in INT TERM; do
    "$weft" tune "${long[@]}" --key optimizer.lr=1e-4,1e-3 --jobs 2 --rungs 1 \
        --folder "$PWD/stop-$signal" >out 2>err </dev/null &
    pid=$!
    wait_for "stop-$signal/trial-0000-seed-1/metrics.jsonl"
    kill -"$signal" "$pid"
    wait "$pid" || fail "SIG$signal: exit code $?: $(cat err)"
    [[ -z $(left "$PWD/stop-$signal") ]] || fail "SIG$signal leaves $(left "$PWD/stop-$signal")"
    [[ -z $(settled "stop-$signal") ]] || fail "SIG$signal: an unfinished trial is settled"
done

# killed outright: its children go with it, and what they were at goes on
"$weft" tune "${long[@]}" --key optimizer.lr=1e-4,1e-3 --jobs 2 --rungs 1 \
    --folder "$PWD/killed" >out 2>err </dev/null &
pid=$!
wait_for killed/trial-0000-seed-1/metrics.jsonl
kill -KILL "$pid"
wait "$pid" 2>/dev/null
for ((i = 0; i < 3000; i++)); do
    [[ -z $(left "$PWD/killed") ]] && break
    sleep 0.1
done
[[ -z $(left "$PWD/killed") ]] || fail "SIGKILL leaves $(left "$PWD/killed")"

# several at a time: every trial ends, and with one rung it is the same as one by one
expect 0 "$weft" tune "${small[@]}" --key optimizer.lr=1e-3,1e-2,1e-1 --jobs 1 --rungs 1 --folder one
expect 0 "$weft" tune "${small[@]}" --key optimizer.lr=1e-3,1e-2,1e-1 --jobs 3 --rungs 1 --folder three
[[ $(settled one) == "$(settled three | sort)" ]] || fail "side by side: $(settled three)"

# a trial whose loss is no number is a result; a search without any other is refused
expect 0 "$weft" tune "${small[@]}" --key optimizer.lr=1e-3,900 --jobs 1 --rungs 1 \
    --folder wild optimizer.kind=sgd replicator.kind=full optimizer.clip=0
grep -q failed out || echo "note: a rate of 900 did not diverge"

# what is refused, before anything is trained
refuses "there is no key to search over, expected at least one such as --key optimizer.lr=1e-4..1e-2" \
    "$weft" tune "${small[@]}" --folder no
refuses_like "unknown key 'optimizer.rate'.*" \
    "$weft" tune "${small[@]}" --key optimizer.rate=1..2 --folder no
refuses_like "mixer.gamma is set, but mixer.kind none does not read it.*" \
    "$weft" tune "${small[@]}" --key mixer.gamma=0.5,1 --folder no
refuses_like "--jobs is 'x', expected a whole number from 1 to 64" \
    "$weft" tune "${small[@]}" --key optimizer.lr=1,2 --jobs x --folder no
refuses_like "whole/journal.tsv is the journal of another search.*use another folder" \
    "$weft" tune "${small[@]}" "${search[@]}" model.width=32 --folder whole
mkdir other && touch other/file
refuses "other has 1 entries and no journal.tsv, expected an empty folder or that of a search to go on with" \
    "$weft" tune "${small[@]}" "${search[@]}" --folder other
no_files no
echo "$failures failed"
exit $((failures > 0))
