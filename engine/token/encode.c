/* SPDX-License-Identifier: MIT */
/* Text -> ids. The text is cut at safe places (see splitter.h) into parts; threads
 * take the next part until none is left; the parts' ids are put one after another. In
 * a part, each piece is looked up among the pieces seen lately, and merged if it is
 * not there. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <xxhash.h>

#include "base/memory.h"
#include "token/encode.h"
#include "token/merge.h"
#include "token/vocab.h"

/* One remembered piece, the size of a cache line. */
typedef struct recent {
    uint8_t n_bytes, n_ids; /* n_bytes 0: nothing here */
    char text[22];
    int32_t ids[10];
} recent;

enum { RECENT_BYTES = 22, RECENT_IDS = 10, RECENT_MIN = 64, RECENT_MAX = 1 << 14 };

typedef struct part {
    int64_t start, end; /* bytes of the text */
    bool ends;          /* a document ends with it */
    bool begins, open;  /* it begins a document; the document goes on elsewhere, uncut */
    int32_t *ids;       /* owned */
    int64_t n_ids, capacity;
} part;

typedef struct job {
    weft_ctx *ctx;
    const weft_tokenizer *t;
    const char *text;
    int32_t end_id;
    bool marks;
    part *parts;
    int64_t n_parts, parts_capacity;
    atomic_llong next; /* part to take */
    atomic_bool failed;
} job;

typedef struct worker {
    job *job;
    pthread_t thread;
    weft_status status;
    wefti_scan *scan;
    wefti_merge_room room;
    wefti_pieces pieces; /* of a pipeline */
    recent *recents;     /* [n_recents] */
    int64_t n_recents;
} worker;

static weft_status reserve_ids(weft_ctx *ctx, part *p, int64_t n) {
    if (p->n_ids + n <= p->capacity) return WEFT_OK;
    int64_t guess = (p->end - p->start) / 3 + 64;
    int64_t more = p->capacity ? 2 * p->capacity : guess;
    if (more < p->n_ids + n) more = p->n_ids + n;
    WEFT_TRY(wefti_grow(ctx, &p->ids, p->n_ids, more, sizeof *p->ids, "token ids"));
    p->capacity = more;
    return WEFT_OK;
}

/* Ids of a piece that is not remembered: at most n_bytes of them, into room at `ids`. */
static weft_status encode_piece(worker *w, const char *piece, int64_t n_bytes,
                                int32_t *ids, int64_t *n_ids) {
    const weft_tokenizer *t = w->job->t;
    if (t->ignore_merges) {
        const wefti_str_entry *e = wefti_strmap_find(&t->lookup, t->text, piece, n_bytes);
        if (e && !(t->tokens[e->value].flags & WEFTI_TOKEN_SPECIAL)) {
            ids[0] = (int32_t)e->value;
            *n_ids = 1;
            return WEFT_OK;
        }
    }
    return wefti_merge_piece(w->job->ctx, t, &w->room, piece, n_bytes, ids, n_ids);
}

static weft_status append_piece(worker *w, part *p, const char *piece, int64_t n_bytes) {
    WEFT_TRY(reserve_ids(w->job->ctx, p, n_bytes > RECENT_IDS ? n_bytes : RECENT_IDS));
    int32_t *ids = p->ids + p->n_ids;
    int64_t n_ids;
    if (n_bytes > RECENT_BYTES) {
        WEFT_TRY(encode_piece(w, piece, n_bytes, ids, &n_ids));
        p->n_ids += n_ids;
        return WEFT_OK;
    }
    uint64_t hash = XXH3_64bits(piece, (size_t)n_bytes);
    recent *r = &w->recents[hash & (uint64_t)(w->n_recents - 1)];
    if (r->n_bytes == n_bytes && memcmp(r->text, piece, (size_t)n_bytes) == 0) {
        memcpy(ids, r->ids, sizeof r->ids);
        p->n_ids += r->n_ids;
        return WEFT_OK;
    }
    WEFT_TRY(encode_piece(w, piece, n_bytes, ids, &n_ids));
    p->n_ids += n_ids;
    if (n_ids > RECENT_IDS) return WEFT_OK;
    r->n_bytes = (uint8_t)n_bytes;
    r->n_ids = (uint8_t)n_ids;
    memcpy(r->text, piece, (size_t)n_bytes);
    memcpy(r->ids, ids, (size_t)n_ids * sizeof *ids);
    return WEFT_OK;
}

