#!/bin/bash
# SPDX-License-Identifier: MIT
# Trains on machines joined by a network, started by hand from one of them:
#
#     examples/launch/two-machines.sh node1,node2 examples/flexdemo.yaml [key=value ...]
#
# Before: the same weft, MPI and text at the same paths on all machines; ssh from the first to
# the others without a password. INTERFACE is the one between the machines, if there are
# several; RANKS the ranks on each machine (1); MPI openmpi (default) or mpich.
set -euo pipefail
if (($# < 2)); then
    sed -n '3,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
IFS=, read -ra machines <<<"$1"
shift
ranks=${RANKS:-1}
hosts=$(printf "%s:$ranks," "${machines[@]}")
total=$((${#machines[@]} * ranks))
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

case ${MPI:-openmpi} in
openmpi)
    start=(mpirun.openmpi -np "$total" --host "${hosts%,}"
        --bind-to none                # weft's threads may use all cores of a machine
        --mca btl "tcp,vader,self"    # between machines, inside one, to oneself
        --mca mpi_yield_when_idle 1)  # who waits leaves its core to others
    if [[ -n ${INTERFACE:-} ]]; then
        start+=(--mca btl_tcp_if_include "$INTERFACE" --mca oob_tcp_if_include "$INTERFACE")
    fi
    ;;
mpich)
    export UCX_TLS=tcp,self,sm
    start=(mpirun.mpich -np "$total" -hosts "${hosts%,}")
    if [[ -n ${INTERFACE:-} ]]; then
        export UCX_NET_DEVICES=$INTERFACE
        start+=(-iface "$INTERFACE")
    fi
    ;;
*)
    echo "MPI is '$MPI', expected openmpi or mpich" >&2
    exit 2
    ;;
esac

# errors end here, before anything is trained
"${start[@]}" weft doctor --quiet "$@"
exec "${start[@]}" weft train "$@"
