#!/bin/bash
# SPDX-License-Identifier: MIT
# A process dies while all change from outer steps back to averaging all gradients, before or behind the
# mean of the optimizer's states (tests/brutal/changing_machine.c): the others go on, with the same numbers
# on each, and the run is played again to the same bits.
. "$2/tests/cli/helpers.sh"
weft=$FAULTY
. "$2/tests/cli/comings.sh"
keys=(method=auto schedule.kind=constant decide.time=1 decide.alone=together mesh.min_message=1kB)
export WEFT_CHANGES="20 outer f32 5 0.4;40 full f32"

# begins STEPS DIES key=value...: three processes, of which rank 2 dies there.
begins() {
    local steps=$1 dies=$2 r
    shift 2
    free_port
    for r in 2 1 0; do
        if ((r == 2)); then
            WEFT_DIES=$dies founder $r 3 "${keys[@]}" run.steps="$steps" "$@"
        else
            founder $r 3 "${keys[@]}" run.steps="$steps" "$@"
        fi
    done
}
for dies in mean barrier; do
    rm -rf run && pids=()
    begins 4 none decide.keep=exact
    wait "${pids[@]}"
    sed -i 's/"keep": *"exact"/"keep":"optimizer"/' run/decision.json
    begins 120 $dies --resume
    for r in 0 1; do wait "${pids[r]}" || fail "$dies: rank $r ended with $?: $(cat log.$r)"; done
    wait "${pids[2]}" && fail "$dies: rank 2 lives"
    grep -q '"form":"outer f32 5 0.' run/views.jsonl || fail "$dies: no outer steps: $(cat run/views.jsonl)"
    grep -q '"lost":\[\[2,' run/views.jsonl || fail "$dies: nobody is lost: $(cat run/views.jsonl)"
    expect 0 "$weft" train --replay run --quiet
    grep -q "^the same bits .*losses of 120 steps, .*every number of checkpoint 120$" out || fail "$dies: it says $(cat out)"
done
finish
