/* SPDX-License-Identifier: MIT */
#pragma once

#include "check.h"

#include <weft/config.h>

#include "config/layers.h"

/* A context and a fresh configuration for each test. */
typedef struct fixture {
    weft_ctx *ctx;
    weft_config *c;
    char warning[512];
} fixture;

static inline void keep_warning(void *user, weft_log_level level, const char *line) {
    fixture *f = user;
    if (level == WEFT_LOG_WARN) snprintf(f->warning, sizeof f->warning, "%s", line);
}

static inline int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (!f) return 1;
    *state = f;
    if (weft_ctx_create(&f->ctx) != WEFT_OK) return 1;
    weft_ctx_set_sink(f->ctx, keep_warning, f);
    return weft_config_create(f->ctx, &f->c) == WEFT_OK ? 0 : 1;
}

/* Every test also shows that nothing is left behind. */
static inline int teardown(void **state) {
    fixture *f = *state;
    weft_config_destroy(f->ctx, f->c);
    int64_t held = weft_ctx_bytes_held(f->ctx);
    weft_ctx_destroy(f->ctx);
    free(f);
    return held == 0 ? 0 : 1;
}

static inline void write_file(const char *path, const void *data, size_t n) {
    remove(path); /* some file systems sync a file that is cut and written again */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* Loads `yaml` from a file named run.yaml. */
static inline weft_status load_text(fixture *f, const char *yaml) {
    write_file("run.yaml", yaml, strlen(yaml));
    return weft_config_load(f->ctx, f->c, "run.yaml");
}

/* The expression fails with this status and this sentence. */
#define assert_refused(f, expr, status, sentence)                                        \
    do {                                                                                 \
        assert_int_equal(expr, status);                                                  \
        assert_string_equal(weft_ctx_message((f)->ctx), sentence);                       \
        weft_ctx_clear((f)->ctx);                                                        \
    } while (0)
