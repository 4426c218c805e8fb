/* SPDX-License-Identifier: MIT */
/* What a run writes while it runs: metrics.jsonl and TensorBoard events, with one entry
 * per step and per evaluation; nodes.jsonl, with one entry per node whenever all ranks
 * meet; and the newest numbers for Prometheus. A resumed run continues after its
 * checkpoint: later lines of the interrupted run are dropped, and its elapsed seconds are
 * counted. */
#define _GNU_SOURCE
#include "runfiles/journal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "record/metrics.h"
#include "record/tfevents.h"
#include "runfiles/exporter.h"
#include "base/text.h"
#include "config/schema.h"
#include "config/value.h"
#include <weft/config.h>

/* The keys of a configuration as settings. A number is compared with the parsed default
 * of its key, so "1k" and 1000 are the same; a list that is not empty becomes a text, its
 * items separated by commas. run.folder and run.prometheus say where a run is stored, not
 * what it is, and are left out; so is what signs an address. */

/* Appends the items of a list to the buffer; a number as it would be typed. */
static void put_items(weft_ctx *ctx, wefti_buffer *out, const weft_config_key *key,
                      const char *place) {
    weft_texts texts = {0};
    weft_numbers numbers = {0};
    char word[40];
    bool of_texts = key->type == WEFT_KEY_TEXTS;
    if (of_texts)
        memcpy(&texts, place, sizeof texts);
    else
        memcpy(&numbers, place, sizeof numbers);
    for (int i = 0; i < (of_texts ? texts.n : numbers.n); i++) {
        if (i > 0) wefti_buffer_text(ctx, out, ", ");
        if (!of_texts) wefti_number_text(numbers.items[i], word, sizeof word);
        wefti_buffer_text(ctx, out, of_texts ? texts.items[i] : word);
    }
}

/* Whether the key differs from its default. *out: its value. A text is appended to
 * `lists`, and its place is given as an offset, because the buffer may still move. */
static bool is_chosen(weft_ctx *ctx, const weft_config *config,
                      const weft_config_key *key, wefti_buffer *lists,
                      wefti_setting *out) {
    wefti_value fallback = {0}, v = wefti_value_at(key, config);
    bool real = key->type == WEFT_KEY_NUMBER;
    *out = (wefti_setting){.name = key->name,
                           .text = v.text,
                           .number = real ? v.number : (double)v.integer,
                           .is_truth = key->type == WEFT_KEY_BOOL};
    if (v.text && wefti_is(v.text, key->fallback)) return false;
    if (!v.text && !wefti_key_is_list(key)) {
        (void)wefti_value_parse(key, key->fallback, &fallback);
        return out->number != (real ? fallback.number : (double)fallback.integer);
    }
    int64_t begin = lists->n;
    if (v.text)
        wefti_buffer_text(ctx, lists, v.text);
    else
        put_items(ctx, lists, key, (const char *)config + key->offset);
    bool any = lists->n > begin;
    if (any) wefti_buffer_put(ctx, lists, "", 1);
    if (any && lists->status == WEFT_OK) wefti_text_hide(lists->bytes + begin);
    out->number = (double)begin;
    return any;
}

static bool says_where(const char *name) {
    return wefti_is(name, "run.folder") || wefti_is(name, "run.prometheus");
}

static weft_status write_keys(weft_ctx *ctx, const weft_config *config,
                              wefti_tfevents *events, wefti_setting *settings,
                              wefti_buffer *lists) {
    int n = 0;
    for (int i = 0; weft_config_key_at(i); i++) {
        const weft_config_key *key = weft_config_key_at(i);
        if (!says_where(key->name) && is_chosen(ctx, config, key, lists, &settings[n]))
            n++;
    }
    WEFT_TRY(lists->status);
    for (int i = 0; i < n; i++) { /* now the buffer does not move */
        const weft_config_key *key = wefti_config_key_find(settings[i].name);
        if (settings[i].text || wefti_key_is_list(key))
            settings[i].text = lists->bytes + (int64_t)settings[i].number;
    }
    return wefti_tfevents_settings(ctx, events, wefti_unix_now_s(), settings, n);
}

