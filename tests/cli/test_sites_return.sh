#!/bin/bash
# SPDX-License-Identifier: MIT
# Nodes come back into a run over several sites: each into a site, from whose nodes it gets parameters
# and state. The run is played again to the same bits.
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/comings.sh"

# Of $1 founders in $2 sites rank $3 is killed, and a process comes; then key=value ...
returns() {
    local n=$1 sites=$2 victim=$3 before=0
    shift 3
    begin "$n" "$n in $sites sites: $*" mesh.sites="$sites" "$@"
    await has_lines 5 || fail "$what: no step: $(cat log.*)"
    kill -9 "${pids[victim]}"
    wait "${pids[victim]}" 2>/dev/null
    unset "pids[victim]"
    local first=$((victim == 0))
    await says "lost .*; $((n - 1)) nodes go on" "log.$first" || fail "$what: it does not go on: $(tail -n 3 log.*)"
    joiner new "$port" mesh.nodes="$n" mesh.sites="$sites" "$@"
    await says "joined by .*; $n nodes go on" "log.$first" || fail "$what: nobody joined: $(tail -n 3 log.*)"
    before=$(lines)
    await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
    stop "${pids[first]}" "${pids[@]}"
    "$weft" train --replay run --quiet >out 2>err || fail "$what: $(cat err)"
    grep -q "^the same bits .*parameters before 2 of the views" out || fail "$what: it says $(cat out)"
}

returns 4 2 3 method=hsdp site_replicator.kind=demo
returns 4 2 1 method=dadam replicator.kind=full

# A site that was lost as a whole begins anew with one node, from the parameters and state of the other.
begin 4 "a whole site" mesh.sites=2 method=hsdp site_replicator.kind=full
await has_lines 5 || fail "$what: no step: $(cat log.*)"
kill -STOP "${pids[2]}" "${pids[3]}" # so that neither does anything after the other has gone
kill -9 "${pids[2]}" "${pids[3]}"
wait "${pids[2]}" "${pids[3]}" 2>/dev/null
unset "pids[2]" "pids[3]"
await says "lost .*; 2 nodes go on" log.0 || fail "$what: it does not go on: $(tail -n 3 log.*)"
joiner new "$port" mesh.nodes=4 mesh.sites=2 method=hsdp site_replicator.kind=full
await says "joined by .*; 3 nodes go on" log.0 || fail "$what: nobody joined: $(tail -n 3 log.*)"
before=$(lines)
await has_lines $((before + 5)) || fail "$what: it does not go on: $(tail -n 3 log.*)"
stop "${pids[0]}" "${pids[@]}"
"$weft" train --replay run --quiet >out 2>err || fail "$what: $(cat err)"
grep -q "^the same bits .*parameters before 2 of the views" out || fail "$what: it says $(cat out)"

# In sites of one node a second one would train by itself.
begin 3 "sites of one node" mesh.sites=3 method=diloco mixer.outer_every=3
await has_lines 5 || fail "$what: no step: $(cat log.*)"
"$weft" train run.yaml --join "127.0.0.1:$port" run.folder=run mesh.nodes=3 mesh.sites=3 method=diloco \
    mixer.outer_every=3 >out.new 2>log.new && fail "$what: somebody joined"
says "its 3 sites are one copy of the model each" log.new || fail "$what: it says $(cat log.new)"
stop "${pids[0]}" "${pids[@]}"
finish
