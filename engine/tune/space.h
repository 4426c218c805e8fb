/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

/* The points that a search tries. A key is a range, LOW..HIGH, or a list, A,B,C. */
enum { WEFTI_SPACE_TEXT = 32, WEFTI_SPACE_KEYS = 16, WEFTI_SPACE_ITEMS = 64 };

typedef struct wefti_axis {
    const weft_config_key *key; /* borrowed, static */
    bool is_range;
    double low, high;                                /* of a range */
    int n_items;                                     /* of a list */
    char items[WEFTI_SPACE_ITEMS][WEFTI_SPACE_TEXT]; /* as they are typed */
} wefti_axis;

typedef struct wefti_space {
    int n_axes;
    wefti_axis axes[WEFTI_SPACE_KEYS];
} wefti_space;

/* Adds the axis of "section.key=LOW..HIGH" or "section.key=A,B,C". Every value is tried
 * on `scratch`, so that an invalid one is refused before anything is trained. */
weft_status wefti_space_add(weft_ctx *ctx, wefti_space *space, const char *text,
                            weft_config *scratch) WEFT_CHECKED;

/* Number of points of the grid, or 0 if any key has a range. */
int64_t wefti_space_grid(const wefti_space *space);

/* The value of an axis at the i-th point, as it is typed. */
void wefti_space_value(const wefti_space *space, int64_t i, int axis,
                       char out[WEFTI_SPACE_TEXT]);
