# SPDX-License-Identifier: MIT
# For the tests that start several processes: bash test_x.sh WEFT SOURCE_DIR MPI
# Ranks share the cores, so nothing is bound to one.
set -uo pipefail
. "$2/tests/cli/helpers.sh"
mpi=$3
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none
empty_here
launch() { # ranks, then what every rank runs
    local n=$1
    shift
    timeout -k 5 90 "mpirun.$mpi" -np "$n" "$@"
}
words=(the cat sat on a mat and dog ran to red house with blue endpoint but never came back again)
make_text() {
    local i n=${#words[@]} state=7
    for ((i = 0; i < 6000; i++)); do
        state=$(((state * 1103515245 + 12345) % 2147483648))
        printf '%s ' "${words[$((state / 65536 % n))]}"
    done >text.txt
}
