/* SPDX-License-Identifier: MIT */
/* What MPI gets out of the links: half a round trip of one byte, a one-way stream, and an
 * all-reduce. One line each on rank 0's output; medians over a few rounds.
 *
 *     netlab run -- ./measure [MEGABYTES]       of the stream; 4 if not given */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 9 };

static int rank, size;

static int ascending(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, ascending);
    return values[ROUNDS / 2];
}

/* Rank 0 sends n bytes to the last rank and waits for `back` bytes. */
static double there_and_back(char *buffer, int n, int back) {
    MPI_Status status;
    double begin_s = MPI_Wtime();
    if (rank == 0) {
        MPI_Send(buffer, n, MPI_CHAR, size - 1, 1, MPI_COMM_WORLD);
        MPI_Recv(buffer, back, MPI_CHAR, size - 1, 2, MPI_COMM_WORLD, &status);
    } else if (rank == size - 1) {
        MPI_Recv(buffer, n, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &status);
        MPI_Send(buffer, back, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }
    return MPI_Wtime() - begin_s;
}

static double reduce(float *in, float *out, int n) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin_s = MPI_Wtime();
    MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return MPI_Wtime() - begin_s;
}

int main(int argc, char **argv) {
    double ping_s[ROUNDS], stream_s[ROUNDS], reduce_s[ROUNDS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int n_bytes = (argc > 1 ? atoi(argv[1]) : 4) << 20, n = n_bytes / 4;
    float *in = calloc((size_t)n, 4), *out = calloc((size_t)n, 4);
    if (!in || !out || size < 2 || n_bytes <= 0) {
        fprintf(stderr, "measure: needs two ranks, memory, and a number of megabytes\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    for (int i = 0; i < n; i++) in[i] = (float)(rank + 1);
    there_and_back((char *)out, 1, 1);
    for (int i = 0; i < ROUNDS; i++) ping_s[i] = there_and_back((char *)out, 1, 1) / 2;
    for (int i = 0; i < ROUNDS; i++) stream_s[i] = there_and_back((char *)in, n_bytes, 1);
    for (int i = 0; i < n; i++) in[i] = (float)(rank + 1);
    for (int i = 0; i < ROUNDS; i++) reduce_s[i] = reduce(in, out, n);
    double expected = size * (size + 1) / 2.0, latency_s = median(ping_s);
    double stream = median(stream_s) - 2 * latency_s, all = median(reduce_s);
    if (rank == 0)
        printf("one way %.3f ms, stream %.1f Mbit/s, all-reduce of %d MB %.1f ms\n",
               latency_s * 1e3, n_bytes * 8e-6 / stream, n_bytes >> 20, all * 1e3);
    int right = (double)out[0] == expected && (double)out[n - 1] == expected;
    if (!right) fprintf(stderr, "measure: a wrong sum on rank %d\n", rank);
    free(in);
    free(out);
#ifdef MPICH_VERSION /* 4.0 over TCP with more than two ranks may hang in MPI_Finalize   \
                      */
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (right) _exit(0);
#endif
    MPI_Finalize();
    return right ? 0 : 1;
}
