/* SPDX-License-Identifier: MIT */
/* A process that slept asks at the ports of the others how they stand; a minute after their end
 * nobody answers there. The folder that all see still does. A view that all members have left
 * in order is the run's last one: the next one would need a member of it. */
#include "member/ended.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

static weft_status path_of(weft_ctx *ctx, const char *folder, uint64_t run,
                           char path[PATH_MAX]) {
    char name[32];
    snprintf(name, sizeof name, "ended-%016llx", (unsigned long long)run);
    return wefti_file_path(ctx, folder, name, path);
}

weft_status wefti_ended_write(weft_ctx *ctx, const char *folder, uint64_t run,
                              int64_t view) {
    char path[PATH_MAX], text[64];
    WEFT_TRY(path_of(ctx, folder, run, path));
    snprintf(text, sizeof text, "view %lld\n", (long long)view);
    return wefti_file_write(ctx, path, text, (int64_t)strlen(text));
}

bool wefti_ended_after(const char *folder, uint64_t run, int64_t view) {
    weft_ctx *ctx;
    char path[PATH_MAX];
    long long ended = -1;
    if (weft_ctx_create(&ctx) != WEFT_OK) return false;
    FILE *file = path_of(ctx, folder, run, path) == WEFT_OK ? fopen(path, "re") : NULL;
    if (file && fscanf(file, "view %lld", &ended) != 1) ended = -1;
    if (file) fclose(file);
    weft_ctx_destroy(ctx);
    return ended > view;
}
