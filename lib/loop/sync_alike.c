/* SPDX-License-Identifier: MIT */
/* What the processes of a caller's loop must have in common, as lines of text: the configuration,
 * the tensors, and what the program adds (weft_sync_setup.alike).
 *
 *     optimizer.lr: 0.001      ...      tensor body.weight: 48 x 48      ...      optimizer: AdamW
 *
 * Those who begin compare it with each other. A process that joins is compared by the members, by
 * hashes, and asks one of them for its text when it is refused (alike.h). */
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "mesh/elastic.h"
#include "config/layers.h"
#include "rank/alike.h"
#include "loop/sync.h"

enum { MOST_TEXT = 3 << 18 };

/* Rows are left out where they are a shard's. What has no room counts by its hash. */
static void put_tensors(const weft_sync *s, wefti_buffer *out) {
    uint64_t rest = 0;
    for (int i = 0; i < s->setup.n_tensors; i++) {
        char rows[24] = "", line[256];
        const wefti_param *p = &s->job->model->params[i];
        if (!s->setup.sharded) snprintf(rows, sizeof rows, "%lld x ", (long long)p->rows);
        int n = snprintf(line, sizeof line, "tensor %.128s: %s%lld\n", p->name, rows,
                         (long long)p->cols);
        if (out->n < MOST_TEXT)
            wefti_buffer_text(s->ctx, out, line);
        else
            rest = XXH3_64bits_withSeed(line, (size_t)n, rest);
    }
    if (rest)
        wefti_buffer_print(s->ctx, out, "the other tensors: %llx\n",
                           (unsigned long long)rest);
}

/* Without the lines that begin so. */
static void put_lines(const weft_sync *s, const char *text, const char *const *ignored,
                      wefti_buffer *out) {
    for (size_t n; *text; text += n) {
        bool counts = true;
        n = strcspn(text, "\n") + 1;
        for (const char *const *i = ignored; *i; i++)
            counts = counts && strncmp(text, *i, strlen(*i)) != 0;
        if (counts) wefti_buffer_put(s->ctx, out, text, (int64_t)n);
    }
}

/* sized: of those who begin, with the numbers of nodes and ranks; and with buffers, of which a
 * joiner is given what they have become. */
static weft_status put_text(weft_sync *s, bool sized, wefti_buffer *out) {
    static const char *const keys[] = {"data.", "model.", "batch.", NULL};
    static const char *const buffers[] = {"buffer ", NULL}, *const none[] = {NULL};
    const char *text;
    weft_config *copy;
    WEFT_TRY(weft_config_copy(s->ctx, s->config, &copy));
    weft_status status = wefti_config_shared(s->ctx, copy, sized, &text);
    /* before the method that was taken, which nobody has given */
    wefti_buffer_text(s->ctx, out,
                      s->text.decided ? "method=: 'auto'\n" : "method=: a name\n");
    if (status == WEFT_OK) put_lines(s, text, keys, out);
    weft_config_destroy(s->ctx, copy);
    WEFT_TRY(status);
    if (s->text.alike) put_lines(s, s->text.alike, sized ? none : buffers, out);
    wefti_buffer_print(s->ctx, out,
                       "setup.outside: %d\nsetup.skips: %d\nsetup.elastic: %d\n"
                       "setup.uneven: %d\n",
                       s->setup.outside, s->setup.skips, s->elastic, s->setup.uneven);
    if (sized)
        wefti_buffer_print(s->ctx, out, "weft_sync_replan: %d\n", s->job->run.follows);
    put_tensors(s, out);
    return out->status;
}

weft_status wefti_sync_compare(weft_sync *s) {
    wefti_buffer own = {0};
    if (!s->mesh) return WEFT_OK;
    weft_status status = put_text(s, true, &own);
    if (status == WEFT_OK) status = wefti_alike_among(s->ctx, s->mesh, own.bytes);
    wefti_buffer_fini(s->ctx, &own);
    return status;
}

/* Ranks that count differently would wait for each other's messages for ever. */
weft_status wefti_sync_compare_steps(weft_sync *s) {
    wefti_comm *all = s->rank->comms.control;
    int64_t *steps;
    WEFT_TRY(wefti_alloc_n(s->ctx, all->size, sizeof *steps, "steps", &steps));
    weft_status status = wefti_comm_all_gather(all, wefti_rank_control_tag(s->rank),
                                               &s->step, sizeof *steps, steps);
    for (int i = 1; status == WEFT_OK && i < all->size; i++)
        if (steps[i] != steps[0])
            status = weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                                   "rank 0 begins after step %lld and rank %d after step "
                                   "%lld; expected a state that all ranks load, or none",
                                   (long long)steps[0], i, (long long)steps[i]);
    wefti_free(s->ctx, steps);
    return status;
}

weft_status wefti_sync_notice(weft_sync *s, wefti_elastic_setup *setup, void **notice) {
    wefti_buffer own = {0};
    weft_status status = put_text(s, false, &own);
    if (status == WEFT_OK) {
        setup->config_hash = XXH3_64bits(own.bytes, (size_t)own.n);
        status = wefti_alike_notice_of(s->ctx, own.bytes,
                                       s->text.decided ? s->text.decided : "", notice,
                                       &setup->notice_bytes);
    }
    setup->notice = *notice;
    wefti_buffer_fini(s->ctx, &own);
    return status;
}

weft_status wefti_sync_explain(wefti_loop *l, const void *notice, int64_t n) {
    weft_sync *s = l->user;
    wefti_buffer own = {0};
    weft_status status = put_text(s, false, &own);
    if (status == WEFT_OK) status = wefti_alike_compare(s->ctx, own.bytes, notice, n);
    wefti_buffer_fini(s->ctx, &own);
    return status;
}

weft_status weft_sync_decided(weft_ctx *ctx, weft_mesh *mesh, char *out, size_t size) {
    int64_t n;
    out[0] = '\0';
    if (!mesh || !mesh->transport->entry)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "weft_sync_decided in a process that does not join a run");
    wefti_elastic_ask_notice(mesh);
    const void *notice = wefti_elastic_await_notice(mesh, &n);
    wefti_alike_decided(notice, n, out, size);
    if (notice) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_PEER,
                         "no member of the run says what was decided");
}
