/* SPDX-License-Identifier: MIT */
#ifndef WEFT_PROBE_H
#define WEFT_PROBE_H

#include <weft/cluster.h>
#include <weft/config.h>
#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Measures a cluster for the runtime model: docs/prediction.md. */

/** What is measured, and how long; zeroed: the defaults. */
typedef struct weft_probe_options {
    size_t struct_size;
    double seconds; /* that the probe may take, approximately; 0 = 60 */
    /** Receives what is measured next. Called by rank 0's thread; may be NULL. */
    void (*on_part)(void *user, const char *what);
    void *user;
    /** Lines "name: value" that all processes must have alike, beside the configuration; NULL:
     * none. They are compared first, also with those of a process that begins a loop instead
     * (weft_sync_setup.alike). */
    const char *alike;
} weft_probe_options;

/** Something that was measured, and how well the measurement repeats. */
typedef struct weft_probe_figure {
    char name[64];        /* "wire bandwidth", "block forward" */
    char unit[16];        /* "s", "B/s", "FLOP/s", "s/parameter", "" for a share */
    double value;         /* in that unit, as the next two */
    double first, second; /* from the first and the second half of the samples */
} weft_probe_figure;

/** What was measured, the cluster and how sure each figure is. */
typedef struct weft_probe_result {
    size_t struct_size;
    weft_cluster *cluster;
    weft_probe_figure *figures;
    int64_t n_figures;
    double elapsed_s;
} weft_probe_result;

/** Measures on all ranks of the configured mesh at once: computing of the configured model
 * and batch, links, collectives, codecs, optimizers. Trains nothing and writes no file;
 * tokens are generated. `config` is finished. Ranks are threads (mesh NULL) or the
 * processes of the mesh, which must all make this call with the same arguments. [out] *out
 * owned by the caller (weft_probe_clear). It is zero on failure, and on all ranks but 0,
 * where only elapsed_s is set. Errors: CONFIG, FILE, FORMAT, NUMERIC, PEER, WIRE. */
WEFT_API weft_status weft_probe(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                                const weft_probe_options *options,
                                weft_probe_result *out) WEFT_CHECKED;
WEFT_API void weft_probe_clear(weft_ctx *ctx, weft_probe_result *result);

#ifdef __cplusplus
}
#endif
#endif
