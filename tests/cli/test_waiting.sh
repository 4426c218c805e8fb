#!/bin/bash
# SPDX-License-Identifier: MIT
# Threads that wait for each other sleep instead of spinning, unless the user says otherwise. The
# OpenMP library says what it was told each time that it is loaded (OMP_DISPLAY_ENV). And an OpenBLAS
# with threads of its own is told to use one: a library that is loaded before stands in for it.
. "$2/tests/cli/helpers.sh"
empty_here
unset OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME

ldd "$weft" >libraries 2>/dev/null || true
grep -q 'lib[gi]*omp' libraries || skip "built without OpenMP"

# loads N [NAME=VALUE ...]: the library is loaded so often; what it said last is in `told`.
loads() {
    local want=$1 n
    shift
    expect 0 env "$@" OMP_DISPLAY_ENV=verbose "$program" config model.layers=3
    grep -q '^ *layers: 3$' out || fail "$*: the arguments did not arrive"
    n=$(grep -c 'DISPLAY ENVIRONMENT BEGIN' err)
    ((n == want)) || fail "$*: started $n times, expected $want"
    tac err | sed '/ENVIRONMENT BEGIN/q' >told
}

program=$weft
loads 2
grep -qi "OMP_WAIT_POLICY *= *'PASSIVE'" told || fail "threads spin: $(grep WAIT_POLICY told)"
if grep -q GOMP_SPINCOUNT told; then
    grep -q "GOMP_SPINCOUNT *= *'10000'" told || fail "$(grep SPINCOUNT told)"
fi
loads 1 OMP_WAIT_POLICY=active
grep -qi "OMP_WAIT_POLICY *= *'ACTIVE'" told || fail "the user's setting was changed"
loads 1 GOMP_SPINCOUNT=77
loads 1 KMP_BLOCKTIME=5

# One that does not find itself goes on: a link of another name.
ln -s "$(readlink -f "$weft")" other
program=./other
loads 1

# The BLAS library: only one with threads of its own (1) is told anything.
cat >blas.c <<'E2'
#include <stdio.h>
#include <stdlib.h>
int openblas_get_parallel(void) { return atoi(getenv("BLAS_KIND")); }
void openblas_set_num_threads(int n) { fprintf(stderr, "BLAS: %d threads\n", n); }
E2
if nm -D "$(dirname "$weft")/libweft.so" | grep -q '__[at]san_'; then
    echo "the part about the BLAS library is left out: a sanitizer is loaded first"
else
    expect 0 "${CC:-cc}" -shared -fPIC blas.c -o stand_in.so
    for kind in 0 1 2; do
        expect 0 env BLAS_KIND=$kind LD_PRELOAD="$PWD/stand_in.so" "$weft" list models
        told=$(grep -c 'BLAS: 1 threads' err)
        ((told == (kind == 1))) || fail "OpenBLAS of kind $kind was told $told times: $(cat err)"
    done
fi

finish
