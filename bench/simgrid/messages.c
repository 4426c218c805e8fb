/* SPDX-License-Identifier: MIT */
/* The messages of weft's exchanges, for SimGrid's SMPI, and what they take:
 *
 *     messages all-reduce|all-gather|pair BYTES     BYTES: of one message
 *
 * all-reduce   a message to every rank, then an answer to every rank (begin, combine,
 *              end); in the order me + 1, me + 2, ...
 * all-gather   a message to every rank
 * pair         one to the neighbour and one back: a crossing step of AER
 *
 * Prints seconds from the begin to the last end, the mean of a few. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPEATS = 3, MOST = 4096 };

static char *sent, *received;
static MPI_Request requests[2 * MOST];

static void round_of_messages(int me, int n, size_t bytes, int tag) {
    int k = 0;
    for (int i = 0; i < n; i++)
        if (i != me)
            MPI_Irecv(received, (int)bytes, MPI_BYTE, i, tag, MPI_COMM_WORLD,
                      &requests[k++]);
    for (int i = 1; i < n; i++)
        MPI_Isend(sent, (int)bytes, MPI_BYTE, (me + i) % n, tag, MPI_COMM_WORLD,
                  &requests[k++]);
    MPI_Waitall(k, requests, MPI_STATUSES_IGNORE);
}

static void exchange(const char *what, int me, int n, size_t bytes) {
    if (strcmp(what, "pair") == 0) {
        MPI_Sendrecv(sent, (int)bytes, MPI_BYTE, me ^ 1, 0, received, (int)bytes,
                     MPI_BYTE, me ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    round_of_messages(me, n, bytes, 0);
    if (strcmp(what, "all-reduce") == 0) round_of_messages(me, n, bytes, 1);
}

/* A barrier leaves ranks a latency apart: all sleep until one time after it. */
static void begin_together(void) {
    double when = MPI_Wtime() + 1;
    MPI_Bcast(&when, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    usleep((useconds_t)(1e6 * (when - MPI_Wtime())));
}

int main(int argc, char **argv) {
    int me, n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    size_t bytes = argc > 2 ? (size_t)atol(argv[2]) : 0;
    sent = SMPI_SHARED_MALLOC(bytes + 1);
    received = SMPI_SHARED_MALLOC(bytes + 1);
    double sum = 0;
    for (int i = 0; i < REPEATS && argc > 2 && n <= MOST; i++) {
        begin_together();
        double begin = MPI_Wtime(), first, end, last;
        exchange(argv[1], me, n, bytes);
        end = MPI_Wtime();
        MPI_Allreduce(&begin, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        MPI_Allreduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        sum += (last - first) / REPEATS;
    }
    if (me == 0) printf("%.9f\n", sum);
    SMPI_SHARED_FREE(sent);
    SMPI_SHARED_FREE(received);
    MPI_Finalize();
    return 0;
}
