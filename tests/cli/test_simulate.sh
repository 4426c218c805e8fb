#!/bin/bash
# SPDX-License-Identifier: MIT
# weft simulate.
. "$2/tests/cli/helpers.sh"
rm -rf ./*.yaml

small="model.layers=2 model.width=64 model.heads=4 data.length=64 batch.tokens_per_step=256 mesh.nodes=4"
facts="--node-flops 1T --link 1Gbit,0.1ms --memory-bandwidth 10GB/s"

# -- text, and one JSON object
expect 0 "$weft" simulate method=dadam $small $facts --steps 50
grep -q "^run        50 steps on 4 nodes in " out || fail "no summary: $(head -1 out)"
[[ $(grep -c " %   " out) -eq 8 ]] || fail "not eight causes"
[[ ! -s err ]] || fail "something on stderr: $(head -1 err)"
expect 0 "$weft" simulate method=hsdp $small $facts --steps 50 --nodes 300 --jitter 5% \
    --slow-nodes 1%,3 --failures 1h --restart 2s --save-every 10 --save 1ms --json
figure() { grep -o "\"$1\": [^,}]*" out | cut -d' ' -f2; }
[[ $(figure nodes) == 300 && $(figure steps) == 50 ]] || fail "other nodes or steps: $(cat out)"
awk -v all="$(figure elapsed_s)" -v a="$(figure compute_s)" -v b="$(figure codec_s)" \
    -v c="$(figure wire_s)" -v d="$(figure slow_s)" -v e="$(figure waiting_s)" \
    -v f="$(figure saving_s)" -v g="$(figure repeated_s)" -v h="$(figure restart_s)" 'BEGIN {
    sum = a + b + c + d + e + f + g + h; exit !(sum > 0.98 * all && sum < 1.02 * all) }' ||
    fail "the parts are not the whole: $(cat out)"

# -- the same seed, the same run; facts from a file
cp out first
expect 0 "$weft" simulate method=hsdp $small $facts --steps 50 --nodes 300 --jitter 5% \
    --slow-nodes 1%,3 --failures 1h --restart 2s --save-every 10 --save 1ms --json
same out first
printf 'rank_flops: 1TFLOP/s\nwire: {bandwidth: 1Gbit, latency: 0.1ms}\nmemory_bandwidth: 10GB/s\n' > c.yaml
expect 0 "$weft" simulate method=hsdp $small $facts --steps 20 --json
cp out typed
expect 0 "$weft" simulate method=hsdp $small --cluster c.yaml --steps 20 --json
same out typed

# -- busy hours: the first ones of each day; all of a short run, some of a long one
busy() { # STEPS HOURS,SHARE: seconds of the run
    expect 0 "$weft" simulate method=hsdp model.layers=2 model.width=64 model.heads=4 data.length=64 \
        batch.tokens_per_step=256 mesh.nodes=2 --node-flops 1M --link 1Mbit,1ms --steps "$1" --json ${2:+--busy "$2"}
    figure elapsed_s
}
quiet=$(busy 20) slow=$(busy 20 24h,50%)
awk -v a="$quiet" -v b="$slow" 'BEGIN { exit !(b > 1.005 * a && b < 2 * a) }' || fail "busy: $slow s, quiet: $quiet s"
[[ $(busy 20 8h,50%) == "$slow" ]] || fail "the first hours are not the busy ones"
[[ $(busy 20 24h,100%) == "$quiet" ]] || fail "a share of 100 % changes something"
days=$(busy 1600) all=$(busy 1600 24h,50%) some=$(busy 1600 6h,50%)
awk -v a="$days" -v b="$all" -v x="$some" 'BEGIN { s = (x - a) / (b - a); exit !(a > 86400 && s > 0.2 && s < 0.45) }' ||
    fail "a quarter of the day: $days s, $some s, $all s"
awk -v w="$(figure wire_s)" 'BEGIN { exit !(w > 0) }' || fail "busy hours are not the wire's"
for bad in 8h 25h,30% 8h,0% 8h,120% ,30%; do
    refuses_like "--busy is '$bad', expected .*" "$weft" simulate method=hsdp $small $facts --busy "$bad"
done

# -- nodes of a file, if nothing else says how many; the user's own FLOP, for one node in two steps
printf 'nodes: 3\nrank_flops: 1TFLOP/s\nwire: {bandwidth: 1Gbit, latency: 0.1ms}\n' > three.yaml
one=(model.layers=2 model.width=64 model.heads=4 data.length=64 batch.tokens_per_step=256)
expect 0 "$weft" simulate method=hsdp "${one[@]}" --cluster three.yaml --steps 20
grep -q "^run        20 steps on 3 nodes in " out || fail "nodes of a file: $(head -1 out)"
expect 0 "$weft" simulate method=hsdp "${one[@]}" --cluster three.yaml --steps 1 --nodes 1
grep -q "^run        1 step on 1 node in " out || fail "one of each: $(head -1 out)"
computing() { # FLOP per token: seconds of computing
    expect 0 "$weft" simulate method=hsdp "${one[@]}" $facts --steps 20 --json --flop-per-token "$1"
    figure compute_s
}
awk -v a="$(computing 10M)" -v b="$(computing 40M)" 'BEGIN { exit !(b > 3.9 * a && b < 4.1 * a) }' ||
    fail "four times the FLOP is not four times the computing"

# -- what cannot be is a sentence
refuses "--restart says what a failure costs, but there is no --failures" \
    "$weft" simulate method=hsdp $small $facts --restart 5min
refuses_like ".*nothing is known of computing.*" "$weft" simulate method=hsdp $small
refuses_like ".*link is 'fast'.*" "$weft" simulate method=hsdp $small --link fast
refuses_like ".*jitter is 'much'.*" "$weft" simulate method=hsdp $small $facts --jitter much
refuses_like ".*slow-nodes is '1%'.*" "$weft" simulate method=hsdp $small $facts --slow-nodes 1%
refuses_like ".*failures is '4'.*" "$weft" simulate method=hsdp $small $facts --failures 4
refuses_like ".*mesh.sites is 2.*" "$weft" simulate method=hsdp $small mesh.sites=2 \
    site_replicator.kind=full $facts
printf 'nodes: 4\nwired: {}\n' > bad.yaml
refuses_like ".*bad.yaml:2: unknown key 'wired' \\(did you mean 'wire'\\?\\).*" "$weft" simulate method=hsdp \
    $small --cluster bad.yaml
refuses_like ".*could not.*" "$weft" simulate method=hsdp $small --cluster none.yaml

finish
