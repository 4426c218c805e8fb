/* SPDX-License-Identifier: MIT */
/* Records of steps and evaluations -> gauges (record/prometheus.h) -> the file. Counters
 * begin at 0 with the process, as Prometheus expects of a program that was restarted. */
#define _GNU_SOURCE
#include "runfiles/exporter.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "record/prometheus.h"

enum { FIRST_BYTES = 32768, MOST_NODES = 64 };

struct wefti_exporter {
    weft_ctx *ctx; /* borrowed */
    char *path, *run;
    double written_s; /* time of the last write */
    bool failed, ended;
    weft_step_record step; /* the last one; step = 0: none */
    weft_eval_record evaluation;
    double tokens, wire_out, wire_in; /* since this process began */
    wefti_node nodes[MOST_NODES];     /* the first ones, with their newest figures */
    char numbers[MOST_NODES][12];     /* their numbers, as text */
    int n_nodes;
    wefti_buffer text; /* reserved: writing allocates nothing */
};

static void put_nodes(wefti_exporter *x) {
    static const char *const names[][2] = {
        {"weft_node_cpu_cores", "cores that the ranks of the node kept busy"},
        {"weft_node_busy_ratio", "of all cores of its machine, by whatever ran there"},
        {"weft_node_memory_bytes", "resident memory of its ranks' processes"},
        {"weft_node_rank_memory_bytes", "held by its largest rank"},
        {"weft_node_network_out_bytes_per_second", "through its machine's interfaces"},
        {"weft_node_network_in_bytes_per_second", "through its machine's interfaces"},
        {"weft_node_wire_out_bytes_per_second", "payload of weft to other nodes"},
        {"weft_node_wire_in_bytes_per_second", "payload of weft from other nodes"},
        {"weft_node_relayed_bytes_per_second", "between two others, passed on by it"}};
    _Static_assert(sizeof names / sizeof *names == WEFTI_NODE_FIGURES, "a name for each");
    wefti_gauge gauges[MOST_NODES];
    for (int i = 0; i < WEFTI_NODE_FIGURES; i++) {
        for (int k = 0; k < x->n_nodes; k++)
            gauges[k] = (wefti_gauge){names[i][0], names[i][1], false,
                                      *wefti_node_figure(&x->nodes[k], i), x->numbers[k]};
        wefti_prometheus_put(x->ctx, &x->text, x->run, gauges, x->n_nodes);
    }
}

static void put_all(wefti_exporter *x) {
    const weft_step_record *r = &x->step;
    bool any = r->step > 0;
    double none = NAN;
    const wefti_gauge gauges[] = {
        {"weft_running", "1 while the run goes on, 0 when it has ended", false, !x->ended,
         NULL},
        {"weft_time_seconds", "when these numbers were written, seconds since 1970",
         false, wefti_unix_now_s(), NULL},
        {"weft_step", "optimizer steps done", false, (double)r->step, NULL},
        {"weft_steps", "optimizer steps of the whole run", false, (double)r->steps, NULL},
        {"weft_loss", "nats per token of the last step", false, any ? r->loss : none,
         NULL},
        {"weft_validation_loss", "nats per token of the last evaluation", false,
         x->evaluation.loss, NULL},
        {"weft_learning_rate", "of the last step", false, any ? r->lr : none, NULL},
        {"weft_gradient_norm", "before clipping", false, any ? r->grad_norm : none, NULL},
        {"weft_update_norm", "norm of the change of all parameters", false,
         any ? r->update_norm : none, NULL},
        {"weft_tokens_total", "tokens trained on by all ranks since the process began",
         true, x->tokens, NULL},
        {"weft_tokens_per_second", "of the last step, all ranks", false,
         any ? r->tokens_per_s : none, NULL},
        {"weft_flop_use_ratio", "model FLOP over the measured matrix product rate", false,
         any ? r->mfu : none, NULL},
        {"weft_step_seconds", "of the last step", false, any ? r->step_s : none, NULL},
        {"weft_compute_seconds", "of the last step, not waiting", false,
         any ? r->compute_s : none, NULL},
        {"weft_exchange_seconds", "of the last step, exchange thread busy", false,
         any ? r->exchange_s : none, NULL},
        {"weft_wait_seconds", "of the last step, computing stood still", false,
         any ? r->wait_s : none, NULL},
        {"weft_hidden_ratio", "share of the exchange that nobody waited for", false,
         any ? r->hidden_share : none, NULL},
        {"weft_ranks", "members of the last step, if membership may change", false,
         r->ranks > 0 ? (double)r->ranks : none, NULL},
        {"weft_participation_ratio", "share of the members whose rows counted", false,
         r->ranks > 0 ? r->participation : none, NULL},
        {"weft_wire_out_bytes_total", "payload out of the first node", true, x->wire_out,
         NULL},
        {"weft_wire_in_bytes_total", "payload into the first node", true, x->wire_in,
         NULL},
        {"weft_memory_bytes", "peak resident memory of the first process", false,
         any ? (double)r->memory_bytes : none, NULL},
        {"weft_rank_memory_bytes", "held by the first rank alone", false,
         any ? (double)r->memory_rank_bytes : none, NULL},
        {"weft_elapsed_seconds", "since the run began", false, any ? r->elapsed_s : none,
         NULL},
        {"weft_left_seconds", "estimate of the time to the last step", false,
         any ? r->left_s : none, NULL},
    };
    x->text.n = 0;
    x->text.status = WEFT_OK;
    wefti_prometheus_put(x->ctx, &x->text, x->run, gauges,
                         (int)(sizeof gauges / sizeof *gauges));
    put_nodes(x);
}

