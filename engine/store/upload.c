/* SPDX-License-Identifier: MIT */
/* What the thread does for a checkpoint, at ADDRESS as fetch.c reads it:
 *
 *     remove step-N/index.json     of an earlier upload of that step
 *     put    step-N/FILE ...
 *     put    metrics.jsonl ...     the records, as they are by now
 *     put    step-N/index.json     from here on it is a checkpoint
 *     put    latest                of RUN/uploaded, which says the same here
 *
 * A checkpoint that run.keep removes in the middle of that is given up for the next one: that is
 * said where it is the second in a row, as none may ever get there. */
#define _GNU_SOURCE
#include "store/upload.h"

#include <stdio.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/listing.h"
#include "store/fetch.h"
#include "store/multipart.h"

enum { LAST_TRIES = 5, SENTENCE = 600, INDEX_BYTES = 64 << 20 };
static const double say_every_s = 10, between_tries_s = 10;

struct wefti_uploader {
    weft_ctx *ctx;            /* owned: of the thread */
    const wefti_lease *lease; /* borrowed: of the folder */
    char address[WEFTI_URL_BYTES], folder[PATH_MAX];
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    int64_t wanted, last,
        done; /* steps: to upload next; pushed last; uploaded last; -1 */
    bool ends, ended;
    /* of the thread alone */
    int64_t step, n_put;    /* what is sent; files of it that are there */
    uint64_t mark;          /* of its index */
    wefti_multipart parts;  /* of the file that broke off */
    char failure[SENTENCE]; /* why `failed` is not uploaded; "": logged, or none */
    int64_t failed;
    int n_gone; /* so many in a row were removed here before they were there */
};

/* --- the thread --- */

static weft_status transfer(wefti_uploader *u, wefti_verb verb, const char *folder,
                            const char *name, const char *below) {
    char path[PATH_MAX];
    bool there;
    const wefti_transfer t = {
        .address = u->address, .below = below, .path = path, .silent = true};
    WEFT_TRY(wefti_file_path(u->ctx, folder, name, path));
    return verb == WEFTI_PUT ? wefti_multipart_put(u->ctx, &t, &u->parts)
                             : wefti_http(u->ctx, verb, &t, &there);
}

/* A process that has slept does not write over what another one uploads by now. */
static weft_status check_lease(wefti_uploader *u) {
    if (wefti_lease_is_held(u->lease)) return WEFT_OK;
    return weft_ctx_fail(u->ctx, WEFT_ERR_FILE, "another process writes this run by now");
}

static weft_status put_records(wefti_uploader *u) {
    char path[PATH_MAX];
    WEFT_TRY(check_lease(u));
    for (const char *const *name = wefti_records; *name; name++) {
        WEFT_TRY(wefti_file_path(u->ctx, u->folder, *name, path));
        if (access(path, R_OK) == 0)
            WEFT_TRY(transfer(u, WEFTI_PUT, u->folder, *name, *name));
    }
    return WEFT_OK;
}

static weft_status put_latest(wefti_uploader *u, int64_t step) {
    char path[PATH_MAX], text[32];
    int n = snprintf(text, sizeof text, "step-%08lld\n", (long long)step);
    WEFT_TRY(check_lease(u));
    WEFT_TRY(wefti_file_path(u->ctx, u->folder, "uploaded", path));
    WEFT_TRY(wefti_file_write(u->ctx, path, text, n));
    return transfer(u, WEFTI_PUT, u->folder, "uploaded", "latest");
}

/* One checkpoint of a step is uploaded, not halves of two: its index is the same afterwards. */
static weft_status read_mark(wefti_uploader *u, const char *folder, uint64_t *mark) {
    char path[PATH_MAX], *text;
    int64_t n;
    WEFT_TRY(wefti_file_path(u->ctx, folder, "index.json", path));
    WEFT_TRY(wefti_file_read(u->ctx, path, INDEX_BYTES, &text, &n));
    *mark = XXH3_64bits(text, (size_t)n);
    wefti_free(u->ctx, text);
    return WEFT_OK;
}

