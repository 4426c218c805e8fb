#!/bin/bash
# SPDX-License-Identifier: MIT
# Processes come into a run that trains over TCP. Nothing here waits for a time: a step takes as long
# as it takes, and what is waited for is a line of a file or the end of a process.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"

# A run of $1 founders with key=value ..., into which one more comes, and which stops then.
grows() {
    local n=$1 r before
    shift
    what="$*"
    rm -rf run out.* log.* && pids=()
    free_port
    for ((r = n - 1; r >= 0; r--)); do founder "$r" "$n" "$@"; done
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    joiner new "$port" "$@"
    await says "joined by rank $n" log.0 || fail "$what: nobody joined: $(tail -n 3 log.*)"
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    says "; $((n + 1)) nodes go on with step" log.0 || fail "$what: log says $(tail -n 3 log.0)"
    says "takes part as rank $n from step" log.new || fail "$what: who came says $(cat log.new)"
    stop "${pids[0]}" "${pids[@]}"
}

# Three come at once; one of them, and one of who began, are killed; two come again, and have their
# places.
# shellcheck disable=SC2120 # by hand with key=value ...
churns() {
    local r before killed
    what="churn $*"
    rm -rf run out.* log.* && pids=()
    free_port
    for ((r = 2; r >= 0; r--)); do founder "$r" 3 "$@"; done
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    joiner a "$port" "$@"
    killed=$last
    joiner b "$port" "$@"
    joiner c "$port" "$@"
    await says "6 nodes go on" log.0 || fail "$what: not all have joined: $(tail -n 3 log.*)"
    kill -9 "$killed" "${pids[1]}"
    await says "lost .*; 4 nodes go on" log.0 || fail "$what: it does not go on: $(tail -n 3 log.*)"
    await says "lost .*; 4 nodes go on" log.0 || fail "$what: it does not go on: $(tail -n 3 log.*)"
    joiner d "$port" "$@"
    joiner e "$port" "$@"
    await says_twice "; 6 nodes go on" log.0 || fail "$what: not all are back: $(tail -n 3 log.*)"
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    wait "$killed" "${pids[1]}" 2>/dev/null
    local left=()
    for r in "${!pids[@]}"; do
        [ "$r" = 1 ] || [ "${pids[r]}" = "$killed" ] || left+=("${pids[r]}")
    done
    stop "${pids[0]}" "${left[@]}"
}

# Who has another model, or other text of the same length, is sent away with a sentence that names
# the key and both values, or the kind of file, and the run does not mind. Whose run.folder holds another
# run hears of it.
refuses_others() {
    local r before key sentence
    what=refuses
    rm -rf run out.* log.* && pids=()
    free_port
    for ((r = 1; r >= 0; r--)); do founder "$r" 2; done
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    tr a-c b-d <text.txt >other.txt
    while read -r key sentence; do
        joiner other "$port" "$key"
        wait "$last" && fail "$what: another $key has joined"
        last=
        says "$sentence" log.other || fail "$what: $key says $(cat log.other)"
        unset "pids[$((${#pids[@]} - 1))]"
    done <<'E'
model.width=48 model.width is 48 here and 32 in the run
method=auto method is auto here, and the run was begun with the name of its method; expected that name
optimizer.lr=0.5 optimizer.lr is 0.5 here and [0-9.e-]* in the run
data.path=other.txt the text (data.path, data.validation_path) is another one here than in the run
E
    run "$weft" train run.yaml run.folder=other run.steps=2 --quiet
    joiner foreign "$port" run.folder=other
    await says "; run.folder holds another run here, and this process writes nothing there" log.foreign ||
        fail "$what: who has another run's folder says $(cat log.foreign)"
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    stop "${pids[0]}" "${pids[@]}"
}

# Who calls before there is a run says so, waits, and comes in when there is one.
waits() {
    local r early
    what=waits
    rm -rf run out.* log.* && pids=()
    free_port
    joiner early "$port"
    early=$last
    await says "does not take this process yet" log.early || fail "$what: it says $(cat log.early)"
    pids=([2]=$early)
    for ((r = 1; r >= 0; r--)); do founder "$r" 2; done
    await says "3 nodes go on" log.0 || fail "$what: it has not joined: $(tail -n 3 log.*)"
    stop "${pids[0]}" "${pids[@]}"
}

# The first process is killed; by the host alone, without a port, another one comes in: the others
# listen at the ports behind the run's.
by_host() {
    local r before
    what=by_host
    rm -rf run out.* log.* && pids=()
    free_port
    for ((r = 2; r >= 0; r--)); do founder "$r" 3; done
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    kill -9 "${pids[0]}"
    wait "${pids[0]}" 2>/dev/null
    unset 'pids[0]'
    await says "lost .*; 2 nodes go on" log.1 || fail "$what: it does not go on: $(tail -n 3 log.*)"
    MASTER_PORT=$port "$weft" train run.yaml --join 127.0.0.1 run.folder=run >out.new 2>log.new &
    last=$!
    pids[3]=$last
    await says "joined by .*; 3 nodes go on" log.1 || fail "$what: nobody joined: $(tail -n 3 log.*)"
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    stop "${pids[1]}" "${pids[@]}"
}

