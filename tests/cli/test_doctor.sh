#!/bin/bash
# SPDX-License-Identifier: MIT
# weft doctor where no privilege is needed: arguments, output, and faults that are staged by
# the configuration, the environment or taskset.
. "$2/tests/cli/helpers.sh"
unset "${!OPENBLAS_@}" "${!OMP_@}" "${!OMPI_@}" "${!UCX_@}" "${!SLURM_@}" "${!PMI_@}"
empty_here
some_text >text.txt
key=(data.path=text.txt mesh.threads=1 run.folder=run)

# finds SEVERITY TOPIC REGEX CODE COMMAND...: this finding is printed, with what to do about
# it unless all is well; the exit code.
finds() {
    local severity=$1 topic=$2 regex=$3 want=$4
    shift 4
    expect "$want" "$@"
    # one finding in a line again: what follows is indented
    sed -e ':a' -e 'N' -e '$!ba' -e 's/\n  */ /g' out >lines
    grep -qE -- "^$severity +$topic +.*$regex" lines ||
        fail "no $severity of $topic with '$regex' from $*: $(grep -E "^$severity" lines)"
    [[ $severity == ok ]] || grep -E "^$severity +$topic +.*$regex" lines | grep -q -- ' -> ' ||
        fail "no advice: $*"
}

# -- arguments
refuses "--peers names no machine, expected such as node2,node3" "$weft" doctor --peers ,
refuses "--port is '0', expected a whole number from 1 to 65535" "$weft" doctor --port 0
refuses "could not open nowhere" "$weft" doctor --hostfile nowhere
: >hosts
refuses "hosts names no machine, expected one in each line" "$weft" doctor --hostfile hosts
refuses "could not open nowhere.yaml: No such file or directory" "$weft" doctor nowhere.yaml
refuses "unknown key 'mesh.thread' (did you mean 'mesh.threads'?)" "$weft" doctor mesh.thread=1
long=$(printf 'a%.0s' {1..200})
refuses "'${long:0:40}...' is too long for a host's name" "$weft" doctor --peers "$long"

# -- a machine and a run that do; nothing is written
finds ok version "weft [0-9.]+, MPI: " 0 "$weft" doctor
finds ok memory "the run needs .*B, .*B is free" 0 "$weft" doctor "${key[@]}"
finds ok data "1 text file, 1[0-9] kB" 0 "$weft" doctor "${key[@]}"
finds ok folder "has .*B free, the run's checkpoints take about" 0 "$weft" doctor "${key[@]}"
[[ ! -e run ]] || fail "the doctor made run.folder"
tail -1 out | grep -qxE '0 errors, [0-9]+ warnings?, [0-9]+ notes?' || fail "sum: $(tail -1 out)"
"$weft" doctor --quiet "${key[@]}" | grep -E '^(ok|note) ' && fail "--quiet prints more"

# -- JSON
expect 1 "$weft" doctor --json --peers nowhere.invalid "${key[@]}"
if command -v python3 >/dev/null; then
    python3 - <<'PY' || fail "not the JSON expected: $(head -c 300 out)"
import json
told = json.load(open("out"))
assert told["ranks"][0]["has_run"] == 1 and told["ranks"][0]["data_files"] == 1, told
assert told["peers"][0]["answer"] == "unknown", told["peers"]
assert told["findings"][0]["severity"] == "error", told["findings"][0]
# a machine whose own name has no address (a bare container) has an error of "name", too
found = [f for f in told["findings"] if f["topic"] == "peer"]
assert len(found) == 1 and found[0]["severity"] == "error" and found[0]["advice"], told["findings"]
PY
fi

# -- the configuration asks for what is not there
finds error data "nowhere.txt cannot be read \(1 of 2 text files\)" 1 \
    "$weft" doctor "${key[@]}" data.path=text.txt,nowhere.txt
finds error memory "the run needs .* but .* is free" 1 \
    "$weft" doctor "${key[@]}" model.width=65536 model.heads=64 model.layers=96
finds warning cores "has 256 ranks with 256 threads in all on [0-9]+ core" 0 \
    "$weft" doctor "${tiny[@]}" "${key[@]}" mesh.nodes=256 batch.tokens_per_step=65536
expect 1 "$weft" doctor --strict "${tiny[@]}" "${key[@]}" mesh.nodes=256 \
    batch.tokens_per_step=65536

# -- the environment
finds warning environment "OPENBLAS_CORETYPE=Pentagon is no processor" 0 \
    env OPENBLAS_CORETYPE=Pentagon "$weft" doctor
finds warning environment "OPENBLAS_L2_SIZE=512 overrides" 0 env OPENBLAS_L2_SIZE=512 "$weft" doctor
if grep -q ' avx ' /proc/cpuinfo; then
    finds warning environment "OPENBLAS_CORETYPE=Prescott makes OpenBLAS use SSE" 0 \
        env OPENBLAS_CORETYPE=Prescott "$weft" doctor
    expect 0 env OPENBLAS_CORETYPE=Prescott "$weft" train "${tiny[@]}" "${key[@]}" run.steps=2
    grep -q "^weft: warning: OPENBLAS_CORETYPE=Prescott makes OpenBLAS use SSE" err ||
        fail "train does not say it: $(head -1 err)"
    expect 0 "$weft" train "${tiny[@]}" "${key[@]}" run.folder=run2 run.steps=2
    ! grep -q OPENBLAS err || fail "train warns of nothing"
fi
finds note environment "OMP_NUM_THREADS=1 is set" 0 env OMP_NUM_THREADS=1 "$weft" doctor
finds warning environment "OMP_PROC_BIND=close binds" 0 \
    env OMP_PROC_BIND=close "$weft" doctor "${key[@]}" mesh.nodes=2
finds note environment "UCX_TLS=self,sm knows no way" 0 env UCX_TLS=self,sm "$weft" doctor
finds error environment "UCX_TLS=self,sm knows no way" 1 \
    env UCX_TLS=self,sm "$weft" doctor --peers nowhere.invalid
finds error environment "OMPI_MCA_btl=tcp,vader lacks self" 1 \
    env OMPI_MCA_btl=tcp,vader "$weft" doctor
finds error environment "btl_tcp_if_include names nosuch0, which is not" 1 \
    env OMPI_MCA_btl_tcp_if_include=lo,nosuch0 "$weft" doctor

# -- other machines
printf '# two\nnowhere.invalid slots=2\n\nalso.invalid:2\n' >hosts
finds error peer "the name also.invalid has no address" 1 "$weft" doctor --hostfile hosts
finds error peer "the name nowhere.invalid has no address" 1 "$weft" doctor --hostfile hosts
finds error peer "127.0.0.1 resolves to 127.0.0.1: this machine's own loopback" 1 \
    "$weft" doctor --peers 127.0.0.1

# -- bound to one core
if command -v taskset >/dev/null && (($(nproc) > 1)); then
    first=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    finds warning cores "may use 1 of [0-9]+ cores, fewer than its threads" 0 \
        taskset -c "$first" "$weft" doctor "${key[@]}" mesh.threads=2
    finds note cores "may use 1 of [0-9]+ cores" 0 \
        taskset -c "$first" "$weft" doctor "${key[@]}"
fi
finish