static weft_status encode_bytes(worker *w, part *p) {
    int64_t n = p->end - p->start;
    WEFT_TRY(reserve_ids(w->job->ctx, p, n));
    const char *text = w->job->text + p->start;
    for (int64_t i = 0; i < n; i++)
        p->ids[i] = w->job->t->byte_ids[(unsigned char)text[i]];
    p->n_ids = n;
    return WEFT_OK;
}

/* Bytes that are not UTF-8, each by its own token, or the one for what has none. */
static weft_status append_bytes(worker *w, part *p, const char *bytes, int64_t n) {
    WEFT_TRY(reserve_ids(w->job->ctx, p, n));
    for (int64_t i = 0; i < n; i++) {
        int32_t id = w->job->t->byte_ids[(unsigned char)bytes[i]];
        if (id < 0) id = w->job->t->pipeline->unknown;
        if (id >= 0) p->ids[p->n_ids++] = id;
    }
    return WEFT_OK;
}

static weft_status encode_steps(worker *w, part *p) {
    wefti_pieces *pieces = &w->pieces;
    WEFT_TRY(wefti_pipeline_run(w->job->t->pipeline, pieces, w->job->text + p->start,
                                p->end - p->start, p->begins, !p->open));
    for (int64_t k = 0; k < pieces->n; k++) {
        const wefti_textpiece s = pieces->segments[k];
        const char *text = pieces->text.bytes + s.start;
        WEFT_TRY(reserve_ids(w->job->ctx, p, 1));
        if (s.id >= 0)
            p->ids[p->n_ids++] = s.id;
        else
            WEFT_TRY(s.id == WEFTI_BYTES ? append_bytes(w, p, text, s.end - s.start)
                                         : append_piece(w, p, text, s.end - s.start));
    }
    return WEFT_OK;
}

static weft_status encode_pieces(worker *w, part *p) {
    if (w->job->t->pipeline) return encode_steps(w, p);
    if (w->job->t->rule == WEFTI_RULE_NONE) return encode_bytes(w, p);
    wefti_scan_start(w->scan, w->job->text + p->start, p->end - p->start);
    for (;;) {
        const char *piece;
        int64_t n_bytes;
        WEFT_TRY(wefti_scan_next(w->scan, &piece, &n_bytes));
        if (n_bytes == 0) return WEFT_OK;
        WEFT_TRY(append_piece(w, p, piece, n_bytes));
    }
}

static weft_status encode_part(worker *w, part *p) {
    WEFT_TRY(encode_pieces(w, p));
    if (!p->ends || w->job->end_id < 0) return WEFT_OK;
    WEFT_TRY(reserve_ids(w->job->ctx, p, 1));
    p->ids[p->n_ids++] = w->job->end_id;
    return WEFT_OK;
}

static weft_status prepare(worker *w, int64_t n_bytes) {
    w->n_recents = RECENT_MIN;
    while (w->n_recents < RECENT_MAX && w->n_recents < n_bytes / 16) w->n_recents *= 2;
    if (w->job->t->pipeline) WEFT_TRY(wefti_pieces_init(w->job->ctx, &w->pieces));
    w->pieces.marks = w->job->marks;
    if (!w->job->t->pipeline)
        WEFT_TRY(wefti_scan_create(w->job->ctx, w->job->t->splitter, &w->scan));
    return wefti_alloc_n(w->job->ctx, w->n_recents, sizeof *w->recents, "recent pieces",
                         &w->recents);
}

static void *work(void *user) {
    worker *w = user;
    job *j = w->job;
    w->status = prepare(w, j->parts[j->n_parts - 1].end);
    while (w->status == WEFT_OK && !atomic_load(&j->failed)) {
        int64_t k = atomic_fetch_add(&j->next, 1);
        if (k >= j->n_parts) break;
        w->status = encode_part(w, &j->parts[k]);
    }
    if (w->status != WEFT_OK) atomic_store(&j->failed, true);
    wefti_scan_destroy(w->scan);
    wefti_merge_room_fini(j->ctx, &w->room);
    wefti_pieces_fini(&w->pieces);
    wefti_free(j->ctx, w->recents);
    return NULL;
}

/* A thread that the system refuses is done without: the others take its parts. */
static weft_status run_workers(job *j, int threads) {
    worker *workers;
    WEFT_TRY(
        wefti_alloc_n(j->ctx, threads, sizeof *workers, "encoding threads", &workers));
    int started = 1;
    for (int k = 0; k < threads; k++) workers[k].job = j;
    while (started < threads &&
           pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0)
        started++;
    work(&workers[0]);
    weft_status status = workers[0].status;
    for (int k = 1; k < started; k++) {
        pthread_join(workers[k].thread, NULL);
        if (status == WEFT_OK) status = workers[k].status;
    }
    wefti_free(j->ctx, workers);
    return status;
}

