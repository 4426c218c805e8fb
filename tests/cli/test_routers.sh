#!/bin/bash
# SPDX-License-Identifier: MIT
# Machines behind routers that let nobody in: of a pair who can be called is called, whatever the
# order, and where none can be called another member relays.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/machines.sh"
empty_here
write_sentences >text.txt
tokens=1920 small_run "steps: 100000, eval_every: 0, save_every: 0" "compute_time: 0.02" "method: hsdp"
# 0 and 5 on the open network, 3 and 6 behind router 1, 4 behind router 2
net_up 7
behind 3 1
behind 6 1
behind 4 2
"$weft" key new >run.key
declare -a examined
keyed="run.yaml mesh.key=run.key"

# found MACHINE...: founders in this order.
found() {
    local n=$# rank=0 i
    for i in "$@"; do
        # shellcheck disable=SC2086
        RANK=$rank WORLD_SIZE=$n MASTER_ADDR=10.97.0.1 MASTER_PORT=29500 start "$i" "$i" $keyed "run.folder=run$i"
        rank=$((rank + 1))
    done
}

# -- The doctor says who can be called, and who relays.
rank=0
for i in 0 3 5 4; do
    RANK=$rank WORLD_SIZE=4 MASTER_ADDR=10.97.0.1 MASTER_PORT=29500 on "$i" "$weft" doctor mesh.key=run.key \
        >"doctor.$i" 2>&1 &
    examined[rank++]=$!
done
wait "${examined[@]}"
tr -s ' \n' ' ' <doctor.0 >doctor.text
grep -q "cannot call each other: .* relays" doctor.text || fail "no relay: $(cat doctor.0)"
grep -q "cannot be called by" doctor.text || fail "who can be called: $(cat doctor.0)"

# -- Founders: 1 is behind a router, 2 can be called; 3 is behind another router.
found 0 3 5 4
until_true 30 "founders behind routers begin" has_lines run0 20
says 5 "rank 2 can not call rank 1, which calls it" || fail "who calls: $(cat log.5)"
says 4 "rank 3 and rank 1 can not reach each other: rank 0 relays" || fail "no relay: $(cat log.4)"
says 4 "rank 3 .* rank 2" && fail "rank 3 calls rank 2 itself: $(cat log.4)"
# What rank 0 passes on is in its lines: of 3 pairs one, each way, as weft plan --behind 2 says.
awk -F'"(wire_bytes_out|relayed_bytes)":' '/relayed_bytes/ {split($2, own, ","); split($3, other, ",")
    n++; wire += own[1]; passed += other[1]}
    END {share = passed / wire; print n, share; exit !(n > 5 && share > 0.63 && share < 0.71)}' run0/metrics.jsonl ||
    fail "relayed bytes: $(tail -n 2 run0/metrics.jsonl)"
grep -q '"relayed":[1-9]' run0/nodes.jsonl || fail "no relayed bytes in nodes.jsonl"
! grep -q '"relayed":[1-9]' <(grep '"node":1' run0/nodes.jsonl) || fail "node 1 relays"
# The relay passes ciphertext; when it dies the two lose their connection, and not their run.
kill -9 "${started[0]}"
until_true 30 "the one that is left out takes another relay" says 4 "rank .* can not reach each other: rank 2 relays"
until_true 30 "it is in the run again" says 4 "takes part as rank"
end_all

# -- Who comes later: up at 0, then one behind each router, then one that can be called.
# shellcheck disable=SC2086
start 0 0 $keyed run.folder=run0 --listen 29500
until_true 30 "one begins" has_lines run0 3
k=0
for i in 3 4 5; do
    # shellcheck disable=SC2086
    start "$i" "$i" $keyed "run.folder=run$i" --join 10.97.0.1
    k=$((k + 1))
    until_true 10 "machine $i is in the run" says "$i" "takes part as rank $k"
done
says 4 "rank 2 and rank 1 can not reach each other: rank 0 relays" || fail "no relay: $(cat log.4)"
says 5 "rank 3 can not call rank 1, which calls it" || fail "who calls: $(cat log.5)"
until_true 10 "all train" grows run0
end_all

# -- 3 is cut off, and 6 comes, which has its address and its host name: this is no proof that 3 has
# ended, and of two none goes on alone.
# shellcheck disable=SC2086
start 0 0 $keyed run.folder=run0 --listen 29500
until_true 30 "one begins" has_lines run0 3
# shellcheck disable=SC2086
start 3 3 $keyed run.folder=run3 --join 10.97.0.1
until_true 10 "two train" says 3 "takes part as rank 1"
ip -n "$net-1" link set in3 down
sleep 2
# shellcheck disable=SC2086
start 6 6 $keyed run.folder=run6 --join 10.97.0.1
sleep 3
! says 0 "lost rank" || fail "a neighbour behind the same router is taken for a restart: $(cat log.0)"
ip -n "$net-1" link set in3 up
until_true 20 "they train on" grows run0
end_all
finish
