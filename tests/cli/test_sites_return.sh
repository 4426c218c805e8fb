#!/bin/bash
# SPDX-License-Identifier: MIT
# Nodes come back into a run over several sites: each into the place of who was lost, and so into its
# site, from whose nodes it gets parameters and state. The run is played again to the same bits.
weft=$1
source_dir=$2
# shellcheck source=tests/cli/helpers.sh
. "$source_dir/tests/cli/helpers.sh"
# shellcheck source=tests/cli/comings.sh
. "$source_dir/tests/cli/comings.sh"

# Of $1 founders in $2 sites rank $3 is killed, and a process comes in its place; then key=value ...
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
    tail -n 1 run/views.jsonl | grep -q "\"members\".*\[$victim,\"" || fail "$what: place $victim is nobody's"
    "$weft" train --replay run --quiet >out 2>err || fail "$what: $(cat err)"
    grep -q "^the same bits .*parameters before 2 of the views" out || fail "$what: it says $(cat out)"
}

returns 4 2 3 method=hsdp site_replicator.kind=demo
returns 4 2 1 method=dadam replicator.kind=full
returns 3 3 1 method=diloco mixer.outer_every=3
finish