/* What is sent for a step; with that of the last try, it goes on after the files that are there. */
static weft_status resume(wefti_uploader *u, int64_t step, uint64_t mark) {
    static const char index[] = "index.json";
    char below[64];
    if (u->step == step && u->mark == mark) return WEFT_OK;
    wefti_multipart_drop(u->ctx, u->address, &u->parts);
    u->step = step;
    u->mark = mark;
    u->n_put = 0;
    snprintf(below, sizeof below, "step-%08lld/%s", (long long)step, index);
    WEFTI_TRY_OR(transfer(u, WEFTI_REMOVE, u->folder, index, below), u->step = -1);
    return WEFT_OK;
}

static weft_status put_files(wefti_uploader *u, const char *folder,
                             const wefti_listing *files) {
    char below[PATH_MAX];
    for (; u->n_put < files->n; u->n_put++) {
        const char *name = files->files[u->n_put].name;
        snprintf(below, sizeof below, "step-%08lld/%s", (long long)u->step, name);
        WEFT_TRY(transfer(u, WEFTI_PUT, folder, name, below));
    }
    return WEFT_OK;
}

static weft_status upload(wefti_uploader *u, int64_t step) {
    static const char index[] = "index.json";
    char folder[PATH_MAX], below[64];
    uint64_t before, now;
    wefti_listing files;
    snprintf(folder, sizeof folder, "%.4000s/checkpoints/step-%08lld", u->folder,
             (long long)step);
    WEFT_TRY(read_mark(u, folder, &before));
    WEFT_TRY(resume(u, step, before));
    WEFT_TRY(wefti_listing_scan(u->ctx, folder, &files));
    weft_status status = put_files(u, folder, &files);
    wefti_listing_fini(u->ctx, &files);
    if (status == WEFT_OK) status = put_records(u);
    if (status == WEFT_OK) status = read_mark(u, folder, &now);
    if (status == WEFT_OK && now != before)
        status = weft_ctx_fail(u->ctx, WEFT_ERR_FILE, "%s was written again", folder);
    snprintf(below, sizeof below, "step-%08lld/%s", (long long)step, index);
    if (status == WEFT_OK) status = transfer(u, WEFTI_PUT, folder, index, below);
    return status == WEFT_OK ? put_latest(u, step) : status;
}

static bool is_here(const wefti_uploader *u, int64_t step) {
    char index[PATH_MAX];
    snprintf(index, sizeof index, "%.4000s/checkpoints/step-%08lld/index.json", u->folder,
             (long long)step);
    return access(index, F_OK) == 0;
}

/* What a try has come to; what the store said of a checkpoint is not forgotten when that is
 * removed here. */
static void note(wefti_uploader *u, int64_t step, weft_status status, bool here) {
    bool fine = status == WEFT_OK, known = u->failed == step && u->failure[0];
    const char *why = weft_ctx_message(u->ctx);
    if (!fine && !here)
        why = ++u->n_gone == 1 ? ""
                               : "run.keep has removed it before it was there, like the "
                                 "one before; expected a larger run.keep or "
                                 "run.save_every";
    if (fine || here || !known) snprintf(u->failure, sizeof u->failure, "%s", why);
    u->failed = fine ? -1 : step;
    if (fine) u->done = step, u->n_gone = 0;
    weft_ctx_clear(u->ctx);
}

/* Under the lock, but while it sends. Each file is tried for a while (http.h). */
static void try_all(wefti_uploader *u) {
    weft_status status = WEFT_ERR_FILE;
    int64_t step = u->wanted;
    u->wanted = -1;
    int last = 0; /* tries since the run ended */
    while (status != WEFT_OK && u->wanted < 0 && last < LAST_TRIES) {
        pthread_mutex_unlock(&u->lock);
        status = upload(u, step);
        bool here = status == WEFT_OK || is_here(u, step);
        pthread_mutex_lock(&u->lock);
        note(u, step, status, here);
        last += u->ends;
        if (!here) return;
        if (status != WEFT_OK && u->wanted < 0 && last < LAST_TRIES)
            (void)wefti_cond_wait(&u->changed, &u->lock, wefti_now_s() + between_tries_s);
    }
}