# method=auto where no process sees another one's folder: one is killed and its machine comes again,
# then others that are new; the last is told what was decided by processes that have joined themselves.
decided_apart() {
    local r auto=(method=auto decide.time=1 decide.alone=together)
    what=decided_apart
    rm -rf run run.[0-9a-c] out.* log.* && pids=()
    free_port
    for r in 2 1; do founder "$r" 3 "${auto[@]}" run.folder="run.$r"; done
    founder 0 3 "${auto[@]}"
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    kill -9 "${pids[2]}"
    await says "lost .*; 2 nodes go on" log.0 || fail "$what: it does not go on: $(tail -n 3 log.*)"
    joiner a "$port" "${auto[@]}" run.folder=run.2
    await says "joined by .*; 3 nodes go on" log.0 || fail "$what: it is not back: $(tail -n 3 log.*)"
    joiner b "$port" "${auto[@]}" run.folder=run.b
    await says "; 4 nodes go on" log.0 || fail "$what: nobody new has joined: $(tail -n 3 log.*)"
    [ ! -e run.2/decision.json ] && [ ! -e run.b/decision.json ] || fail "$what: a folder has a decision"
    kill -9 "${pids[1]}"
    await says "lost .*; 3 nodes go on" log.0 || fail "$what: it does not go on: $(tail -n 3 log.*)"
    kill -9 "${pids[0]}"
    await says "lost .*; 2 nodes go on" log.a || fail "$what: it does not go on: $(tail -n 3 log.*)"
    wait "${pids[@]:0:3}" 2>/dev/null
    MASTER_PORT=$port "$weft" train run.yaml --join 127.0.0.1 "${auto[@]}" run.folder=run.c >out.c 2>log.c &
    last=$!
    pids=("${pids[@]:3}" "$last")
    await says "joined by .*; 3 nodes go on" log.a || fail "$what: nobody told it: $(tail -n 3 log.*)"
    kill -9 "${pids[@]}" # each would leave alone
    wait "${pids[@]}" 2>/dev/null
}

# One comes into a run that was resumed, whose first view begins with a later step.
resumes() {
    local r keys=(method=hsdp schedule.kind=constant)
    what="a run that was resumed"
    rm -rf run out.* log.* && pids=()
    free_port
    for r in 2 1 0; do founder "$r" 3 "${keys[@]}" run.steps=4; done
    for r in 0 1 2; do wait "${pids[r]}" || fail "$what: rank $r ended with $?: $(cat log.*)"; done
    free_port
    for r in 2 1 0; do founder "$r" 3 "${keys[@]}" --resume; done
    await has_lines 8 || fail "$what: no step: $(cat log.*)"
    joiner new "$port" "${keys[@]}"
    await says "joined by rank 3" log.0 || fail "$what: nobody joined: $(tail -n 3 log.*)"
    says "; 4 nodes go on with step" log.0 || fail "$what: log says $(tail -n 3 log.0)"
    stop "${pids[0]}" "${pids[@]}"
}

# Where a loss ends the run although mesh.on_loss is go_on, that is said before it begins; with
# on_loss=end nobody expects anything else.
says_what_it_can_not() {
    local r loss said
    for loss in go_on end; do
        what="a deadline between two sites, mesh.on_loss=$loss"
        rm -rf run out.* log.* && pids=()
        free_port
        for ((r = 3; r >= 0; r--)); do
            founder "$r" 4 run.steps=3 method=dadam replicator.kind=full mesh.sites=2 \
                mixer.deadline=0.5 mesh.on_loss=$loss
        done
        for r in 0 1 2 3; do wait "${pids[r]}" || fail "$what: rank $r ended with $?: $(cat log.*)"; done
        said=no
        says "if a process is lost this run ends, .*: with mixer.deadline the nodes of a site" log.0 && said=yes
        [ $loss/$said = go_on/yes ] || [ $loss/$said = end/no ] || fail "$what: it says $(cat log.0)"
    done
}

if [ -n "${only:-}" ]; then
    $only
    finish
    exit
fi
grows 2 method=hsdp
grows 2 method=async-demo run.compare_every=8
grows 2 method=dadam mixer.kind=choco mixer.values=int8 mixer.gamma=0.5
grows 2 method=diloco mixer.outer_every=5
grows 3 method=streaming-diloco mixer.outer_every=12 mixer.values=int4 mixer.fragments=2
churns mesh.streams=4
refuses_others
waits
by_host
decided_apart
resumes
says_what_it_can_not
finish
