/* SPDX-License-Identifier: MIT */
/* Names, interfaces, other machines: whether ranks on different hosts can reach each other.
 *
 *     name        the name of a host resolves to an address of one of its interfaces, and not
 *                 to loopback: other hosts use this name and would reach themselves
 *     machine     its number, and whether another machine has the same name
 *     interface   there is a route out; which interface is used if there are several
 *     bridges     docker0 and similar ones have the same address on every host
 *     hosts       no address twice, one packet size, one link speed
 *     peer        answers, refuses, is silent, unreachable or unknown: advice for each case
 *
 * A message library that picks the wrong interface does not fail but hangs, so these
 * findings name the setting that selects the interface. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "doctor/judge.h"

/* Judges host_resolves: 0 no address, 1 loopback, 2 an address of this machine, 3 one of
 * another machine. */
static void judge_name(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    weft_severity bad = j->several ? WEFT_FINDING_ERROR : WEFT_FINDING_NOTE;
    if (f->host_resolves == 0)
        wefti_find(j, bad, "name", r,
                   "add a line with its address and name to /etc/hosts on every machine, "
                   "or to the name server",
                   "the host name %s of %s has no address", f->host,
                   j->n_hosts > 1 ? "that machine" : "this machine");
    else if (f->host_resolves == 1)
        wefti_find(
            j, j->several ? WEFT_FINDING_WARNING : WEFT_FINDING_NOTE, "name", r,
            "put the address that others reach it at beside its name in /etc/hosts, in "
            "place of 127.0.1.1; or tell MPI which interface to use (docs/launching.md)",
            "the host name %s resolves to %s, which is loopback: others that are told "
            "this address reach themselves",
            f->host, f->host_address);
    else if (f->host_resolves == 3)
        wefti_find(
            j, j->several ? WEFT_FINDING_ERROR : WEFT_FINDING_NOTE, "name", r,
            "correct /etc/hosts or the name server",
            "the host name %s resolves to %s, an address that none of its interfaces has "
            "(%s)",
            f->host, f->host_address, f->interfaces[0] ? f->interfaces : "loopback");
    else if (f->host_resolves == 2)
        wefti_find(j, WEFT_FINDING_OK, "name", r, NULL, "the host name %s resolves to %s",
                   f->host, f->host_address);
}

/* Judges which machine this is: a node is the ranks of one machine, and two machines may have
 * the same name. */
static void judge_identity(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    for (int64_t other = 0; other < r; other++)
        if (wefti_is(j->ranks[other].host, f->host) && !wefti_same_host(j, other, r)) {
            wefti_find(j, WEFT_FINDING_NOTE, "machine", r,
                       "give each machine its own name: hostnamectl set-hostname",
                       "ranks %lld and %lld run on two machines with the name %s: two "
                       "nodes, but messages do not show which of them is meant",
                       (long long)other, (long long)r, f->host);
            return;
        }
    if (f->machine)
        wefti_find(j, WEFT_FINDING_OK, "machine", r, NULL,
                   "%s is machine %016llx: the ranks with this number form a node",
                   f->host, (unsigned long long)f->machine);
}

/* Judges which interface the default route uses, and which others there are. */
static void judge_interface(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    char speed[48] = "";
    if (f->speed_Mbit > 0)
        snprintf(speed, sizeof speed, ", %lld Mbit/s", (long long)f->speed_Mbit);
    if (!f->interface[0])
        wefti_find(j, j->several ? WEFT_FINDING_ERROR : WEFT_FINDING_NOTE, "interface", r,
                   "look at ip address and ip route; with one machine nothing is needed",
                   "%s has no interface to others: %s", wefti_place(j, r),
                   f->n_interfaces == 0 ? "none but loopback is up"
                                        : "there is no route");
    else if (wefti_is(f->interface, "lo"))
        return; /* reported with the peer that is reached through it */
    else
        wefti_find(j, WEFT_FINDING_OK, "interface", r, NULL,
                   "%s reaches others through %s, address %s, MTU %lld%s%s%s",
                   wefti_place(j, r), f->interface, f->address, (long long)f->mtu, speed,
                   f->chosen[0] ? "; by " : "", f->chosen);
    if (f->n_interfaces > 1 && !f->mca_interface[0])
        wefti_find(j, WEFT_FINDING_NOTE, "interface", r,
                   "name one: Open MPI --mca btl_tcp_if_include NAME --mca "
                   "oob_tcp_if_include NAME, MPICH -iface NAME and UCX_NET_DEVICES=NAME",
                   "%s has %lld interfaces, and MPI may use any of them: %s",
                   wefti_place(j, r), (long long)f->n_interfaces, f->interfaces);
}