/* Markdown shows a text that is indented by four as it is. */
static weft_status write_text(weft_ctx *ctx, const weft_config *config,
                              wefti_tfevents *events) {
    weft_config *copy;
    const char *text;
    wefti_buffer out = {0};
    WEFT_TRY(weft_config_copy(ctx, config, &copy));
    weft_status status = weft_config_text(ctx, copy, WEFT_CONFIG_BARE, &text);
    for (const char *line = text; status == WEFT_OK && *line;) {
        size_t n = strcspn(line, "\n");
        wefti_buffer_text(ctx, &out, "    ");
        wefti_buffer_put(ctx, &out, line, (int64_t)n + (line[n] == '\n'));
        line += n + (line[n] == '\n');
        status = out.status;
    }
    if (status == WEFT_OK) {
        wefti_buffer_put(ctx, &out, "", 1);
        status = out.status;
    }
    if (status == WEFT_OK)
        status = wefti_tfevents_text(ctx, events, wefti_unix_now_s(), "config",
                                     out.bytes);
    wefti_buffer_fini(ctx, &out);
    weft_config_destroy(ctx, copy);
    return status;
}

/* Writes the settings of a run into its TensorBoard events: the keys that differ from
 * their default as hyperparameters, so that a table of several runs shows what was
 * chosen, and the whole configuration as a text, "config". */
static weft_status settings_write(weft_ctx *ctx, const weft_config *config,
                                  wefti_tfevents *events) {
    wefti_setting *settings;
    wefti_buffer lists = {0};
    WEFT_TRY(wefti_alloc_n(ctx, WEFTI_MAX_KEYS, sizeof *settings, "settings", &settings));
    weft_status status = write_keys(ctx, config, events, settings, &lists);
    wefti_buffer_fini(ctx, &lists);
    wefti_free(ctx, settings);
    return status == WEFT_OK ? write_text(ctx, config, events) : status;
}

enum { MAX_FIGURES = 36, MAX_SCALARS = 16, MOST_LINES = 20000 };

/* Sums over the steps since the last line. */
typedef struct sums {
    int64_t n;
    double loss, tokens, mfu_s, wire_out, wire_in, local_out, local_in;
    double compute_s, exchange_s, wait_s, step_s, late, participation, relayed;
} sums;

struct wefti_journal {
    weft_ctx *ctx;                  /* borrowed */
    wefti_metrics *metrics, *nodes; /* metrics.jsonl, nodes.jsonl */
    wefti_tfevents *events;         /* or NULL */
    wefti_exporter *exporter;       /* or NULL */
    sums since;
    char form[64];     /* of the last line */
    wefti_buffer sent; /* digests as text */
};

/* Seconds that the interrupted run has taken already. */
static weft_status read_elapsed(weft_ctx *ctx, const char *path, double *elapsed_s) {
    static const char *const names[] = {"elapsed_s"};
    double *rows;
    int64_t n;
    *elapsed_s = 0;
    WEFT_TRY(wefti_metrics_read(ctx, path, names, 1, &rows, &n));
    for (int64_t i = 0; i < n; i++)
        if (rows[i] > *elapsed_s) *elapsed_s = rows[i];
    wefti_free(ctx, rows);
    return WEFT_OK;
}

static weft_status open_all(wefti_journal *journal, const weft_config *config,
                            int64_t steps_done, double *elapsed_s) {
    weft_ctx *ctx = journal->ctx;
    const char *folder = config->run.folder;
    int64_t first = steps_done > 0 ? steps_done + 1 : 0;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/metrics.jsonl", folder) >= PATH_MAX)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", folder);
    snprintf(path, sizeof path, "%s/nodes.jsonl", folder);
    WEFT_TRY(wefti_metrics_open(ctx, path, first, &journal->nodes));
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    WEFT_TRY(wefti_metrics_open(ctx, path, first, &journal->metrics));
    WEFT_TRY(read_elapsed(ctx, path, elapsed_s));
    WEFT_TRY(wefti_exporter_create(ctx, config, &journal->exporter));
    if (!config->run.tensorboard) return WEFT_OK;
    WEFT_TRY(
        wefti_tfevents_create(ctx, folder, first, wefti_unix_now_s(), &journal->events));
    return settings_write(ctx, config, journal->events);
}

