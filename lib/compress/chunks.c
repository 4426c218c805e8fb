/* SPDX-License-Identifier: MIT */
/* How a tensor's shard is cut into chunks: runs of c elements of the flat shard, or squares of
 * c x c of a matrix; ragged ends are filled with zeros. docs/methods.md, demo. */
#include "compress/chunks.h"

#include <string.h>

wefti_chunks wefti_chunks_make(int dims, int64_t c, int64_t k, int64_t rows,
                               int64_t cols) {
    wefti_chunks s = {.c = c, .lines = 1, .k = k, .rows = 1, .cols = rows * cols};
    if (dims == 2 && cols > 1) {
        s.lines = c;
        s.rows = rows;
        s.cols = cols;
    } else if (dims == 2) {
        s.k = k / c > 1 ? k / c : 1;
    }
    s.elements = s.lines * c;
    s.across = (s.cols + c - 1) / c;
    s.n = s.across * ((s.rows + s.lines - 1) / s.lines);
    return s;
}

int64_t wefti_chunks_line(const wefti_chunks *s, int64_t chunk, int64_t line,
                          int64_t *offset) {
    int64_t row = chunk / s->across * s->lines + line, col = chunk % s->across * s->c;
    *offset = row * s->cols + col;
    if (row >= s->rows) return 0;
    return s->cols - col < s->c ? s->cols - col : s->c;
}

void wefti_chunks_load(const wefti_chunks *s, int64_t first, int64_t n,
                       const float *tensor, float *x) {
    for (int64_t i = 0; i < n * s->lines; i++, x += s->c) {
        int64_t offset,
            len = wefti_chunks_line(s, first + i / s->lines, i % s->lines, &offset);
        if (len > 0) memcpy(x, tensor + offset, (size_t)len * sizeof(float));
        if (len < s->c) memset(x + len, 0, (size_t)(s->c - len) * sizeof(float));
    }
}

void wefti_chunks_store(const wefti_chunks *s, int64_t first, int64_t n, const float *x,
                        float *tensor) {
    for (int64_t i = 0; i < n * s->lines; i++, x += s->c) {
        int64_t offset,
            len = wefti_chunks_line(s, first + i / s->lines, i % s->lines, &offset);
        if (len > 0) memcpy(tensor + offset, x, (size_t)len * sizeof(float));
    }
}

int64_t wefti_chunks_bits_bytes(const wefti_chunks *s) { return (s->elements + 7) / 8; }
