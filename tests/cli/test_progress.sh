#!/bin/bash
# SPDX-License-Identifier: MIT
# The progress of a run: plain lines in a file, one line that fits on a terminal.
. "$2/tests/cli/helpers.sh"
rm -rf quiet plain terminal narrow slow cost.*

seq 20000 >text.txt
tiny=(data.path=text.txt data.length=16 model.layers=1 model.width=16 model.heads=1
    batch.tokens_per_step=64 schedule.warmup=1 run.steps=50 run.eval_tokens=256)

expect 0 "$weft" train "${tiny[@]}" --folder quiet --quiet
[[ ! -s err ]] || fail "--quiet says: $(head -1 err)"

expect 0 "$weft" train "${tiny[@]}" --folder plain
escape=$(printf '\033')
if grep -q "[$escape]" err; then fail "escape codes in a file"; fi
! grep -q '\[=' err || fail "a bar in a file"
lines=$(grep -c '^train ' err)
((lines >= 5 && lines <= 15)) || fail "$lines lines of progress for 50 steps, expected about 10"
grep -q '^train 50/50 100%  loss [0-9.]*  ' err || fail "the last step is not shown"
! grep -q "evaluates" err || fail "a short evaluation is announced: $(grep evaluates err)"

# -- an evaluation of over ten seconds, by the rate of the steps, is announced once
expect 0 "$weft" train "${tiny[@]}" --folder slow run.steps=2 run.eval_every=1 mesh.compute_time=1 run.eval_tokens=2560
[[ $(grep -c '^weft: evaluates after step 1 for about 1[34] s (run.eval_tokens)$' err) == 1 ]] ||
    fail "a long evaluation: $(grep evaluates err)"

# -- a checkpoint: its bytes and its time are said before the first step, and the time again when it is known
costs() {
    local name=$1
    shift
    expect 0 "$weft" train "${tiny[@]}" model.width=64 run.steps=30 --folder "cost.$name" "$@"
    head -n "$(grep -n '^train ' err | head -1 | cut -d: -f1)" err |
        grep -oE '^saves    [0-9.]+ (kB|MB) in about [0-9.e-]+ s (\(.*\) )?every .*' >cost || fail "$name: $(cat err)"
    find "cost.$name"/checkpoints/step-00000030 -name '*.safetensors' -printf '%s\n' |
        awk -v said="$(cut -c 10- cost)" '{ n += $1 }
            END { split(said, w, " "); x = w[1] * (w[2] == "kB" ? 1e3 : 1e6); exit !(x > 0.94 * n && x < 1.03 * n) }' ||
        fail "$name: $(cat cost), and it is $(du -sb "cost.$name"/checkpoints/step-00000030)"
}
costs adamw run.save_every=20
grep -q ' every 20 steps (run.save_every) and every 10 min (run.save_time)$' cost || fail "how often: $(cat cost)"
grep -qE '^weft: saved after step 20 in [0-9.e-]+ s \([0-9.e-]+ s predicted\)$' err || fail "measured: $(cat err)"
costs diloco method=diloco mesh.nodes=2 run.save_time=0 run.save_every=1
grep -q ' every step (run.save_every)$' cost || fail "how often: $(cat cost)"
costs demo method=flexdemo mesh.nodes=2 run.save_time=1e-6
grep -q '(run.save_time, at most 2 % of the time)$' cost || fail "how often: $(cat cost)"
grep -qE '^weft: saved after step [0-9]+ in .* predicted\), 2 % of the time; again every ' err || fail "by the clock: $(cat err)"
# Beside the disk: replicas that differ are averaged on the wire, and all vote three times. The predicted figure
# is arithmetic, and the emulated wire makes the measured one at least as long.
costs linked method=diloco mesh.nodes=2 mesh.link=10Mbit,50ms run.save_every=20
parameters=$(awk '/^# [0-9]+ parameters$/ {print $2}' cost.linked/config.yaml)
sed -nE 's/^saves .* in about ([0-9.e-]+) s \(([0-9.e-]+) s on the disk, ([0-9.e-]+) s on the wire\) .*/\1 \2 \3/p' cost |
    awk -v wire="$(awk -v n="$parameters" 'BEGIN {print 5 * 0.05 + 4 * n / 1.25e6}')" '
        { near = $3 > 0.94 * wire && $3 < 1.06 * wire; sum = $1 > 0.94 * ($2 + $3) && $1 < 1.06 * ($2 + $3) }
        END { exit !(NR == 1 && near && sum) }' || fail "what the wire takes of $parameters parameters: $(cat cost)"
grep -oE 'saved after step 20 in [0-9.e-]+' err | awk -v n="$parameters" '{ exit !($NF > 0.9 * (0.25 + 4 * n / 1.25e6)) }' ||
    fail "an average takes less than its bytes: $(grep saved err)"
costs voted method=flexdemo mesh.nodes=2 mesh.link=1Gbit,50ms
grep -qE ' s on the disk, 0\.15 s on the wire\) ' cost || fail "three votes: $(cat cost)"
costs topk method=topk mesh.nodes=2
! grep -q 'saved after' err || fail "nothing was saved before the end: $(cat err)"
[[ -z $(find cost.* -name '.write*') ]] || fail "the sample stays: $(find cost.* -name '.write*')"

if command -v script >/dev/null; then
    script -qec "stty cols 60; TERM=xterm $weft train ${tiny[*]} --folder terminal" /dev/null \
        </dev/null >screen || fail "training on a terminal fails"
    tr '\r' '\n' <screen | sed "s/$escape\[K//g" | grep '^train ' >drawn
    [[ -s drawn ]] || fail "nothing drawn on a terminal"
    awk 'length > 59' drawn >wide
    [[ ! -s wide ]] || fail "wider than the terminal: $(head -1 wide)"
    grep -q '^train 50/50 100%' drawn || fail "the last step is not drawn"
    grep -q '^train 50/50 100% \[=\{10,40\}\]  loss ' drawn || fail "no full bar: $(tail -1 drawn)"
    grep -q '^train [0-9]*/50 [0-9]*% \[=*> *\]  loss ' drawn || fail "no bar on the way: $(head -1 drawn)"
    (($(sed 's/.*\[\(.*\)\].*/\1/' drawn | awk '{print length}' | sort -u | wc -l) == 1)) || fail "the bar's width changes"
    script -qec "stty cols 24; TERM=xterm $weft train ${tiny[*]} --folder narrow" /dev/null \
        </dev/null >screen || fail "training on a narrow terminal fails"
    ! tr '\r' '\n' <screen | grep '^train ' | grep -q '\[=' || fail "a bar where there is no room"
fi

finish