/* docker0 and similar interfaces have the same address on every machine, which Open MPI
 * mistakes for a connection between them. */
static void judge_bridges(wefti_judge *j) {
    static const char *const names[] = {"docker0 ", "virbr0 ", "lxcbr0 ", "podman0 ",
                                        "cni0 "};
    for (int64_t r = 0; j->several && r < j->n_ranks; r++) {
        if (!wefti_first_of_host(j, r) || j->ranks[r].mca_interface[0]) continue;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strstr(j->ranks[r].interfaces, names[i])) {
                wefti_find(
                    j, WEFT_FINDING_WARNING, "interface", r,
                    "mpirun --mca btl_tcp_if_include and oob_tcp_if_include with the "
                    "interface between the machines, UCX_NET_DEVICES for MPICH",
                    "%s has %s, whose address other machines may have too; Open MPI "
                    "hangs when it takes it for a way between them",
                    wefti_place(j, r), names[i]);
                return;
            }
    }
}

/* Compares pairs of hosts: two with the same address are an error; different packet sizes
 * and speeds are reported once, relative to the first host. */
static void compare_hosts(wefti_judge *j) {
    for (int64_t a = 0; a < j->n_ranks; a++)
        for (int64_t b = a + 1; b < j->n_ranks; b++) {
            const weft_rank_facts *x = &j->ranks[a], *y = &j->ranks[b];
            if (wefti_same_host(j, a, b) || !wefti_first_of_host(j, a) ||
                !wefti_first_of_host(j, b))
                continue;
            if (x->address[0] && wefti_is(x->address, y->address))
                wefti_find(j, WEFT_FINDING_ERROR, "interface", b,
                           "give each its own address; if they are containers of one "
                           "machine, a network of their own",
                           "%s and %s have the same address %s", x->host, y->host,
                           x->address);
            if (a == 0 && x->mtu > 0 && y->mtu > 0 && x->mtu != y->mtu)
                wefti_find(
                    j, WEFT_FINDING_WARNING, "interface", b,
                    "ip link set INTERFACE mtu N, the same on all machines and switches",
                    "%s sends packets of %lld bytes and %s of %lld: large messages may "
                    "hang",
                    x->host, (long long)x->mtu, y->host, (long long)y->mtu);
            if (a == 0 && x->speed_Mbit > 0 && y->speed_Mbit > 0 &&
                x->speed_Mbit != y->speed_Mbit)
                wefti_find(j, WEFT_FINDING_WARNING, "interface", b,
                           "look at cables and switch ports (ethtool INTERFACE): all "
                           "wait for the slowest",
                           "the link of %s has %lld Mbit/s and that of %s %lld", x->host,
                           (long long)x->speed_Mbit, y->host, (long long)y->speed_Mbit);
        }
}

/* Whether rank a could call rank b: '+', '-', else not known. */
static char calls(const wefti_judge *j, int64_t a, int64_t b) {
    const char *letters = j->ranks[a].calls;
    return b < (int64_t)strlen(letters) ? letters[b] : '?';
}

