#!/bin/bash
# SPDX-License-Identifier: MIT
# Faults of a machine, staged in namespaces of its own: names, interfaces, routes, silent and
# refusing peers, a full disk, a read-only disk. Needs root or user namespaces; without them
# it is skipped (77).
if [[ ${STAGE:-} != inside ]]; then
    user=(--map-root-user)
    [[ $(id -u) == 0 ]] && user=()
    trial='hostname trial && mount -t tmpfs none /mnt && mount --bind /etc/hosts /etc/hosts &&
        ip link set lo up && ip link add left type veth peer name right && ip link del left'
    if ! unshare "${user[@]}" -m -u -n sh -c "$trial" >/dev/null 2>why; then
        echo "skipped: no namespaces to stage faults in: $(head -1 why)" >&2
        exit 77
    fi
    STAGE=inside exec unshare "${user[@]}" -m -u -n bash "$0" "$(realpath "$1")" "$2"
fi

. "$2/tests/cli/helpers.sh"
unset "${!OPENBLAS_@}" "${!OMP_@}" "${!OMPI_@}" "${!UCX_@}" "${!SLURM_@}" "${!PMI_@}"
find . -mindepth 1 -maxdepth 1 -exec rm -rf {} + 2>/dev/null
some_text >text.txt
key=(data.path=text.txt mesh.threads=1)

# finds SEVERITY TOPIC REGEX CODE COMMAND...
finds() {
    local severity=$1 topic=$2 regex=$3 want=$4
    shift 4
    expect "$want" "$@"
    sed -e ':a' -e 'N' -e '$!ba' -e 's/\n  */ /g' out >lines
    grep -qE -- "^$severity +$topic +.*$regex" lines ||
        fail "no $severity of $topic with '$regex' from $*: $(grep -E "^$severity" lines)"
}

lacks() {
    ! grep -qE -- "$1" out || fail "found: $(grep -E -- "$1" out)"
}

# names LINE...: what /etc/hosts says from now on; the name server is out of reach.
names() {
    printf '%s\n' "$@" >hosts.txt
    mount --bind hosts.txt /etc/hosts
}
printf 'hosts: files\n' >nsswitch.txt
mount --bind nsswitch.txt /etc/nsswitch.conf

# -- no interface but loopback
hostname lonely
names "127.0.0.1 localhost"
finds note interface "has no interface to others: none but loopback is up" 0 "$weft" doctor
finds error interface "has no interface to others" 1 "$weft" doctor --peers 10.9.9.9
finds error peer "10.9.9.9 .* cannot be reached: Network is unreachable" 1 \
    "$weft" doctor --peers 10.9.9.9

# -- the host name: without address, of loopback, of somebody else, right
ip link set lo up
ip link add left type veth peer name right
ip addr add 10.9.0.1/24 dev left
ip link set left up
ip link set right up
finds note name "the host name lonely of this machine has no address" 0 "$weft" doctor
names "127.0.0.1 localhost" "127.0.1.1 lonely"
finds note name "lonely resolves to 127.0.1.1, which is loopback" 0 "$weft" doctor
finds warning name "lonely resolves to 127.0.1.1, which is loopback" 1 \
    "$weft" doctor --peers 10.9.0.7 --timeout 0.3
names "127.0.0.1 localhost" "10.9.0.99 lonely"
finds error name "lonely resolves to 10.9.0.99, an address that none" 1 \
    "$weft" doctor --peers 10.9.0.7 --timeout 0.3
names "127.0.0.1 localhost" "10.9.0.1 lonely" "10.9.0.7 silent" "10.9.0.1 endpoint" "127.0.0.9 wrong"
finds ok name "the host name lonely resolves to 10.9.0.1" 0 "$weft" doctor

# -- the way to others, the interface that is taken
ip link add other type veth peer name wise
ip addr add 10.8.0.1/24 dev other
ip link set other up mtu 1300
ip link set wise up
finds ok interface "through left, address 10.9.0.1, MTU 1500" 1 \
    "$weft" doctor --peers silent --timeout 0.3
finds ok interface "through other, address 10.8.0.1, MTU 1300" 1 \
    "$weft" doctor --peers 10.8.0.2 --timeout 0.3
finds note interface "has 2 interfaces, .*left 10.9.0.1 mtu 1500" 0 "$weft" doctor
ip link add docker0 type veth peer name container
ip addr add 172.17.0.1/16 dev docker0
ip link set docker0 up
finds warning interface "has docker0 , whose address" 1 \
    "$weft" doctor --peers silent --timeout 0.3
ip link del docker0
ip link del other

# -- peers: nobody there, nobody listening, somebody listening, no name, loopback
finds error peer "silent \(10.9.0.7\) (does not answer on port 22|cannot be reached)" 1 \
    "$weft" doctor --peers silent --timeout 0.3
finds warning peer "endpoint \(10.9.0.1\) is there, .* nobody listens on port 22" 0 \
    "$weft" doctor --peers endpoint
if command -v python3 >/dev/null; then
    python3 -c 'import signal, socket
signal.alarm(60)
s = socket.create_server(("10.9.0.1", 5022))
print("ready", flush=True)
while True: s.accept()' >listening &
    listener=$!
    for _ in $(seq 100); do [[ -s listening ]] || sleep 0.05; done
    finds ok peer "endpoint \(10.9.0.1\) answers on port 5022" 0 \
        "$weft" doctor --peers endpoint --port 5022
    kill "$listener"
fi
finds error peer "the name stranger has no address" 1 "$weft" doctor --peers stranger
finds error peer "wrong resolves to 127.0.0.9: this machine's own loopback" 1 \
    "$weft" doctor --peers wrong

# -- run.folder: a disk that is too small, one that may not be written
mkdir -p small
mount -t tmpfs -o size=100k none small
finds error folder "small .tmpfs. has .* free, and the checkpoints" 1 \
    "$weft" doctor "${key[@]}" run.folder=small/new/run
finds note folder "lies in memory" 1 "$weft" doctor "${key[@]}" run.folder=small/new/run
umount small
mount -t tmpfs -o ro,size=100k none small
finds error folder "small, where one cannot write: Read-only file system" 1 \
    "$weft" doctor "${key[@]}" run.folder=small/run
umount small
lacks "^error +name"
finish
