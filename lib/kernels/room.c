/* SPDX-License-Identifier: MIT */
/* Room for the matrix library. OpenBLAS takes 128 MiB of addresses for each thread that
 * multiplies. Where the process may not have them (ulimit -v) it asks again, for ever. */
#define _DEFAULT_SOURCE
#include "kernels/kernels.h"

#include <sys/mman.h>
#include <sys/resource.h>

weft_status wefti_products_check(weft_ctx *ctx, int threads) {
#ifdef WEFT_BLAS
    enum { BUFFER_MIB = 200 }; /* with the heap and the stack of a thread */
    struct rlimit limit;
    size_t n = (size_t)(threads > 1 ? threads : 1) * BUFFER_MIB << 20;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return WEFT_OK;
    void *room = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                      0);
    if (room != MAP_FAILED) {
        munmap(room, n);
        return WEFT_OK;
    }
    return weft_ctx_fail(
        ctx, WEFT_ERR_MEMORY,
        "the process may have %lld MiB of addresses (ulimit -v), and too few "
        "are left for matrix products in %d threads, which take %d MiB each; "
        "expected a higher limit or fewer threads (mesh.threads)",
        (long long)(limit.rlim_cur >> 20), threads, (int)BUFFER_MIB);
#else
    (void)ctx, (void)threads;
    return WEFT_OK;
#endif
}
