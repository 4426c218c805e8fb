#!/bin/bash
# SPDX-License-Identifier: MIT
# weft topology and weft list topologies.
. "$2/tests/cli/helpers.sh"
rm -rf ./*.svg ./*.yaml

# -- exactly what is printed
cat >expected <<'TEXT'
aer: 4 nodes x 2 ranks = 8 members, period of 4 steps

step 0        [01][23][4567]
step 1        [0123][45][67]
step 2        [01][2367][45]
step 3        [0145][23][67]

consensus     exact mean after 4 steps
spectral gap  1 of the product over a period, 0.25 of the mean matrix
bytes out     200 MB of a node in a step at most, 100 MB on average, for a copy of 100 MB
bytes in      200 MB of a node in a step at most, 100 MB on average
TEXT
expect 0 "$weft" topology aer --nodes 4 --ranks 2
[[ ! -s err ]] || fail "something on stderr: $(head -1 err)"
same out expected

cat >expected <<'TEXT'
exponential: 3 nodes, period of 2 steps, directed

step 0        0>1 1>2 2>0
step 1        0>2 1>0 2>1
step 2        0>1 1>2 2>0

consensus     no exact mean; 1e-6 of the disagreement left after 20 steps
one period    leaves 0.25 of the disagreement
spectral gap  0.75 of the product over a period, 0.75 of the mean matrix
bytes out     4 kB of a node in a step at most, 4 kB on average, for a copy of 4 kB
bytes in      4 kB of a node in a step at most, 4 kB on average
TEXT
expect 0 "$weft" topology exponential --nodes 3 --steps 3 --bytes 4kB
same out expected

prints "step 2        [02]@0.667[1]" "$weft" topology aer --nodes 3 --steps 4
prints "...           25 more" "$weft" topology ring --nodes 41
prints "consensus     exact mean after 1 step" "$weft" topology complete --nodes 1 --ranks 2
prints "no figures for more than 512 members" "$weft" topology ring --nodes 513 --steps 1
prints "matching: 5 nodes, never repeats" "$weft" topology matching --nodes 5
prints "push: 4 nodes, never repeats, directed, needs push-sum weights" \
    "$weft" topology push --nodes 4
grep -q "^spectral gap" out && fail "a gap of rows that do not add up to one"

# -- JSON
expect 0 "$weft" topology ring --nodes 3 --json --bytes 1KiB
cat >expected <<'TEXT'
{"kind": "ring", "nodes": 3, "ranks": 1, "period": 3, "directed": false, "push_sum": false, "copy_bytes": 1024, "schedule": ["[01][2]", "[0][12]", "[02][1]"], "gap_period": 0.75, "gap_mean": 0.5, "left": 0.176776695297, "exact_steps": null, "steps_1e6": 21, "steps_1e6_estimated": false, "bytes_out_max": 1024, "bytes_out_mean": 682.666666667, "bytes_in_max": 1024, "bytes_in_mean": 682.666666667, "link_max_s": null, "link_mean_s": null, "unlisted_links": 0}
TEXT
same out expected

# -- a file of links
cat >links.yaml <<'YAML'
links:
  - {from: 0, to: 1, latency: 1ms, bandwidth: 1Gbit}
  - {from: 2, to: 3, latency: 1ms, bandwidth: 1Gbit}
  - {from: 0, to: 2, latency: 20ms, bandwidth: 100Mbit}
  - {from: 1, to: 3, latency: 20ms, bandwidth: 100Mbit}
  - {from: 1, to: 2, latency: 20ms, bandwidth: 10Mbit}
YAML
prints "step 1        [02][13]" "$weft" topology measured --nodes 4 --links links.yaml
grep -qx "slowest link  8.02 s for a copy in a step at most, 4.41 s on average" out ||
    fail "slowest link: $(grep slowest out)"
grep -q "^no link" out && fail "measured uses a link that is not there"
prints "no link       for 1 pairs of nodes that it uses" \
    "$weft" topology complete --nodes 4 --links links.yaml

# -- a drawing
expect 0 "$weft" topology torus --nodes 9 --svg torus.svg
grep -q "^</svg>$" torus.svg || fail "no drawing"
if command -v xmllint >/dev/null; then xmllint --noout torus.svg || fail "not valid XML"; fi

# -- what there is
"$weft" list topologies | awk '{ print $1 }' | sort >listed
"$weft" completion bash >completion.bash
sed -n 's/^    topology) echo "\([a-z].*\)" ;;$/\1/p' completion.bash | tr ' ' '\n' |
    sed '/^$/d' | sort >completed
same listed completed
"$weft" config --keys | sed -n 's/^mixer.topology\t[^\t]*\t\([^\t]*\).*/\1/p' |
    sed 's/ or /, /' | tr -d ' ' | tr ',' '\n' | sort >choices
same listed choices
(($(wc -l <listed) >= 8)) || fail "only $(wc -l <listed) topologies"
prints "ring               one neighbour per step, left and right in turn" \
    "$weft" list topologies
while read -r kind; do
    expect 0 "$weft" topology "$kind" --nodes 4 --ranks 2 --links links.yaml
done <listed

# -- errors
refuses "unknown topology 'rnig' (did you mean 'ring'?)" "$weft" topology rnig --nodes 4
refuses "unknown topology 'zzzz', see weft list topologies" "$weft" topology zzzz --nodes 4
refuses "an argument is missing, expected: weft topology NAME --nodes N [--ranks L] [flags]" \
    "$weft" topology
refuses "the number of nodes is missing, expected: weft topology ring --nodes N" \
    "$weft" topology ring
refuses "--nodes is '0', expected a whole number from 1 to 65536" \
    "$weft" topology ring --nodes 0
refuses "--nodes is 'four', expected a whole number from 1 to 65536" \
    "$weft" topology ring --nodes four
refuses "found 40000 nodes with 2 ranks each, expected at most 65536 members in all" \
    "$weft" topology ring --nodes 40000 --ranks 2
refuses "--bytes is '4MBit', expected a size such as 64kB or 16GB of at least 0 B" \
    "$weft" topology ring --nodes 4 --bytes 4MBit
refuses "a measured topology needs the links between its 4 nodes, found none" \
    "$weft" topology measured --nodes 4
refuses "a link goes from node 2 to node 3, expected nodes from 0 to 2" \
    "$weft" topology ring --nodes 3 --links links.yaml
refuses "the links do not connect node 4 with node 0, expected a way between all 5 nodes" \
    "$weft" topology measured --nodes 5 --links links.yaml
refuses "could not open nowhere.yaml: No such file or directory" \
    "$weft" topology measured --nodes 4 --links nowhere.yaml
sed -i '3s/latency: 1ms/latency: soon/' links.yaml
refuses "links.yaml:3: latency is 'soon', expected a time such as 10ms" \
    "$weft" topology measured --nodes 4 --links links.yaml
refuses "found 513 members, expected at most 512 to draw" \
    "$weft" topology ring --nodes 513 --svg big.svg
refuses_like "could not create nowhere/t\.svg: .*" \
    "$weft" topology ring --nodes 4 --svg nowhere/t.svg
no_files big.svg
refuses "unknown flag --node of 'weft topology' (did you mean --nodes?)" \
    "$weft" topology ring --node 4

finish
