#!/bin/bash
# SPDX-License-Identifier: MIT
# What happens while a process is on its way into a run: a member dies, or the process itself stands
# still. Neither ends it or keeps others out.
. "$2/tests/cli/helpers.sh"
empty_here
for ((i = 0; i < 150000; i++)); do echo "the cat sat on mat number $((i * 7919 % 997)) and the dog ran"; done >text.txt
small_run "steps: 1000000, eval_every: 0, save_every: 0" "compute_time: 0.02, nodes: 3, ranks_per_node: 1" "method: hsdp"
pids=()
joiner=
begin() {
    local r
    rm -rf run
    free_port
    for ((r = 2; r >= 0; r--)); do
        RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$weft" train run.yaml run.folder=run >out.$r 2>log.$r &
        pids[r]=$!
    done
    until_lines 10
}
end() {
    kill -9 "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
    pids=()
}
lines() { grep -c '"loss"' run/metrics.jsonl 2>/dev/null || true; }
until_lines() {
    local k
    for ((k = 0; k < 1200; k++)); do
        [ "$(lines)" -ge "$1" ] 2>/dev/null && return
        sleep 0.05
    done
    fail "no $1 lines: $(tail -n 2 log.*)"
}
# join NAME: a process joins; it is in $joiner.
join() {
    "$weft" train run.yaml run.folder=run --join "127.0.0.1:$port" >out."$1" 2>log."$1" &
    joiner=$!
    pids+=("$joiner")
}
# until_connected: it has connections to as many processes as $1, and is stopped in that moment.
until_connected() {
    local k
    for ((k = 0; k < 2000; k++)); do
        [ "$(ss -Htnp state established 2>/dev/null | grep -c "pid=$joiner,")" -ge "$1" ] && break
        sleep 0.002
    done
    kill -STOP "$joiner"
}
until_says() {
    local k
    for ((k = 0; k < $3 * 20; k++)); do
        grep -q "$2" "log.$1" && return
        sleep 0.05
    done
    fail "log.$1 does not say '$2' within $3 s: $(tail -n 2 log.*)"
}
command -v ss >/dev/null || skip "no ss"

# -- A member dies while a process enters: it comes in all the same.
begin
join a
until_connected 3
kill -9 "${pids[2]}"
sleep 0.5
kill -CONT "$joiner"
until_says 0 "joined" 40
kill -0 "$joiner" 2>/dev/null || fail "the process on its way in has ended: $(cat log.a)"
end

# -- One that stands still on its way in does not keep the next one out.
begin
join a
until_connected 3
join b
until_says 0 "joined" 40
end
finish
