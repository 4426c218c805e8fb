#!/bin/bash
# SPDX-License-Identifier: MIT
# What the doctor finds among ranks on two machines, with each fault staged on the second one:
# namespaces of netlab, and Open MPI over TCP between them. Needs to be root and Open MPI; without
# them it is skipped (77).
# shellcheck disable=SC2016 # scripts are for the ranks
. "$2/tests/cli/helpers.sh"
weft=$(realpath "$1")
netlab=$source_dir/bench/netlab/netlab
export NETLAB=d$$x
unset "${!OPENBLAS_@}" "${!OMP_@}" "${!UCX_@}" "${!SLURM_@}" "${!PMI_@}"
empty_here

[[ -e $(dirname "$weft")/libweft_openmpi.so ]] || skip "weft was built without Open MPI"
ldd "$weft" | grep -qE 'lib[at]san' && skip "a sanitizer sees faults of the MPI library"
command -v mpirun.openmpi >/dev/null || skip "there is no mpirun.openmpi"
"$netlab" up 2 --rate 1gbit >/dev/null 2>why || skip "$(head -1 why)"
trap '"$netlab" down' EXIT
second=${NETLAB}1
some_text >text.txt

# ranks CODE SCRIPT [FLAG...]: each rank runs the script, a doctor in the end; $key are the keys.
export weft key
key="${tiny[*]} data.path=text.txt run.folder=run"
ranks() {
    local want=$1 script=$2
    shift 2
    expect "$want" timeout -k 5 60 "$netlab" run "$@" -- \
        bash -c "[ \$(hostname) = $second ] && there=1; $script"
    sed -e ':a' -e 'N' -e '$!ba' -e 's/\n  */ /g' out >lines
}
finds() {
    grep -qE -- "^$1 +$2 +.*$3" lines || fail "no $1 of $2 with '$3': $(grep "^$1" lines) $(head -3 err)"
}

# -- nothing wrong
ranks 0 'exec $weft doctor $key'
finds ok interface "${NETLAB}0 reaches others through eth0, address 10.77.0.1"
finds ok interface "$second reaches others through eth0, address 10.77.0.2"
finds ok version "MPI: Open MPI"
finds note folder "run.folder lies on a disk of ${NETLAB}0 itself"
[[ $(grep -c '^ok  *memory' lines) == 2 ]] || fail "not two machines: $(grep memory lines)"
ranks 0 'exec $weft doctor --json $key'
if command -v python3 >/dev/null; then
    python3 - "$second" <<'PY' || fail "not the JSON expected: $(head -c 300 out)"
import json, sys
ranks = json.load(open("out"))["ranks"]
assert [r["rank"] for r in ranks] == [0, 1] and ranks[1]["host"] == sys.argv[1], ranks
assert abs(ranks[1]["clock_offset_s"]) <= ranks[1]["clock_offset_error_s"] + 1e-3, ranks[1]
assert ranks[0]["config_hash"] == ranks[1]["config_hash"] != "0" * 16, ranks
PY
fi

# -- another configuration, other text, another program, no text
ranks 1 'exec $weft doctor $key ${there:+run.seed=5}'
finds error config "rank 1 \($second\) has another configuration than rank 0"
cp text.txt other.txt
printf 'T' | dd of=other.txt conv=notrunc 2>/dev/null
ranks 1 '[ $there ] && mkdir -p there && cp other.txt there/text.txt && cd there
    exec $weft doctor $key'
finds error data "other text than rank 0 .*, whose first bytes differ"
ranks 1 'mkdir -p empty; [ $there ] && cd empty; exec $weft doctor $key'
finds error data "$second: text.txt cannot be read"
mkdir -p build
cp "$weft" "$(dirname "$weft")"/libweft*.so* build/ 2>/dev/null
echo x >>build/weft
LD_LIBRARY_PATH=$PWD/build ranks 1 '[ $there ] && weft=build/weft; exec $weft doctor $key'
finds error version "the program of rank 1 \($second\) is another file"

# -- settings and cores
ranks 0 '[ $there ] && export UCX_TLS=tcp,self; exec $weft doctor $key'
finds warning environment "rank 0 has UCX_TLS= and rank 1 \($second\) has tcp,self"
ranks 0 '[ $there ] && export OPENBLAS_CORETYPE=Pentagon; exec $weft doctor $key'
finds warning environment "$second: OPENBLAS_CORETYPE=Pentagon"
first=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
if (($(nproc) > 1)); then
    ranks 0 "exec taskset -c $first \$weft doctor \$key" -n 4
    finds warning cores "ranks 2 and 3 are bound to the same 1 of the [0-9]+ cores of $second"
fi

# -- the network of the second machine
ip -n "$second" link set eth0 mtu 1400
ranks 0 'exec $weft doctor $key'
finds warning interface "1500 bytes and $second of 1400"
ip -n "$second" link set eth0 mtu 1500
printf '%s\n' "127.0.0.1 localhost" "127.0.1.1 $second" "10.77.0.1 ${NETLAB}0" \
    >"/etc/netns/$second/hosts"
ranks 0 'exec $weft doctor $key'
finds warning name "the host name $second resolves to 127.0.1.1, which is loopback"
finish
