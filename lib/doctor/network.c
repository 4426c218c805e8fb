/* SPDX-License-Identifier: MIT */
/* Names, interfaces, and routes to other machines. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sized.h"
#include "base/text.h"
#include "mesh/mesh.h"
#include "net/socket.h"
#include "doctor/examine.h"

/* An address that no machine has (RFC 5737): the route to it is the default route. */
static const char nobody[] = "192.0.2.1";

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 v6;
    memcpy(&v6, address, sizeof v6);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

static void address_text(const struct sockaddr *address, char *out, size_t size) {
    socklen_t n = address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                : sizeof(struct sockaddr_in6);
    if (getnameinfo(address, n, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
        out[0] = '\0';
}

/* Finds the interface that has this address; "" if none has it. */
static void interface_of(const char *address, char *out, size_t size) {
    struct ifaddrs *all;
    char text[NI_MAXHOST];
    wefti_set_text(out, size, "");
    if (getifaddrs(&all) != 0) return;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!i->ifa_addr ||
            (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
            continue;
        address_text(i->ifa_addr, text, sizeof text);
        if (wefti_is(text, address)) wefti_set_text(out, size, i->ifa_name);
    }
    freeifaddrs(all);
}

static int64_t mtu_of(const char *interface) {
    struct ifreq request = {.ifr_name = {0}};
    int64_t mtu = -1;
    int fd = wefti_socket_open(AF_INET, SOCK_DGRAM);
    if (fd < 0) return -1;
    wefti_set_text(request.ifr_name, sizeof request.ifr_name, interface);
    if (interface[0] && ioctl(fd, SIOCGIFMTU, &request) == 0) mtu = request.ifr_mtu;
    close(fd);
    return mtu;
}

/* Finds the interface and source address of packets to an address. It connects a datagram
 * socket, which sends nothing, and asks the kernel. Returns errno or 0. */
static int route_of(const struct sockaddr *to, socklen_t n, char *interface,
                    size_t interface_size, char *source, size_t source_size,
                    int64_t *path_mtu) {
    struct sockaddr_storage own;
    socklen_t own_n = sizeof own;
    char text[NI_MAXHOST];
    int fd = wefti_socket_open(to->sa_family, SOCK_DGRAM);
    if (fd < 0) return errno;
    if (connect(fd, to, n) != 0 ||
        getsockname(fd, (struct sockaddr *)&own, &own_n) != 0) {
        int error = errno;
        close(fd);
        return error;
    }
#ifdef IP_MTU /* not on macOS */
    int mtu = -1;
    socklen_t mtu_n = sizeof mtu;
    if (path_mtu && to->sa_family == AF_INET &&
        getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &mtu_n) == 0)
        *path_mtu = mtu;
#else
    (void)path_mtu;
#endif
    close(fd);
    address_text((const struct sockaddr *)&own, text, sizeof text);
    wefti_set_text(source, source_size, text);
    interface_of(text, interface, interface_size);
    return 0;
}

static int way_to(const char *address, char *interface, size_t interface_size,
                  char *source, size_t source_size) {
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_family = AF_UNSPEC}, *found;
    if (getaddrinfo(address, "9", &hints, &found) != 0) return EHOSTUNREACH;
    int error = route_of(found->ai_addr, found->ai_addrlen, interface, interface_size,
                         source, source_size, NULL);
    freeaddrinfo(found);
    return error;
}

static void list_interfaces(weft_rank_facts *facts) {
    struct ifaddrs *all;
    char text[NI_MAXHOST];
    size_t n = 0;
    if (getifaddrs(&all) != 0) return;
    facts->n_interfaces = 0;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
            !(i->ifa_flags & IFF_UP) || i->ifa_flags & IFF_LOOPBACK)
            continue;
        address_text(i->ifa_addr, text, sizeof text);
        facts->n_interfaces++;
        int more = snprintf(facts->interfaces + n, sizeof facts->interfaces - n,
                            "%s%s %s mtu %lld", n ? ", " : "", i->ifa_name, text,
                            (long long)mtu_of(i->ifa_name));
        n += (size_t)more < sizeof facts->interfaces - n
                 ? (size_t)more
                 : sizeof facts->interfaces - n - 1;
    }
    freeifaddrs(all);
}

