#!/bin/bash
# SPDX-License-Identifier: MIT
# weft up and weft join: a machine with nothing takes part in a run. On this machine first; then two
# machines that are network namespaces, which find each other by calls to all (skipped without them).
. "$2/tests/cli/helpers.sh"
. "$2/tests/cli/machines.sh"
empty_here
small=(model.width=16 model.layers=1 model.heads=2 data.length=16 batch.tokens_per_step=64
    run.steps=1000000 --quiet)
for ((i = 0; i < 3000; i++)); do echo "In the beginning was the word, number $i."; done >my.txt
mkdir new
run=""
# What runs on a machine is a child of the shell that is in the background.
end() { { pkill -9 -P "$1" || kill -9 "$1"; wait "$1"; } 2>/dev/null; }
end_run() { [ -z "$run" ] || end "$run"; }
trap 'end_run; net_down' EXIT

code_of() { sed -n 's/.*this network:  weft join //p' log.up; }
has_code() { [ -n "$(code_of)" ]; }
# takes_part LOG COMMAND...: it joins, within ten seconds; then it is ended.
takes_part() {
    local log=$1 k pid begin=$SECONDS
    shift
    "$@" >/dev/null 2>"$log" &
    pid=$!
    for ((k = 0; k < 200; k++)); do
        grep -q "takes part as rank" "$log" && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    end $pid
    grep -q "takes part as rank" "$log" || fail "$*: $(cat "$log")"
    [ $((SECONDS - begin)) -le 10 ] || fail "$*: more than ten seconds"
}
refuses() { # refuses SENTENCE COMMAND...
    local sentence=$1
    shift
    "$@" >/dev/null 2>log.refused && fail "$*: it has joined"
    grep -q "$sentence" log.refused || fail "$*: says $(cat log.refused), expected $sentence"
    [ "$(grep -vc waiting: log.refused)" = 1 ] || fail "$*: more than a sentence: $(cat log.refused)"
}

# No sentence that is not asked for.
"$weft" join >/dev/null 2>log.none && fail "joins without a code"
grep -q "expected weft join CODE" log.none || fail "without a code: $(cat log.none)"
refuses "is no code, expected two digits" "$weft" join word
# A run that can not begin has no code.
: >empty.txt
"$weft" up empty.txt "${small[@]}" >/dev/null 2>log.empty && fail "an empty text is trained on"
grep -q "weft join" log.empty && fail "a code for nothing: $(cat log.empty)"

free_port && mesh_port=$port
free_port && invite_port=$port
"$weft" up my.txt "${small[@]}" --listen "$mesh_port" --invite-port "$invite_port" >out.up 2>log.up &
run=$!
for ((k = 0; k < 200 && $(has_code && echo 1 || echo 0) == 0; k++)); do sleep 0.05; done
grep -q "without libsodium" log.up && skip "this weft has no libsodium"
has_code || fail "weft up prints no code: $(cat log.up)"
code=$(code_of)
invitation=127.0.0.1:$invite_port

# By its address, and by the code alone; what comes lies in a folder of its own.
cd new || exit 1
takes_part ../log.joined "$weft" join "$invitation" "$code"
takes_part ../log.found "$weft" join "$code" mesh.threads=1
cd ..
cmp -s my.txt new/joined/data.path-0/my.txt || fail "the text is another one"
[ -d new/joined-2 ] || fail "the second folder is not joined-2: $(ls new)"
[ "$(stat -c %a new/joined/run.key)" = 600 ] || fail "the key is not private"
cmp -s runs/weft.key new/joined/run.key || fail "the key is another one"
# With a text of its own, and with one that the run does not give.
mkdir own && cp my.txt own/mine.txt
takes_part log.own "$weft" join "$invitation" "$code" data.path=own/mine.txt --into own/in
[ ! -e own/in/data.path-0 ] || fail "a text came although it was named"
refuses "more than the 0 that are given" "$weft" join "$invitation" "$code" --text 0 --into own/no
[ ! -e own/no ] || fail "a refused join leaves a folder"

