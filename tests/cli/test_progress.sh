#!/bin/bash
# SPDX-License-Identifier: MIT
# The progress of a run: plain lines in a file, one line that fits on a terminal.
# Usage: test_progress.sh PROGRAM SOURCE_DIR
weft=$1
source_dir=$2
# shellcheck source=tests/cli/helpers.sh
. "$source_dir/tests/cli/helpers.sh"
rm -rf quiet plain terminal narrow

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