/* A host of the mesh that is not this one, or NULL. */
static const char *other_host(weft_mesh *mesh) {
    if (!mesh) return NULL;
    weft_mesh_facts facts = *weft_mesh_look(mesh);
    for (int r = 0; r < facts.size; r++)
        if (!wefti_mesh_same_host(mesh, r, facts.rank)) return weft_mesh_host_of(mesh, r);
    return NULL;
}

/* Chooses the interface to the other machines: that of the route to the named host, else
 * that of the default route, else the only interface.
 */
static void choose_interface(const weft_doctor_options *options, weft_rank_facts *facts) {
    char path[64];
    const char *to = options->toward && options->toward[0] ? options->toward
                                                           : other_host(options->mesh);
    snprintf(facts->chosen, sizeof facts->chosen, "the %s%.60s",
             to ? "route to " : "default route", to ? to : "");
    if (way_to(to ? to : nobody, facts->interface, sizeof facts->interface,
               facts->address, sizeof facts->address) != 0 &&
        facts->n_interfaces > 0) {
        wefti_set_text(facts->chosen, sizeof facts->chosen, "no route, it is the first");
        char address[48];
        if (sscanf(facts->interfaces, "%15s %47s", facts->interface, address) == 2)
            wefti_set_text(facts->address, sizeof facts->address, address);
    }
    if (!facts->interface[0]) return;
    facts->mtu = mtu_of(facts->interface);
    /* the speed that a virtual interface reports is meaningless */
    snprintf(path, sizeof path, "/sys/class/net/%s/device", facts->interface);
    if (access(path, F_OK) != 0) return;
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", facts->interface);
    facts->speed_Mbit = wefti_lone_number(options->root, path);
    if (facts->speed_Mbit <= 0) facts->speed_Mbit = -1;
}

/* Resolves the host's own name. An address of this machine takes precedence over
 * loopback, and loopback over an address of another machine. */
static void resolve_host(weft_rank_facts *facts) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET}, *found;
    char text[NI_MAXHOST], interface[IF_NAMESIZE];
    facts->host_resolves = 0;
    if (!facts->host[0] || getaddrinfo(facts->host, NULL, &hints, &found) != 0) return;
    for (const struct addrinfo *a = found; a && facts->host_resolves != 2;
         a = a->ai_next) {
        address_text(a->ai_addr, text, sizeof text);
        interface_of(text, interface, sizeof interface);
        int64_t sort = is_loopback(a->ai_addr) ? 1 : interface[0] ? 2 : 3;
        if (facts->host_resolves == 1 && sort == 3) continue;
        facts->host_resolves = sort;
        wefti_set_text(facts->host_address, sizeof facts->host_address, text);
    }
    freeaddrinfo(found);
}

/* The last of the three numbers of net.ipv4.tcp_wmem and tcp_rmem. */
static int64_t most_of(const char *root, const char *path) {
    char line[128];
    long long most = -1;
    if (wefti_first_line(root, path, line, sizeof line))
        (void)sscanf(line, "%*d %*d %lld", &most);
    return most;
}

void wefti_examine_network(const weft_doctor_options *options, weft_rank_facts *facts) {
    const char *root = options->root;
    facts->send_buffer = most_of(root, "/proc/sys/net/ipv4/tcp_wmem");
    facts->receive_buffer = most_of(root, "/proc/sys/net/ipv4/tcp_rmem");
    (void)wefti_first_line(root, "/proc/sys/net/ipv4/tcp_congestion_control",
                           facts->congestion, sizeof facts->congestion);
    list_interfaces(facts);
    choose_interface(options, facts);
    resolve_host(facts);
}

/* ---- another machine ---- */

/* Opens a connection; *round_trip_s is the time until the answer. */
static int knock(const struct addrinfo *to, double until_s, double *round_trip_s) {
    int fd = wefti_socket_open(to->ai_family, SOCK_STREAM);
    if (fd < 0) return errno;
    double begin_s = wefti_now_s();
    int error = connect(fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
    while (error == EINPROGRESS || error == EINTR) {
        double left_s = until_s - wefti_now_s();
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        int ready = left_s > 0 ? poll(&wait, 1, (int)(left_s * 1e3) + 1) : 0;
        socklen_t n = sizeof error;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0)
            error = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
            error = errno;
    }
    *round_trip_s = wefti_now_s() - begin_s;
    close(fd);
    return error;
}