# Three wrong codes close the invitation, and the run trains on.
wrong=${code%?}$([ "${code: -1}" = 7 ] && echo 8 || echo 7)
refuses "the invitation closes after 2 more wrong ones" "$weft" join "$invitation" "$wrong"
refuses "the invitation closes after 1 more wrong one" "$weft" join "$invitation" "$wrong"
refuses "invitation is closed, because it was given three wrong codes" "$weft" join "$invitation" "$wrong"
refuses "invitation is closed" "$weft" join "$invitation" "$code"
grep -q "three wrong codes, the last one by somebody" log.up || fail "up says $(tail -3 log.up)"
before=$(lines runs/weft)
until_true 10 "training on" has_lines runs/weft $((before + 5))
end_run
grep -q "ffff" log.up && fail "an IPv4 address is written as one of IPv6: $(grep ffff log.up)"
grep -q "somebody at 127.0.0.1 gave" log.up || fail "who gave a wrong code: $(cat log.up)"
refuses "nobody listens at $invitation" "$weft" join "$invitation" "$code"

# Two machines on a switch: neither knows an address.
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
net_up 2
trap 'end_run; net_down' EXIT
rm -rf runs
: >log.up # it still holds the code of the first run
on 0 "$weft" up my.txt "${small[@]}" >out.up 2>log.up &
run=$!
for ((k = 0; k < 200 && $(has_code && echo 1 || echo 0) == 0; k++)); do sleep 0.05; done
has_code || fail "weft up prints no code on a switch: $(cat log.up)"
grep -q "another network:  weft join 10.97.0.1:" log.up || fail "it prints no address: $(cat log.up)"
takes_part log.far on 1 "$weft" join "$(code_of)" --into new/far
grep -q -- "--join 10.97.0.1:" log.far || fail "it does not join by the address of the invitation: $(cat log.far)"
code=$(code_of)
refuses "no run of this code has answered on this network within 4 s" \
    on 1 "$weft" join "$([ "${code:0:2}" = 42 ] && echo 43 || echo 42)-AAAA-AAAA" --wait 4
grep -q "waiting: no run.*weft join HOST:PORT CODE" log.refused || fail "it does not say what to do: $(cat log.refused)"
# Who came is told when the first one ends the run.
on 1 "$weft" join "$code" --into new/stays >/dev/null 2>log.stays &
stays=$!
until_true 10 "one that stays" grep -q "takes part as rank" log.stays
for pid in $(ip netns pids "$net-0"); do
    [ "$(<"/proc/$pid/comm")" != weft ] || kill -TERM "$pid"
done
wait "$stays" || fail "it ends with $?: $(cat log.stays)"
grep -q "the run was stopped after step [0-9]*; its first process has what is saved" log.stays ||
    fail "it ends without a word: $(cat log.stays)"
# A name of all machines leads a newcomer to itself first, and then to the others.
on 1 env RANK=0 WORLD_SIZE=1 "$weft" train my.txt "${small[@]}" mesh.key=runs/weft.key run.folder=named --listen 29501 \
    >/dev/null 2>log.named &
run=$!
until_true 10 "a run that is named" grep -q '"loss"' named/metrics.jsonl
printf '10.97.0.%d everybody\n' 1 2 >hosts
takes_part log.by_name on 0 sh -c "mount --bind hosts /etc/hosts && exec '$weft' train my.txt ${small[*]/--quiet/} \
    mesh.key=runs/weft.key run.folder=by-name --join everybody"
# Without IPv4 the call by IPv6 finds it, also where there is no address but the link's own.
for i in 0 1; do ip -n "$net-$i" addr del "10.97.0.$((i + 1))/24" dev eth0; done
for six in fe80:: fd00:97::; do
    end_run
    for i in 0 1; do [ $six = fe80:: ] || ip -n "$net-$i" addr add "$six$((i + 1))/64" dev eth0 nodad; done
    : >log.up
    on 0 "$weft" up my.txt "${small[@]}" >out.up 2>log.up &
    run=$!
    until_true 10 "a code by IPv6" has_code
    takes_part log.six on 1 "$weft" join "$(code_of)" --into new/$six
    grep -q -- "--join \[$six.*\]:" log.six || fail "it joins by another address than $six: $(cat log.six)"
done
grep -q "another network:  weft join \[fd00:97::1\]:" log.up || fail "it prints no address of IPv6: $(cat log.up)"
end_run
[ "$failures" = 0 ]