/* Two that cannot call each other meet at the first one that both can call. */
static void judge_pair(wefti_judge *j, int64_t a, int64_t b) {
    const char *x = j->ranks[a].host, *y = j->ranks[b].host;
    if (calls(j, a, b) != '-' || calls(j, b, a) != '-') return;
    for (int64_t r = 0; r < j->n_ranks; r++)
        if (calls(j, a, r) == '+' && calls(j, b, r) == '+') {
            wefti_find(j, WEFT_FINDING_NOTE, "reach", b,
                       "open a port of one of them at its router, or use a WireGuard "
                       "network, if the line of the relay is too slow",
                       "%s and %s cannot call each other: %s relays, whose line carries "
                       "their bytes in and out",
                       x, y, j->ranks[r].host);
            return;
        }
    wefti_find(j, WEFT_FINDING_ERROR, "reach", b,
               "one machine that all can call is enough",
               "%s and %s cannot call each other, and none can be called by both", x, y);
}

/* Who can be called by whom, over weft's own transport. */
static void judge_reach(wefti_judge *j) {
    int64_t n_known = 0, n_shut = 0;
    for (int64_t b = 0; b < j->n_ranks; b++) {
        char by[160] = "";
        if (!wefti_first_of_host(j, b)) continue;
        for (int64_t a = 0; a < j->n_ranks; a++) {
            size_t n = strlen(by);
            n_known += calls(j, a, b) == '+';
            if (calls(j, a, b) != '-' || !wefti_first_of_host(j, a)) continue;
            snprintf(by + n, sizeof by - n, "%s%s", n ? ", " : "", j->ranks[a].host);
            n_shut++;
            if (a < b) judge_pair(j, a, b);
        }
        if (by[0])
            wefti_find(
                j, WEFT_FINDING_NOTE, "reach", b, NULL,
                "%s cannot be called by %s (a router or a firewall): it calls them",
                j->ranks[b].host, by);
    }
    if (n_known > 0 && n_shut == 0)
        wefti_find(j, WEFT_FINDING_OK, "reach", -1, NULL,
                   "each machine can be called by each other one");
}

/* Judges the result of connecting to a peer. A refusal shows that the route works: the machine
 * answered, although no process listens. Silence means a firewall, or a machine that is off. */
static void judge_answer(wefti_judge *j, const weft_peer_facts *p) {
    char advice[384];
    long long port = (long long)p->port;
    switch (p->answer) {
    case WEFT_PEER_CONNECTED:
        wefti_find(j, WEFT_FINDING_OK, "peer", -1, NULL,
                   "%s (%s) answers on port %lld in %.3g ms through %s", p->name,
                   p->address, port, p->round_trip_s * 1e3, p->interface);
        return;
    case WEFT_PEER_REFUSED:
        snprintf(advice, sizeof advice,
                 "start the service there (port 22: sshd, with which mpirun starts "
                 "ranks), or ask another port: --port N");
        wefti_find(
            j, WEFT_FINDING_WARNING, "peer", -1, advice,
            "%s (%s) is there, in %.3g ms through %s, but nobody listens on port %lld",
            p->name, p->address, p->round_trip_s * 1e3, p->interface, port);
        return;
    case WEFT_PEER_SILENT:
        snprintf(advice, sizeof advice,
                 "is it on? ping %s; if that answers, a firewall drops connections: test "
                 "with nc -l %lld there and nc -vz %s %lld here",
                 p->address, port == 22 ? 5000 : port, p->address,
                 port == 22 ? 5000 : port);
        wefti_find(j, WEFT_FINDING_ERROR, "peer", -1, advice,
                   "%s (%s) does not answer on port %lld through %s", p->name, p->address,
                   port, p->interface);
        return;
    case WEFT_PEER_UNREACHABLE:
        snprintf(advice, sizeof advice,
                 "look at ip route get %s, and whether it is on and in the same network",
                 p->address);
        wefti_find(j, WEFT_FINDING_ERROR, "peer", -1, advice,
                   "%s (%s) cannot be reached: %s", p->name, p->address, p->error);
        return;
    case WEFT_PEER_UNKNOWN: break;
    }
    wefti_find(j, WEFT_FINDING_ERROR, "peer", -1,
               "is it spelt right? else add it to /etc/hosts on every machine, or to the "
               "name server",
               "the name %s has no address: %s", p->name, p->error);
}