static weft_peer_answer answer_of(int error) {
    switch (error) {
    case 0: return WEFT_PEER_CONNECTED;
    case ECONNREFUSED: return WEFT_PEER_REFUSED;
    case ETIMEDOUT: return WEFT_PEER_SILENT;
    default: return WEFT_PEER_UNREACHABLE;
    }
}

/* Connects three times, because the first time also includes the search for the
 * neighbour's hardware address. */
static void knock_thrice(const struct addrinfo *to, double until_s,
                         weft_peer_facts *out) {
    enum { TIMES = 3 };
    for (int i = 0; i < TIMES; i++) {
        double round_trip_s = -1;
        int error = knock(to, until_s, &round_trip_s);
        out->answer = answer_of(error);
        wefti_set_text(out->error, sizeof out->error, error ? strerror(error) : "");
        if (out->answer != WEFT_PEER_CONNECTED && out->answer != WEFT_PEER_REFUSED)
            return;
        if (out->round_trip_s < 0 || round_trip_s < out->round_trip_s)
            out->round_trip_s = round_trip_s;
    }
}

static weft_status reach(weft_ctx *ctx, const char *host, int port, double timeout_s,
                         weft_peer_facts *out) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC}, *found;
    char service[16];
    *out = (weft_peer_facts){.struct_size = sizeof(weft_peer_facts),
                             .answer = WEFT_PEER_UNKNOWN,
                             .mtu = -1,
                             .path_mtu = -1,
                             .port = port,
                             .round_trip_s = -1};
    if (port < 1 || port > 65535)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "port is %d, expected 1 to 65535",
                             port);
    wefti_set_text(out->name, sizeof out->name, host);
    snprintf(service, sizeof service, "%d", port);
    int error = getaddrinfo(host, service, &hints, &found);
    if (error) {
        wefti_set_text(out->error, sizeof out->error, gai_strerror(error));
        return WEFT_OK;
    }
    address_text(found->ai_addr, out->address, sizeof out->address);
    out->loopback = is_loopback(found->ai_addr);
    error = route_of(found->ai_addr, found->ai_addrlen, out->interface,
                     sizeof out->interface, out->source, sizeof out->source,
                     &out->path_mtu);
    if (error) {
        out->answer = WEFT_PEER_UNREACHABLE;
        wefti_set_text(out->error, sizeof out->error, strerror(error));
    } else {
        out->mtu = mtu_of(out->interface);
        knock_thrice(found, wefti_now_s() + timeout_s, out);
    }
    freeaddrinfo(found);
    return WEFT_OK;
}

/* Whether this process can call a rank where it listens: "address:port". */
static char call(weft_ctx *ctx, const weft_mesh *mesh, int rank) {
    enum { MOST_S = 2 };
    weft_peer_facts peer;
    char where[80], *colon;
    if (wefti_mesh_same_host(mesh, rank, mesh->rank)) return '=';
    if (!mesh->ops.where || !mesh->ops.where(mesh->transport, mesh->places.peer_of[rank],
                                             where, sizeof where))
        return '?';
    colon = strrchr(where, ':');
    if (!colon) return '?';
    *colon = '\0';
    char *host = where[0] == '[' ? where + 1 : where; /* [fd00::2]:29500 */
    host[strcspn(host, "]")] = '\0';
    int port = (int)strtol(colon + 1, NULL, 10);
    if (reach(ctx, host, port, MOST_S, &peer) != WEFT_OK) {
        weft_ctx_clear(ctx);
        return '?';
    }
    return peer.answer == WEFT_PEER_CONNECTED ? '+' : '-';
}

void wefti_examine_calls(weft_ctx *ctx, weft_mesh *mesh, weft_rank_facts *facts) {
    int n = weft_mesh_look(mesh)->size, room = (int)sizeof facts->calls - 1;
    for (int r = 0; mesh->ops.where && r < n && r < room; r++)
        facts->calls[r] = call(ctx, mesh, r);
}

weft_status weft_doctor_reach(weft_ctx *ctx, const char *host, int port, double timeout_s,
                              weft_peer_facts *out) {
    WEFTI_SIZED_OUT(ctx, weft_peer_facts, out);
    return WEFTI_SIZED_GIVE(weft_peer_facts, out, reach(ctx, host, port, timeout_s, out));
}
