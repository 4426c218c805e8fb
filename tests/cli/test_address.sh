#!/bin/bash
# SPDX-License-Identifier: MIT
# A machine's address changes while it trains: where connections are resumed nobody is lost, with the same bits; else it comes
# back. How long it stalls is printed, not judged.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/machines.sh"
empty_here
export WEFT_RESUME=on
write_sentences >text.txt
tokens=1920 small_run "steps: 150, eval_every: 0, save_every: 0" "compute_time: 0.02"
net_up 3
"$weft" key new >run.key

# renumber I FROM TO: machine I gives an address back and gets another one.
renumber() {
    ip -n "$net-$1" addr del "10.97.0.$2/24" dev eth0
    ip -n "$net-$1" addr add "10.97.0.$3/24" dev eth0
}
losses() { grep -o '"step":[0-9]*\|"loss":[-0-9.e+]*' "$1/metrics.jsonl" | paste - - | sort -u; }
# longest FOLDER: seconds between two of its lines.
longest() {
    grep -o '"elapsed_s":[0-9.e-]*' "$1/metrics.jsonl" | cut -d: -f2 |
        awk 'NR > 1 && $1 - last > most {most = $1 - last} {last = $1} END {print most + 0}'
}

for words in "flexdemo 2" "dadam 3"; do
    read -r method n <<<"$words"
    # shellcheck disable=SC2086
    "$weft" train run.yaml method=$method mesh.nodes=$n run.folder=still >out.still 2>log.still ||
        fail "without machines: $(tail -n 3 log.still)"
    founders "$n" run.yaml mesh.key=run.key method=$method mesh.streams=$((n - 1)) # each socket goes on
    until_true 60 "$n begin" has_lines run0 20
    renumber 1 2 12 # one that was called, or calls
    until_true 20 "$method, $n: they train on" has_lines run0 60
    renumber 1 12 2
    until_true 20 "$method, $n: they train on" has_lines run0 90
    renumber 0 1 11 # all know the others by it
    until_true 60 "$method, $n: they end" has_ended 0
    renumber 0 11 1
    for ((i = 0; i < n; i++)); do
        wait "${started[$i]}" || fail "$method, $n: machine $i: $(tail -n 3 "log.$i")"
        ! says $i "lost\|joined\|suspect\|goes on" || fail "$method, $n: somebody was lost: $(cat "log.$i")"
    done
    diff <(losses still) <(losses run0) >differs || fail "$method, $n: other losses: $(head -4 differs)"
    echo "$method, $n machines: longest step $(longest run0) s"
    end_all
    rm -rf still
done

# Without WEFT_RESUME the others go on, and the machine joins them again from its new address.
unset WEFT_RESUME
sed -i 's/steps: 150/steps: 100000/' run.yaml
founders 3 run.yaml mesh.key=run.key
until_true 60 "three begin" has_lines run0 20
renumber 2 3 13
until_true 20 "it is lost" says 0 "lost rank 2"
until_true 30 "it is in the run again" says 0 "3 nodes go on"
end_all
finish