/* What a TCP connection has under way fits into the sender's buffer, of which the kernel uses
 * three tenths for itself, and into half of the receiver's. */
static void judge_window(wefti_judge *j, const weft_peer_facts *p) {
    const weft_rank_facts *f = &j->ranks[0];
    const double line_Bps = 1.25e8;
    double window = fmin(0.7 * (double)f->send_buffer, 0.5 * (double)f->receive_buffer);
    char advice[384];
    if (window <= 0 || p->round_trip_s < 2e-3 || window > line_Bps * p->round_trip_s)
        return;
    long long needed = (long long)ceil(2 * line_Bps * p->round_trip_s / (1 << 20)) << 20;
    snprintf(advice, sizeof advice,
             "sysctl -w net.ipv4.tcp_wmem='4096 16384 %lld' "
             "net.ipv4.tcp_rmem='4096 131072 %lld' on both; where packets are lost, "
             "net.ipv4.tcp_congestion_control=bbr (here: %s); weft opens several "
             "connections (mesh.streams) with bbr if it may, other programs may not",
             needed, needed, f->congestion[0] ? f->congestion : "not known");
    wefti_find(j, WEFT_FINDING_NOTE, "peer", -1, advice,
               "one TCP connection to %s carries at most %.3g Mbit/s, %.3g MB in %.3g ms "
               "(net.ipv4.tcp_wmem ends at %lld, tcp_rmem at %lld)",
               p->name, 8e-6 * window / p->round_trip_s, 1e-6 * window,
               1e3 * p->round_trip_s, (long long)f->send_buffer,
               (long long)f->receive_buffer);
}

/* Judges a peer that was named on the command line. */
static void judge_peer(wefti_judge *j, const weft_peer_facts *p) {
    if (p->loopback && wefti_is(p->name, j->ranks[0].host))
        return; /* judge_name has reported it */
    if (!p->loopback) judge_answer(j, p);
    if (p->loopback)
        wefti_find(j, WEFT_FINDING_ERROR, "peer", -1,
                   "write the address of the other machine beside its name in /etc/hosts",
                   "%s resolves to %s: this machine's own loopback", p->name, p->address);
    if (p->path_mtu > 0 && p->mtu > 0 && p->path_mtu < p->mtu)
        wefti_find(j, WEFT_FINDING_NOTE, "peer", -1,
                   "a tunnel on the way is usual; if large messages hang, set the "
                   "interface's MTU to it",
                   "packets to %s may have %lld bytes, less than the %lld of %s", p->name,
                   (long long)p->path_mtu, (long long)p->mtu, p->interface);
    bool there = p->answer == WEFT_PEER_CONNECTED || p->answer == WEFT_PEER_REFUSED;
    if (there && p->round_trip_s > 0.02)
        wefti_find(
            j, WEFT_FINDING_NOTE, "peer", -1,
            "let exchanges be rare or hidden: diloco, gossip, or weft plan with this "
            "latency",
            "the way to %s and back takes %.3g ms", p->name, p->round_trip_s * 1e3);
    if (there) judge_window(j, p);
}

void wefti_judge_network(wefti_judge *j) {
    for (int64_t r = 0; r < j->n_ranks; r++) {
        if (!wefti_first_of_host(j, r)) continue;
        judge_name(j, r);
        judge_identity(j, r);
        judge_interface(j, r);
    }
    judge_bridges(j);
    compare_hosts(j);
    judge_reach(j);
    for (int64_t i = 0; i < j->n_peers; i++) judge_peer(j, &j->peers[i]);
    if (j->several)
        wefti_find(j, WEFT_FINDING_NOTE, "firewall", -1,
                   "test any port both ways: nc -l 5000 there, nc -vz HOST 5000 here; or "
                   "keep to some: Open MPI --mca btl_tcp_port_min_v4 5000 --mca "
                   "btl_tcp_port_range_v4 100, MPICH MPIEXEC_PORT_RANGE=5000:5100",
                   "MPI opens ports that it chooses itself, and whether a firewall lets "
                   "them through cannot be seen beforehand");
}
