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
net_up 5
"$weft" key new >run.key

# renumber I FROM TO [NETWORK]: machine I gives an address back and gets another one.
renumber() {
    local network=${4-10.97.0}
    ip -n "$net-$1" addr del "$network.$2/24" dev eth0
    ip -n "$net-$1" addr add "$network.$3/24" dev eth0
}
losses() { grep -o '"step":[0-9]*\|"loss":[-0-9.e+]*' "$1/metrics.jsonl" | paste - - | sort -u; }
# longest FOLDER: seconds between two of its lines.
longest() {
    grep -o '"elapsed_s":[0-9.e-]*' "$1/metrics.jsonl" | cut -d: -f2 |
        awk 'NR > 1 && $1 - last > most {most = $1 - last} {last = $1} END {print most + 0}'
}

# end_well WHAT N: all N processes end, none was lost, and the losses are those of the folder `still`.
end_well() {
    local i
    until_true 60 "$1: they end" has_ended 0
    for ((i = 0; i < $2; i++)); do
        wait "${started[$i]}" || fail "$1: machine $i: $(tail -n 3 "log.$i")"
        ! says $i "lost\|joined\|suspect\|goes on" || fail "$1: somebody was lost: $(cat "log.$i")"
    done
    diff <(losses still) <(losses run0) >differs || fail "$1: other losses: $(head -4 differs)"
    echo "$1: longest step $(longest run0) s"
    end_all
}

for words in "flexdemo 2" "dadam 3"; do
    rm -rf still
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
    end_well "$method, $n machines" "$n"
    renumber 0 11 1
done

# Two behind two routers, whose bytes 0 relays: who came when the relay said so, then who asked it.
behind 3 1
behind 4 2
k=0
for i in 0 3 4; do
    RANK=$k WORLD_SIZE=3 MASTER_ADDR=10.97.0.1 MASTER_PORT=29500 start $i $k run.yaml mesh.key=run.key method=dadam \
        run.folder=run$k
    k=$((k + 1))
done
until_true 60 "relayed ones begin" has_lines run0 20
says 2 "rank 2 and rank 1 can not reach each other: rank 0 relays" || fail "no relay: $(cat log.2)"
for i in 3 4; do
    renumber $i 2 12 192.168.$i
    ip -n "$net-$i" route add default via 192.168.$i.1
    until_true 20 "relayed, $i: they train on" has_lines run0 $((i * 35 - 45))
done
renumber 1 2 12 # the first router's: it knows its old connections no more, and resets them
until_true 20 "relayed, a router: they train on" has_lines run0 130
end_well relayed 3
renumber 1 12 2

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