weft_status wefti_journal_open(weft_ctx *ctx, const weft_config *config,
                               int64_t steps_done, double *elapsed_s,
                               wefti_journal **out) {
    wefti_journal *journal;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *journal, "the journal", &journal));
    journal->ctx = ctx;
    weft_status status = open_all(journal, config, steps_done, elapsed_s);
    if (status == WEFT_OK) {
        *out = journal;
        return WEFT_OK;
    }
    weft_status closed = wefti_journal_close(journal);
    (void)closed; /* the first failure is the one to report */
    return status;
}

static wefti_metric integer(const char *name, int64_t value) {
    return (wefti_metric){.name = name, .kind = WEFTI_METRIC_INT, .integer = value};
}

static wefti_metric real(const char *name, double value) {
    return (wefti_metric){.name = name, .kind = WEFTI_METRIC_REAL, .real = value};
}

static wefti_metric words(const char *name, const char *text) {
    return (wefti_metric){.name = name, .kind = WEFTI_METRIC_TEXT, .text = text};
}

static weft_status write_step_events(wefti_journal *journal, const weft_step_record *r) {
    if (!journal->events) return WEFT_OK;
    wefti_scalar scalars[MAX_SCALARS] = {
        {"train/loss", r->loss},
        {"train/lr", r->lr},
        {"train/grad_norm", r->grad_norm},
        {"train/update_norm", r->update_norm},
        {"speed/tokens_per_s", r->tokens_per_s},
        {"speed/mfu", r->mfu},
        {"speed/step_s", r->step_s},
        {"speed/wait_s", r->wait_s},
        {"speed/hidden_share", r->hidden_share},
        {"wire/bytes_out", (double)r->wire_bytes_out},
        {"wire/bytes_in", (double)r->wire_bytes_in},
        {"memory/peak_bytes", (double)r->memory_bytes},
        {"memory/rank_bytes", (double)r->memory_rank_bytes},
    };
    int n = 0;
    while (scalars[n].tag) n++;
    if (!isnan(r->consensus_distance))
        scalars[n++] = (wefti_scalar){"train/consensus_distance", r->consensus_distance};
    if (r->ranks > 0)
        scalars[n++] = (wefti_scalar){"train/participation", r->participation};
    return wefti_tfevents_write(journal->ctx, journal->events, r->step,
                                wefti_unix_now_s(), scalars, n);
}