static weft_status add_part(job *j, const part *next) {
    WEFT_TRY(wefti_reserve(j->ctx, &j->parts, &j->parts_capacity, j->n_parts, 1,
                           sizeof *j->parts, "parts of a text"));
    j->parts[j->n_parts++] = *next;
    return WEFT_OK;
}

/* Where the part that starts at text[0] ends. */
static int64_t part_end(const job *j, const char *text, int64_t n_bytes,
                        int64_t part_bytes) {
    if (n_bytes <= part_bytes) return n_bytes;
    if (j->t->rule == WEFTI_RULE_NONE) return part_bytes;
    int64_t end = j->t->pipeline ? wefti_pipeline_cut_after(j->t->pipeline, text, n_bytes,
                                                            part_bytes)
                                 : wefti_safe_cut_after(text, n_bytes, part_bytes);
    return end < 0 ? n_bytes : end;
}

/* One document, or what there is of it: `whole` says how its ends are. An empty one has a
 * part if its end counts. */
static weft_status cut_document(job *j, const part *whole, int64_t part_bytes) {
    part next = *whole;
    if (whole->start == whole->end) return whole->ends ? add_part(j, &next) : WEFT_OK;
    while (next.start < whole->end) {
        next.end = next.start +
                   part_end(j, j->text + next.start, whole->end - next.start, part_bytes);
        bool last = next.end == whole->end;
        next.ends = whole->ends && last;
        next.open = whole->open || !last;
        WEFT_TRY(add_part(j, &next));
        next.start = next.end;
        next.begins = false;
    }
    return WEFT_OK;
}

static weft_status cut(job *j, const wefti_texts *texts, int64_t part_bytes) {
    part next = {.begins = !texts->continued};
    for (int64_t k = 0; k < texts->n_ends; k++) {
        next.end = texts->ends[k];
        next.ends = true;
        WEFT_TRY(cut_document(j, &next, part_bytes));
        next = (part){.start = next.end, .begins = true};
    }
    next.end = texts->n_bytes;
    next.open = texts->open;
    return cut_document(j, &next, part_bytes);
}

static weft_status collect(job *j, int32_t **ids, int64_t *n_ids) {
    int64_t total = 0;
    for (int64_t k = 0; k < j->n_parts; k++) total += j->parts[k].n_ids;
    if (j->n_parts == 1 && j->parts[0].ids) {
        *ids = j->parts[0].ids;
        j->parts[0].ids = NULL;
    } else {
        WEFT_TRY(wefti_alloc_n(j->ctx, total, sizeof **ids, "token ids", ids));
        int32_t *to = *ids;
        for (int64_t k = 0; k < j->n_parts; k++) {
            const part *p = &j->parts[k];
            if (p->n_ids > 0) memcpy(to, p->ids, (size_t)p->n_ids * sizeof *to);
            to += p->n_ids;
        }
    }
    *n_ids = total;
    return WEFT_OK;
}

weft_status wefti_encode_texts(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                               const wefti_texts *texts, int threads, int64_t part_bytes,
                               int32_t **ids, int64_t *n_ids) {
    *ids = NULL;
    *n_ids = 0;
    job j = {.ctx = ctx,
             .t = tokenizer,
             .text = texts->text,
             .end_id = texts->end_id,
             .marks = texts->marks};
    weft_status status = cut(&j, texts, part_bytes);
    if (threads > WEFTI_ENCODE_MAX_THREADS) threads = WEFTI_ENCODE_MAX_THREADS;
    if (threads > j.n_parts) threads = (int)j.n_parts;
    if (threads < 1) threads = 1;
    if (status == WEFT_OK && j.n_parts > 0) status = run_workers(&j, threads);
    if (status == WEFT_OK) status = collect(&j, ids, n_ids);
    for (int64_t k = 0; k < j.n_parts; k++) wefti_free(ctx, j.parts[k].ids);
    wefti_free(ctx, j.parts);
    return status;
}

weft_status wefti_encode(weft_ctx *ctx, const weft_tokenizer *tokenizer, const char *text,
                         int64_t n_bytes, int threads, int64_t part_bytes, int32_t **ids,
                         int64_t *n_ids) {
    *ids = NULL;
    *n_ids = 0;
    if (n_bytes < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "a text of %lld bytes",
                             (long long)n_bytes);
    wefti_texts texts = {.text = text, .n_bytes = n_bytes, .end_id = -1};
    return wefti_encode_texts(ctx, tokenizer, &texts, threads, part_bytes, ids, n_ids);
}

