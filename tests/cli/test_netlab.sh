#!/bin/bash
# SPDX-License-Identifier: MIT
# The test network: machines with names and addresses of their own, commands started on them
# by both MPIs, counters, and nothing left behind, whatever ends it. Needs to be root; without
# that, or an MPI, it is skipped (77).
. "$2/tests/cli/helpers.sh"
netlab=$source_dir/bench/netlab/netlab
export NETLAB=t$$x
trap '"$netlab" down' EXIT

"$netlab" up 2 --rate 100mbit >/dev/null 2>why || skip "$(head -1 why)"
[[ -d /run/netlab/$NETLAB ]] || fail "no state"

# -- machines
expect 0 "$netlab" on "${NETLAB}0" hostname
[[ $(cat out) == "${NETLAB}0" ]] || fail "the first machine is $(cat out)"
expect 0 "$netlab" on "${NETLAB}1" getent hosts "${NETLAB}0"
grep -q '^10.77.0.1 ' out || fail "the first machine has $(cat out)"
expect 0 "$netlab" on "${NETLAB}1" bash -c 'ls /proc | grep -c "^[0-9]"'
(($(cat out) < 10)) || fail "a machine sees $(cat out) processes"
refuses_netlab() {
    local sentence=$1
    shift
    expect 2 "$netlab" "$@"
    [[ $(cat err) == "netlab: $sentence" ]] || fail "found '$(cat err)', expected '$sentence'"
}
refuses_netlab "a network named $NETLAB is up already (netlab down removes it)" up 2 --rate 1mbit
refuses_netlab "the number of machines is '9', expected 2 to 8" up 9 --rate 1mbit
refuses_netlab "the rate is '1Mb', expected such as 100mbit" up 2 --rate 1Mb
refuses_netlab "the latency is '5', expected such as 5ms" up 2 --rate 1mbit --latency 5
refuses_netlab "--rate is missing, such as --rate 100mbit" up 2
refuses_netlab "unknown flag --speed, see netlab --help" up 2 --speed 1
refuses_netlab "-n is '3', expected a multiple of the 2 machines" run -n 3 -- true
refuses_netlab "the command is missing: netlab run -- COMMAND..." run
refuses_netlab "there is no machine other" on other true

# -- jobs
mpis=()
for mpi in openmpi mpich; do
    command -v mpirun.$mpi >/dev/null && mpis+=("$mpi")
done
for mpi in "${mpis[@]}"; do
    expect 0 "$netlab" run --mpi "$mpi" -n 4 --bytes sent -- hostname
    [[ $(sort out | tr '\n' ' ') == "${NETLAB}0 ${NETLAB}0 ${NETLAB}1 ${NETLAB}1 " ]] ||
        fail "$mpi ran on $(sort out | tr '\n' ' ')"
    grep -qE "^${NETLAB}1 sent [1-9][0-9]* received [1-9][0-9]* bytes$" sent ||
        fail "no bytes: $(cat sent)"
    run "$netlab" run --mpi "$mpi" -- false
    ((code != 0)) || fail "$mpi: a failing command gives 0"
done

# -- the end
"$netlab" down
left() {
    [[ -e /run/netlab/$NETLAB || -e /etc/netns/${NETLAB}0 ]] && echo files
    ip netns | grep "^$NETLAB"
    pgrep -f "netlab/$NETLAB/wire"
}
[[ -z $(left) ]] || fail "left after down: $(left)"
refuses_netlab "no network is up; netlab up N --rate RATE first" bytes
latency=0us
[[ -c /dev/net/tun ]] && command -v cc >/dev/null && latency=1ms
for mpi in "${mpis[@]}"; do
    rm -f began
    "$netlab" with 2 --rate 100mbit --latency $latency --mpi "$mpi" -- \
        bash -c 'touch began; sleep 600' 2>err &
    job=$!
    for _ in $(seq 400); do [[ -e began ]] && break; sleep 0.05; done
    [[ -e began ]] || fail "$mpi: the job did not begin: $(cat err)"
    kill -TERM $job
    code=0
    wait $job || code=$?
    ((code == 130)) || fail "$mpi: exit code $code after SIGTERM"
    [[ -z $(left) ]] || fail "$mpi: left after SIGTERM: $(left)"
done
finish