/* since: the steps that the line stands for. */
static weft_status write_step(wefti_journal *journal, const weft_step_record *r,
                              const sums *since) {
    wefti_metric row[MAX_FIGURES] = {
        integer("step", r->step),
        real("loss", r->loss),
        real("lr", r->lr),
        real("grad_norm", r->grad_norm),
        real("update_norm", r->update_norm),
        integer("tokens", r->tokens),
        real("tokens_per_s", r->tokens_per_s),
        real("mfu", r->mfu),
        integer("memory_bytes", r->memory_bytes),
        integer("memory_rank_bytes", r->memory_rank_bytes),
        integer("wire_bytes_out", r->wire_bytes_out),
        integer("wire_bytes_in", r->wire_bytes_in),
        integer("local_bytes_out", r->local_bytes_out),
        integer("local_bytes_in", r->local_bytes_in),
        real("compute_s", r->compute_s),
        real("exchange_s", r->exchange_s),
        real("wait_s", r->wait_s),
        real("hidden_share", r->hidden_share),
        real("step_s", r->step_s),
        real("elapsed_s", r->elapsed_s),
    };
    int n = 0;
    while (row[n].name) n++;
    if (!isnan(r->consensus_distance))
        row[n++] = real("consensus_distance", r->consensus_distance);
    if (r->mean_of_all >= 0) row[n++] = integer("mean_of_all", r->mean_of_all);
    if (r->late >= 0) row[n++] = integer("late", r->late);
    if (r->ranks > 0) {
        row[n++] = integer("ranks", r->ranks);
        row[n++] = real("participation", r->participation);
    }
    if (r->relayed_bytes > 0) row[n++] = integer("relayed_bytes", r->relayed_bytes);
    if (r->suspect_node >= 0) row[n++] = integer("suspect_node", r->suspect_node);
    if (r->sent) {
        journal->sent.n = 0;
        for (int64_t i = 0; i < 2 * r->n_sent; i++)
            wefti_buffer_print(journal->ctx, &journal->sent, "%016llx",
                               (unsigned long long)r->sent[i]);
        WEFT_TRY(journal->sent.status);
        row[n++] = integer("sent_step", r->sent_step);
        row[n++] = (wefti_metric){
            .name = "sent", .kind = WEFTI_METRIC_TEXT, .text = journal->sent.bytes};
    }
    if (since->n > 1) {
        row[n++] = integer("steps", since->n);
        row[n++] = real("mean_loss", since->loss / (double)since->n);
    }
    if (r->form) row[n++] = words("form", r->form);
    if (r->form && r->gain > 0) row[n++] = real("gain", r->gain);
    if (r->form && r->why && strcmp(journal->form, r->form) != 0)
        row[n++] = words("why", r->why);
    snprintf(journal->form, sizeof journal->form, "%s", r->form ? r->form : "");
    WEFT_TRY(wefti_metrics_write(journal->ctx, journal->metrics, row, n));
    return write_step_events(journal, r);
}

int64_t wefti_journal_every(const weft_config *config) {
    int64_t steps = config->run.steps;
    if (config->run.log_every > 0) return config->run.log_every;
    if (config->run.audit) return 1; /* each step has its digests */
    return steps > MOST_LINES ? (steps + MOST_LINES - 1) / MOST_LINES : 1;
}

bool wefti_journal_logs(const weft_config *config, int64_t step) {
    return step % wefti_journal_every(config) == 0 || step == config->run.steps;
}

static void count(sums *s, const weft_step_record *r) {
    s->n++;
    s->loss += r->loss;
    s->tokens += (double)r->tokens;
    s->mfu_s += r->mfu * r->step_s;
    s->wire_out += (double)r->wire_bytes_out;
    s->wire_in += (double)r->wire_bytes_in;
    s->local_out += (double)r->local_bytes_out;
    s->local_in += (double)r->local_bytes_in;
    s->compute_s += r->compute_s;
    s->exchange_s += r->exchange_s;
    s->wait_s += r->wait_s;
    s->step_s += r->step_s;
    s->late += (double)r->late;
    s->participation += r->participation;
    s->relayed += (double)r->relayed_bytes;
}

static int64_t whole(double sum, int64_t n) { return (int64_t)(sum / (double)n + 0.5); }

/* The record of the last step, with means over all steps since the line before. */
static weft_step_record mean_of(const weft_step_record *last, const sums *s) {
    weft_step_record r = *last;
    double n = (double)s->n;
    r.tokens = whole(s->tokens, s->n);
    r.tokens_per_s = s->tokens / s->step_s;
    r.mfu = s->mfu_s / s->step_s;
    r.wire_bytes_out = whole(s->wire_out, s->n);
    r.wire_bytes_in = whole(s->wire_in, s->n);
    r.local_bytes_out = whole(s->local_out, s->n);
    r.local_bytes_in = whole(s->local_in, s->n);
    r.compute_s = s->compute_s / n;
    r.exchange_s = s->exchange_s / n;
    r.wait_s = s->wait_s / n;
    r.hidden_share = s->exchange_s > 0 ? fmax(0, 1 - s->wait_s / s->exchange_s) : 1;
    r.step_s = s->step_s / n;
    if (r.late >= 0) r.late = whole(s->late, s->n);
    r.participation = s->participation / n;
    r.relayed_bytes = whole(s->relayed, s->n);
    return r;
}

