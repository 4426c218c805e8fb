/* SPDX-License-Identifier: MIT */
/* What moving bytes costs: two processes over loopback, of one machine's name or of two,
 * send each other messages of a step's size, or nothing, and the processor time that they
 * take is counted. Everything but the thread that moves the messages only waits.
 *
 *     weft_transport_case bulk|idle [--away] [--key FILE] [--gb N] [--streams K] [--ahead N]
 *
 * With --rank R --host ADDRESS it is one of two processes, on machines of their own
 * (bench/transport/slow makes two, with a wire of a given rate between them).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "mesh/mesh.h"
#include "start/tcp.h"

enum { MESSAGE_BYTES = 43000000, PORT = 29431, TAG = 1000, IDLE_S = 10 };

typedef struct options {
    bool idle, away;
    double gb; /* out of each process */
    int rank;  /* -1: both */
    int ahead; /* exchanges under way */
    const char *host;
    weft_mesh_security security;
} options;

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static double processor_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

static weft_status begin(wefti_comm *comm, const void *data, int64_t tag) {
    return wefti_comm_send(comm, 1 - comm->rank, tag, data, MESSAGE_BYTES);
}

static weft_status end(wefti_comm *comm, int64_t tag) {
    const void *view;
    int peer = 1 - comm->rank;
    WEFT_TRY(wefti_comm_receive(comm, peer, tag, MESSAGE_BYTES, &view));
    wefti_comm_release(comm, peer, tag);
    return wefti_comm_await(comm, tag);
}

/* Exchanges `from` to `to` - 1, with o->ahead under way. */
static weft_status exchange(wefti_comm *comm, const void *data, const options *o,
                            int from, int to) {
    for (int i = from; i < to + o->ahead; i++) {
        if (i >= from + o->ahead) WEFT_TRY(end(comm, TAG + i - o->ahead));
        if (i < to) WEFT_TRY(begin(comm, data, TAG + i));
    }
    return WEFT_OK;
}

static weft_status measure(wefti_comm *comm, const options *o) {
    char *data = calloc(MESSAGE_BYTES, 1);
    int rounds = o->idle ? 0 : (int)(o->gb * 1e9 / MESSAGE_BYTES) + 1;
    weft_status status = exchange(comm, data, o, -o->ahead, 0); /* gets the memory */
    double began_s = wefti_now_s(), cpu_s = processor_s();
    if (status == WEFT_OK) status = exchange(comm, data, o, 0, rounds);
    if (o->idle) sleep(IDLE_S);
    double took_s = wefti_now_s() - began_s;
    cpu_s = processor_s() - cpu_s;
    double gb = 2e-9 * rounds * MESSAGE_BYTES;
    if (o->idle)
        printf("rank %d: %.3f %% of a core\n", comm->rank, 100 * cpu_s / took_s);
    else
        printf(
            "rank %d: %.3f s of processor per GB (sent + received), %.4f GB/s each way\n",
            comm->rank, cpu_s / gb, gb / 2 / took_s);
    free(data);
    return status;
}

static weft_status take_part(weft_ctx *ctx, int rank, const options *o) {
    wefti_tcp_place place = {.rank = rank,
                             .size = 2,
                             .host = o->host,
                             .port = PORT,
                             .patience_s = 20,
                             .plain = o->security.plain,
                             .streams = o->security.streams};
    weft_transport *transport;
    weft_mesh *mesh;
    wefti_comm *comm;
    WEFT_TRY(wefti_tcp_open(ctx, &place, &o->security, &transport));
    WEFT_TRY(weft_mesh_create(ctx, transport, &mesh));
    weft_status status = wefti_world_join(ctx, &mesh->world, mesh->rank,
                                          WEFTI_GROUP_WORLD, 0, &comm);
    if (status == WEFT_OK) status = measure(comm, o);
    if (status == WEFT_OK) status = wefti_comm_barrier(comm, 1 << 20);
    wefti_comm_destroy(comm);
    weft_mesh_close(mesh);
    return status;
}

static int be_rank(int rank, const options *o) {
    weft_ctx *ctx;
    if (o->away && rank == 1 &&
        (unshare(CLONE_NEWUTS) != 0 || sethostname("elsewhere", 9) != 0)) {
        fprintf(stderr, "--away needs the right to have another host name\n");
        return 1;
    }
    if (weft_ctx_create(&ctx) != WEFT_OK) return 1;
    weft_status status = take_part(ctx, rank, o);
    if (status != WEFT_OK) fprintf(stderr, "rank %d: %s\n", rank, weft_ctx_message(ctx));
    weft_ctx_destroy(ctx);
    return status != WEFT_OK;
}

static bool parse(int argc, char **argv, options *o) {
    *o = (options){.gb = 4, .rank = -1, .ahead = 1, .host = "127.0.0.1"};
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "idle") == 0)
            o->idle = true;
        else if (strcmp(argv[i], "--away") == 0)
            o->away = true;
        else if (strcmp(argv[i], "--key") == 0 && next)
            o->security.key = argv[++i];
        else if (strcmp(argv[i], "--streams") == 0 && next)
            o->security.streams = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--ahead") == 0 && next)
            o->ahead = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--gb") == 0 && next)
            o->gb = strtod(argv[++i], NULL);
        else if (strcmp(argv[i], "--rank") == 0 && next)
            o->rank = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--host") == 0 && next)
            o->host = argv[++i];
        else if (strcmp(argv[i], "--plain") == 0)
            o->security.plain = true;
        else if (strcmp(argv[i], "bulk") != 0)
            return false;
    }
    return argc > 1 && o->ahead > 0;
}

int main(int argc, char **argv) {
    options o;
    int result = 0;
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "weft_transport_case bulk|idle [--away] [--key FILE] [--gb N]\n");
        return 2;
    }
    if (o.rank >= 0) return be_rank(o.rank, &o);
    for (int r = 0; r < 2; r++)
        if (fork() == 0) return be_rank(r, &o);
    for (int r = 0; r < 2; r++) {
        int status = 0;
        wait(&status);
        result |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return result;
}
