# SPDX-License-Identifier: MIT
# The example of a program that runs under MPI itself learns with every method, the same on
# all numbers of ranks where the method says so, and hears of what is wrong.
. "$(dirname "$0")/helpers.sh"
embed=$(dirname "$weft")/embed_$mpi
right() { grep -o 'right: [0-9.]*' "$1" | grep -o '[0-9.]*'; }
learns() { # ranks, keys...
    local n=$1
    shift
    launch "$n" "$embed" "mesh.nodes=$n" "$@" >out 2>log || fail "$n ranks, $*: $(cat log)"
    awk -v x="$(right out)" 'BEGIN {exit !(x > 95)}' || fail "$n ranks, $*: $(cat out)"
}
for method in flexdemo dadam ddp diloco; do learns 4 "method=$method"; done
learns 2 method=flexdemo replicator.values=int8 replicator.exchange=sharded
learns 3 method=dadam mixer.topology=ring optimizer.clip=0
learns 1 method=ddp
# ranks of one machine are one node, each with a copy
launch 2 "$embed" method=flexdemo >out 2>log || fail "one node: $(cat log)"
awk -v x="$(right out)" 'BEGIN {exit !(x > 95)}' || fail "one node: $(cat out)"
launch 2 "$embed" method=flexdomo >out 2>log && fail "a misspelt method was accepted"
[ "$(grep -c '^embed: ' log)" = 1 ] || fail "not one sentence: $(cat log)"
grep -q "flexdemo" log || fail "no help with the name: $(cat log)"
launch 2 "$embed" mesh.shards=2 >out 2>log && fail "shards were accepted"
grep -q "set mesh.shards=1" log || fail "shards: $(cat log)"
launch 2 "$embed" method=ddp mesh.nodes=2 run.steps=100 >out 2>log && fail "a step after the last"
grep -q "a step after the last one: run.steps is 100" log || fail "steps: $(cat log)"
# the launcher of another library starts processes that know nothing of each other
mine=$mpi
[ "$mpi" = mpich ] && mpi=openmpi || mpi=mpich
if command -v "mpirun.$mpi" >/dev/null; then
    launch 2 "$embed" method=ddp >out 2>log && fail "processes of $mine under $mpi trained alone"
    grep -q "SIZE=2 processes were started, but MPI_COMM_WORLD has one" log || fail "$mpi: $(cat log)"
fi
mpi=$mine
# one library's functions with the other one's constants would crash
other=$(dirname "$weft")/libweft_$([ "$mine" = mpich ] && echo openmpi || echo mpich).so
if [ -f "$other" ]; then
    launch 1 env LD_PRELOAD="$other" "$embed" method=ddp >out 2>log && fail "a program linked with both trained"
    grep -q "^embed: this program uses [A-Za-z ]* and is linked with -lweft_[a-z]*, expected -lweft_$mine\$" log || fail "both: $(cat log)"
fi
finish
