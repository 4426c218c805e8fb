# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # weft is set by who sources this
# Sourced by tests of what networks do to a run: machines are network namespaces on a switch,
# with firewalls. Needs to be root, and nftables; without these the test is skipped (77).
net=w$((RANDOM % 1000))$((RANDOM % 1000))

net_down() {
    local i pids
    for ((i = 0; i < ${machines_up:-0}; i++)); do
        pids=$(ip netns pids "$net-$i" 2>/dev/null)
        # shellcheck disable=SC2086 # several numbers
        [ -z "$pids" ] || kill -9 $pids 2>/dev/null
        ip netns del "$net-$i" 2>/dev/null
    done
    ip netns del "$net-sw" 2>/dev/null
    machines_up=0
}

skip() {
    echo "skipped: $*" >&2
    net_down
    exit 77
}

# net_up N: machines 0 to N - 1 with addresses 10.97.0.1, ...
net_up() {
    local i
    command -v nft >/dev/null || skip "no nft (package nftables)"
    trap net_down EXIT
    machines_up=$1
    ip netns add "$net-sw" 2>why || skip "no network namespaces: $(head -1 why)"
    ip -n "$net-sw" link add br0 type bridge 2>why || skip "no bridge: $(head -1 why)"
    ip -n "$net-sw" link set br0 up
    for ((i = 0; i < $1; i++)); do
        ip netns add "$net-$i"
        ip -n "$net-$i" link set lo up
        ip link add eth0 netns "$net-$i" type veth peer name "p$i" netns "$net-sw" 2>why ||
            skip "no veth: $(head -1 why)"
        ip -n "$net-$i" addr add "10.97.0.$((i + 1))/24" dev eth0
        ip -n "$net-$i" link set eth0 up
        ip -n "$net-sw" link set "p$i" master br0 up
    done
    on 0 nft add table inet probe 2>why || skip "no firewall: $(head -1 why)"
}

# on I COMMAND...: on machine I.
on() {
    local i=$1
    shift
    ip netns exec "$net-$i" "$@"
}

cable() { ip -n "$net-sw" link set "p$1" "$2"; } # cable I up|down

# firewall I HOW J...: machine I exchanges nothing with machines J any more; HOW is what nft
# calls it, such as "reject with tcp reset" or "drop".
firewall() {
    local i=$1 how=$2 j
    shift 2
    for j in "$@"; do
        on "$i" nft -f - <<N
table inet wall {
    chain in {
        type filter hook input priority 0;
        ip saddr 10.97.0.$((j + 1)) meta l4proto tcp $how
    }
    chain out {
        type filter hook output priority 0;
        ip daddr 10.97.0.$((j + 1)) meta l4proto tcp $how
    }
}
N
    done
}
no_firewall() { on "$1" nft delete table inet wall; }

# start I NAME ARGUMENT...: weft train on machine I, in the background, with log.NAME and out.NAME; the
# number of the process is in $started[NAME].
declare -A started
start() {
    local i=$1 name=$2
    shift 2
    ip netns exec "$net-$i" "$weft" train "$@" >"out.$name" 2>"log.$name" &
    started[$name]=$!
}

# founders N ARGUMENT...: one process on each of machines 0 to N - 1, named by their numbers.
founders() {
    local n=$1 r
    shift
    for ((r = n - 1; r >= 0; r--)); do
        RANK=$r WORLD_SIZE=$n MASTER_ADDR=10.97.0.1 MASTER_PORT=29500 start "$r" "$r" "$@" "run.folder=run$r"
    done
}

lines() { grep -c '"loss"' "$1/metrics.jsonl" 2>/dev/null || true; }

# until_true SECONDS WHAT COMMAND...: waits until it succeeds; fails with the sentence.
until_true() {
    local s=$1 what=$2 k
    shift 2
    for ((k = 0; k < s * 20; k++)); do
        "$@" && return 0
        sleep 0.05
    done
    fail "$what: not within $s s: $(tail -n 3 log.* 2>/dev/null)"
    return 1
}
# newest FOLDER: the last step that it has.
newest() { tail -n 1 "$1/metrics.jsonl" 2>/dev/null | grep -o '"step":[0-9]*' | head -1 | cut -d: -f2; }
grows() { local a b; a=$(newest "$1"); sleep 0.7; b=$(newest "$1"); [ "${b:-0}" -gt "${a:-0}" ]; }
has_lines() { [ "$(lines "$1")" -ge "$2" ] 2>/dev/null; }
says() { grep -q "$2" "log.$1" 2>/dev/null; }
has_ended() { ! kill -0 "${started[$1]}" 2>/dev/null; }

# end_all: all processes of a trial.
end_all() {
    local name
    for name in "${!started[@]}"; do kill -9 "${started[$name]}" 2>/dev/null; done
    for name in "${!started[@]}"; do wait "${started[$name]}" 2>/dev/null; done
    started=()
    rm -rf run[0-9]* log.* out.*
}

# behind I R: machine I is no longer on the switch, but behind machine R, a router with a masquerade
# and no forwards, as 192.168.I.2.
behind() {
    local i=$1 r=$2
    ip -n "$net-$i" link del eth0
    ip link add eth0 netns "$net-$i" type veth peer name "in$i" netns "$net-$r"
    ip -n "$net-$i" addr add "192.168.$i.2/24" dev eth0
    ip -n "$net-$i" link set eth0 up
    ip -n "$net-$i" route add default via "192.168.$i.1"
    ip -n "$net-$r" addr add "192.168.$i.1/24" dev "in$i"
    ip -n "$net-$r" link set "in$i" up
    on "$r" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
    on "$r" nft -f - <<N
table inet router {
    chain after { type nat hook postrouting priority 100; oifname "eth0" masquerade; }
    chain through { type filter hook forward priority 0; policy drop;
        iifname "in*" accept; ct state established,related accept; }
}
N
}