int64_t wefti_encode_ready(const weft_tokenizer *tokenizer, const char *text,
                           int64_t n_bytes) {
    if (tokenizer->rule == WEFTI_RULE_NONE) return n_bytes;
    int64_t place = tokenizer->pipeline ? wefti_pipeline_cut_before(
                                              tokenizer->pipeline, text, n_bytes, n_bytes)
                                        : wefti_safe_cut_before(text, n_bytes, n_bytes);
    return place < 0 ? 0 : place;
}

weft_status weft_tokenizer_encode(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                                  const char *text, int64_t n_bytes, int threads,
                                  int32_t **ids, int64_t *n_ids) {
    return wefti_encode(ctx, tokenizer, text, n_bytes, threads, WEFTI_ENCODE_PART_BYTES,
                        ids, n_ids);
}

/* Encoding of a text in which special tokens count. A tokenizer with a pipeline looks for them
 * with its other added tokens; for GPT-2's and Llama 3's kind the text is cut at them here,
 * at each place at the longest, and what lies between is encoded as ever. */

/* Ids that grow at the end. */
typedef struct id_list {
    int32_t *ids; /* owned */
    int64_t n, room;
} id_list;

static weft_status append_ids(weft_ctx *ctx, id_list *list, const int32_t *ids,
                              int64_t n) {
    WEFT_TRY(wefti_reserve(ctx, &list->ids, &list->room, list->n, n, sizeof *ids,
                           "token ids"));
    if (n > 0) memcpy(list->ids + list->n, ids, (size_t)n * sizeof *ids);
    list->n += n;
    return WEFT_OK;
}

static weft_status collect_marks(weft_ctx *ctx, const weft_tokenizer *t,
                                 wefti_added_set *set) {
    for (int64_t id = 0; id < t->vocab; id++) {
        const wefti_token *token = &t->tokens[id];
        wefti_added mark = {.id = (int32_t)id};
        if (!(token->flags & WEFTI_TOKEN_SPECIAL)) continue;
        WEFT_TRY(
            wefti_added_put(ctx, set, &mark, t->text + token->offset, token->n_bytes));
    }
    wefti_added_sort(set);
    return WEFT_OK;
}

static weft_status append_text(weft_ctx *ctx, const weft_tokenizer *t, const char *text,
                               int64_t n, id_list *out) {
    int32_t *ids;
    int64_t n_ids;
    if (n == 0) return WEFT_OK;
    WEFT_TRY(weft_tokenizer_encode(ctx, t, text, n, 1, &ids, &n_ids));
    weft_status status = append_ids(ctx, out, ids, n_ids);
    wefti_free(ctx, ids);
    return status;
}

static weft_status cut_marks(weft_ctx *ctx, const weft_tokenizer *t,
                             const wefti_added_set *set, const char *text, int64_t n,
                             id_list *out) {
    int64_t done = 0;
    for (int64_t at = 0; at < n;) {
        const wefti_added *mark = wefti_added_match(set, text + at, n - at);
        if (!mark) {
            at++;
            continue;
        }
        WEFT_TRY(append_text(ctx, t, text + done, at - done, out));
        WEFT_TRY(append_ids(ctx, out, &mark->id, 1));
        done = at += mark->n_text;
    }
    return append_text(ctx, t, text + done, n - done, out);
}

weft_status wefti_encode_marked(weft_ctx *ctx, const weft_tokenizer *t, const char *text,
                                int64_t n_bytes, int32_t **ids, int64_t *n_ids) {
    wefti_added_set set = {0};
    id_list out = {.n = 0};
    *ids = NULL;
    *n_ids = 0;
    if (t->pipeline) {
        wefti_texts texts = {
            .text = text, .n_bytes = n_bytes, .end_id = -1, .marks = true};
        return wefti_encode_texts(ctx, t, &texts, 1, INT64_MAX, ids, n_ids);
    }
    weft_status status = collect_marks(ctx, t, &set);
    if (status == WEFT_OK) status = cut_marks(ctx, t, &set, text, n_bytes, &out);
    wefti_added_fini(ctx, &set);
    if (status != WEFT_OK) {
        wefti_free(ctx, out.ids);
        return status;
    }
    *ids = out.ids;
    *n_ids = out.n;
    return WEFT_OK;
}