weft_status wefti_journal_step(wefti_journal *journal, const weft_step_record *r,
                               bool logged) {
    wefti_exporter_step(journal->exporter, r);
    count(&journal->since, r);
    if (!logged) return WEFT_OK;
    const sums since = journal->since;
    journal->since = (sums){0};
    if (since.n == 1) return write_step(journal, r, &since);
    const weft_step_record mean = mean_of(r, &since);
    return write_step(journal, &mean, &since);
}

weft_status wefti_journal_evaluation(wefti_journal *journal, const weft_eval_record *r,
                                     double bigram_loss) {
    wefti_exporter_evaluation(journal->exporter, r);
    wefti_metric row[8] = {
        integer("step", r->step),
        real("elapsed_s", r->elapsed_s),
        real("validation_loss", r->loss),
        integer("validation_tokens", r->tokens),
    };
    int n = 4;
    if (!isnan(bigram_loss)) row[n++] = real("bigram_loss", bigram_loss);
    if (!isnan(r->local_loss)) row[n++] = real("local_validation_loss", r->local_loss);
    if (!isnan(r->distance)) row[n++] = real("exact_consensus_distance", r->distance);
    if (!isnan(r->accuracy)) row[n++] = real("validation_accuracy", r->accuracy);
    WEFT_TRY(wefti_metrics_write(journal->ctx, journal->metrics, row, n));
    if (!journal->events) return WEFT_OK;
    const wefti_scalar scalar = {"validation/loss", r->loss};
    return wefti_tfevents_write(journal->ctx, journal->events, r->step,
                                wefti_unix_now_s(), &scalar, 1);
}

static weft_status write_node(wefti_journal *journal, int64_t step, double elapsed_s,
                              const wefti_node *node) {
    wefti_node copy = *node;
    enum { FACTS = 8 };
    wefti_metric row[FACTS + WEFTI_NODE_FIGURES] = {
        integer("step", step),
        real("elapsed_s", elapsed_s),
        integer("node", node->node),
        words("host", copy.host),
        integer("ranks", node->ranks),
        integer("cores", node->cores),
        integer("pass_rows", node->pass_rows),
        integer("recomputes", node->recomputes),
    };
    for (int i = 0; i < WEFTI_NODE_FIGURES; i++)
        row[FACTS + i] = real(wefti_node_names[i], *wefti_node_figure(&copy, i));
    return wefti_metrics_write(journal->ctx, journal->nodes, row,
                               FACTS + WEFTI_NODE_FIGURES);
}

weft_status wefti_journal_nodes(wefti_journal *journal, int64_t step, double elapsed_s,
                                const wefti_node *nodes, int n) {
    wefti_exporter_nodes(journal->exporter, nodes, n);
    for (int i = 0; i < n; i++) WEFT_TRY(write_node(journal, step, elapsed_s, &nodes[i]));
    return WEFT_OK;
}

weft_status wefti_journal_end(wefti_journal *journal, bool success) {
    if (!journal || !journal->events) return WEFT_OK;
    return wefti_tfevents_end(journal->ctx, journal->events, wefti_unix_now_s(), success);
}

weft_status wefti_journal_sync(wefti_journal *journal) {
    WEFT_TRY(wefti_metrics_sync(journal->ctx, journal->nodes));
    return wefti_metrics_sync(journal->ctx, journal->metrics);
}

weft_status wefti_journal_close(wefti_journal *journal) {
    if (!journal) return WEFT_OK;
    weft_ctx *ctx = journal->ctx;
    weft_status a = wefti_metrics_close(ctx, journal->metrics);
    weft_status c = wefti_metrics_close(ctx, journal->nodes);
    weft_status b = wefti_tfevents_close(ctx, journal->events);
    if (a == WEFT_OK) a = c;
    wefti_exporter_close(journal->exporter);
    wefti_buffer_fini(ctx, &journal->sent);
    wefti_free(ctx, journal);
    return a != WEFT_OK ? a : b;
}
