/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* A TensorBoard event file with scalars:
 * <folder>/events.out.tfevents.<time>.<host>.<pid>.<k>, a new one for every start of a
 * run. */
typedef struct wefti_tfevents wefti_tfevents;

typedef struct wefti_scalar {
    const char *tag; /* borrowed; UTF-8, e.g. "train/loss" */
    double value;    /* stored as f32 */
} wefti_scalar;

/* Creates the file; the folder must exist. `unix_s`: seconds since 1970. With first_step
 * > 0 TensorBoard is to forget what earlier files of the folder say of steps >=
 * first_step. */
weft_status wefti_tfevents_create(weft_ctx *ctx, const char *folder, int64_t first_step,
                                  double unix_s, wefti_tfevents **out) WEFT_CHECKED;

/* Appends one event with n scalars of a step, with one write. */
weft_status wefti_tfevents_write(weft_ctx *ctx, wefti_tfevents *events, int64_t step,
                                 double unix_s, const wefti_scalar *scalars,
                                 int n) WEFT_CHECKED;

/* One key that the run was set to: a text, or with text NULL a number or a truth value. */
typedef struct wefti_setting {
    const char *name; /* borrowed, like text */
    const char *text;
    double number;
    bool is_truth;
} wefti_setting;

/* What the run was set to, for the table of hyperparameters, and that it has ended. */
weft_status wefti_tfevents_settings(weft_ctx *ctx, wefti_tfevents *events, double unix_s,
                                    const wefti_setting *settings, int n) WEFT_CHECKED;
weft_status wefti_tfevents_end(weft_ctx *ctx, wefti_tfevents *events, double unix_s,
                               bool success) WEFT_CHECKED;

/* A text (Markdown) under a tag. */
weft_status wefti_tfevents_text(weft_ctx *ctx, wefti_tfevents *events, double unix_s,
                                const char *tag, const char *text) WEFT_CHECKED;

/* Path of the file; borrowed until close. */
const char *wefti_tfevents_path(const wefti_tfevents *events);

/* Syncs and closes; NULL is accepted. */
weft_status wefti_tfevents_close(weft_ctx *ctx, wefti_tfevents *events) WEFT_CHECKED;