static void *work(void *user) {
    wefti_uploader *u = user;
    pthread_mutex_lock(&u->lock);
    while (!u->ends || u->wanted >= 0) {
        if (u->wanted >= 0)
            try_all(u);
        else
            pthread_cond_wait(&u->changed, &u->lock);
    }
    pthread_mutex_unlock(&u->lock);
    if (u->done >= 0 && put_records(u) != WEFT_OK)
        weft_ctx_clear(u->ctx); /* it has older ones */
    wefti_multipart_drop(u->ctx, u->address, &u->parts);
    pthread_mutex_lock(&u->lock);
    u->ended = true;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* --- the run --- */

/* [out] *there: the step of the newest checkpoint at the address. */
static weft_status check(weft_ctx *ctx, const char *address, int64_t step,
                         int64_t *there) {
    *there = -1;
    if (!wefti_address_is_s3(address))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "run.upload is %s, expected s3://BUCKET/PREFIX", address);
    if (step != WEFTI_UPLOAD_LATER) WEFT_TRY(wefti_fetch_step(ctx, address, there));
    if (*there < 0 || step != WEFTI_UPLOAD_FRESH) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s holds a run already, up to step %lld; continue it with "
                         "--resume or name another run.upload",
                         address, (long long)*there);
}

static void destroy(weft_ctx *ctx, wefti_uploader *u) {
    pthread_mutex_destroy(&u->lock);
    pthread_cond_destroy(&u->changed);
    weft_ctx_destroy(u->ctx);
    wefti_free(ctx, u);
}

static weft_status start(weft_ctx *ctx, wefti_uploader *u, bool tries) {
    weft_status status = tries ? put_records(u) : WEFT_OK;
    if (status != WEFT_OK)
        return weft_ctx_fail(ctx, status, "run.upload: %s", weft_ctx_message(u->ctx));
    if (tries) wefti_multipart_clear(ctx, u->address);
    if (pthread_create(&u->thread, NULL, work, u) == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no thread for run.upload");
}

weft_status wefti_uploader_create(weft_ctx *ctx, const char *address, const char *folder,
                                  const wefti_lease *lease, int64_t step,
                                  wefti_uploader **out) {
    wefti_uploader *u;
    int64_t there;
    *out = NULL;
    WEFT_TRY(check(ctx, address, step, &there));
    WEFT_TRY(wefti_alloc(ctx, sizeof *u, "run.upload", &u));
    WEFTI_TRY_OR(weft_ctx_create(&u->ctx), wefti_free(ctx, u));
    snprintf(u->address, sizeof u->address, "%s", address);
    snprintf(u->folder, sizeof u->folder, "%s", folder);
    u->wanted = u->last = u->done = u->failed = u->step = -1;
    if (step > there) u->wanted = u->last = step;
    pthread_mutex_init(&u->lock, NULL);
    wefti_cond_init(&u->changed);
    u->lease = lease;
    WEFTI_TRY_OR(start(ctx, u, step != WEFTI_UPLOAD_LATER), destroy(ctx, u));
    *out = u;
    return WEFT_OK;
}

void wefti_uploader_push(weft_ctx *ctx, wefti_uploader *u, int64_t step) {
    pthread_mutex_lock(&u->lock);
    if (u->failure[0])
        weft_ctx_log(ctx, WEFT_LOG_WARN,
                     "the checkpoint of step %lld is not uploaded: %s; the run goes on",
                     (long long)u->failed, u->failure);
    u->failure[0] = '\0';
    u->wanted = u->last = step;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
}

weft_status wefti_uploader_end(weft_ctx *ctx, wefti_uploader *u) {
    if (!u) return WEFT_OK;
    double said_s = wefti_now_s();
    pthread_mutex_lock(&u->lock);
    u->ends = true;
    pthread_cond_broadcast(&u->changed);
    while (!u->ended) {
        (void)wefti_cond_wait(&u->changed, &u->lock, said_s + say_every_s);
        if (u->ended || wefti_now_s() < said_s + say_every_s) continue;
        said_s = wefti_now_s();
        weft_ctx_log(ctx, WEFT_LOG_INFO, "waits until the last checkpoint is at %s%s%s",
                     u->address, u->failure[0] ? "; tried again after: " : "",
                     u->failure);
    }
    pthread_mutex_unlock(&u->lock);
    pthread_join(u->thread, NULL);
    weft_status status = WEFT_OK;
    if (u->done < u->last && u->failure[0])
        status = weft_ctx_fail(ctx, WEFT_ERR_FILE,
                               "the last checkpoint is not at %s: %s; it is whole in %s",
                               u->address, u->failure, u->folder);
    else if (u->done < u->last)
        status = weft_ctx_fail(ctx, WEFT_ERR_FILE,
                               "the last checkpoint is not at %s, and no more in %s",
                               u->address, u->folder);
    destroy(ctx, u);
    return status;
}
