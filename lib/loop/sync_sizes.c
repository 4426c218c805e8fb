/* SPDX-License-Identifier: MIT */
/* Sizes of public structs that other languages declare a second time: a difference is
 * found when the library is loaded, not when a field is read from the wrong place. */
#include <string.h>

#include <weft/cluster.h>
#include <weft/invite.h>
#include <weft/plan.h>
#include <weft/predict.h>
#include <weft/probe.h>
#include <weft/sync.h>

#define ROW(type)                                                                        \
    { #type, sizeof(type) }

size_t weft_sync_size_of(const char *type) {
    static const struct {
        const char *name;
        size_t size;
    } rows[] = {
        ROW(weft_sync_tensor),      ROW(weft_sync_report),    ROW(weft_sync_setup),
        ROW(weft_mesh_security),    ROW(weft_mesh_place),     ROW(weft_mesh_facts),
        ROW(weft_sync_chunk_shape), ROW(weft_config_key),     ROW(weft_prediction),
        ROW(weft_loop_facts),       ROW(weft_sync_part),      ROW(weft_probe_options),
        ROW(weft_probe_figure),     ROW(weft_probe_result),   ROW(weft_accelerator),
        ROW(weft_sync_parcel),      ROW(weft_recipe),         ROW(weft_learning),
        ROW(weft_invite_setup),     ROW(weft_invite_request), ROW(weft_sync_limits),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, type) == 0) return rows[i].size;
    return 0;
}