static weft_status write_now(wefti_exporter *x) {
    put_all(x);
    x->written_s = wefti_now_s();
    return wefti_prometheus_write(x->ctx, x->path, &x->text);
}

/* A failure to write the file does not end the run. */
static void write_or_warn(wefti_exporter *x) {
    char sentence[1024];
    if (write_now(x) == WEFT_OK) {
        x->failed = false;
        return;
    }
    snprintf(sentence, sizeof sentence, "%s", weft_ctx_message(x->ctx));
    weft_ctx_clear(x->ctx);
    if (!x->failed) weft_ctx_log(x->ctx, WEFT_LOG_WARN, "%s", sentence);
    x->failed = true;
}

static weft_status fill(weft_ctx *ctx, wefti_exporter *x, const weft_config *config) {
    char whole[PATH_MAX];
    const char *name = realpath(config->run.folder, whole) ? whole : config->run.folder;
    const char *slash = strrchr(name, '/');
    WEFT_TRY(wefti_strdup(ctx, config->run.prometheus, &x->path));
    WEFT_TRY(wefti_strdup(ctx, slash && slash[1] ? slash + 1 : name, &x->run));
    wefti_buffer_reserve(ctx, &x->text, FIRST_BYTES);
    WEFT_TRY(x->text.status);
    x->step.steps = config->run.steps;
    return write_now(x);
}

static void release(wefti_exporter *x) {
    weft_ctx *ctx = x->ctx;
    wefti_buffer_fini(ctx, &x->text);
    WEFTI_FREE(ctx, x->path, x->run, x);
}

weft_status wefti_exporter_create(weft_ctx *ctx, const weft_config *config,
                                  wefti_exporter **out) {
    wefti_exporter *x;
    *out = NULL;
    if (!config->run.prometheus[0]) return WEFT_OK;
    WEFT_TRY(wefti_alloc(ctx, sizeof *x, "the exporter", &x));
    x->ctx = ctx;
    x->evaluation.loss = NAN;
    weft_status status = fill(ctx, x, config);
    if (status == WEFT_OK)
        *out = x;
    else
        release(x);
    return status;
}

void wefti_exporter_step(wefti_exporter *x, const weft_step_record *record) {
    if (!x) return;
    x->step = *record;
    x->tokens += (double)record->tokens;
    x->wire_out += (double)record->wire_bytes_out;
    x->wire_in += (double)record->wire_bytes_in;
    if (wefti_now_s() - x->written_s >= 1) write_or_warn(x);
}

void wefti_exporter_nodes(wefti_exporter *x, const wefti_node *nodes, int n) {
    if (!x) return;
    x->n_nodes = n < MOST_NODES ? n : MOST_NODES;
    for (int i = 0; i < x->n_nodes; i++) {
        x->nodes[i] = nodes[i];
        snprintf(x->numbers[i], sizeof x->numbers[i], "%d", nodes[i].node);
    }
}

void wefti_exporter_evaluation(wefti_exporter *x, const weft_eval_record *record) {
    if (!x) return;
    x->evaluation = *record;
    write_or_warn(x);
}

void wefti_exporter_close(wefti_exporter *x) {
    if (!x) return;
    x->ended = true;
    write_or_warn(x);
    release(x);
}
