/* SPDX-License-Identifier: MIT */
/* The points that a search tries. A point depends only on its number.
 *
 *     lists only     point i is the i-th of the grid, the last key fastest
 *     else           u_ij = frac(1/2 + i a_j),  a_j = p^-(j+1),  p^(d+1) = p + 1
 *
 * for d keys: Roberts's sequence. Its first n points are spread evenly for every n, so few
 * trials cover the space and further ones fill its gaps. The first point is u = 1/2. The value
 * of a range is low (high/low)^u if both ends are above 0, else low + (high - low) u, with
 * three digits or as a whole number. The value of a list is the item number floor(u n). */
#include "tune/space.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/value.h"

/* --- reading --- */

static bool is_whole(const weft_config_key *key) {
    return key->type == WEFT_KEY_INT || key->type == WEFT_KEY_BYTES;
}

/* Whether the values of a key are single words, which can be written unchanged. */
static bool is_plain(const weft_config_key *key) {
    return is_whole(key) || key->type == WEFT_KEY_NUMBER || key->type == WEFT_KEY_BOOL ||
           key->type == WEFT_KEY_AUTO_BOOL || key->type == WEFT_KEY_CHOICE;
}

static weft_status find_key(weft_ctx *ctx, const wefti_space *space, const char *name,
                            const weft_config_key **out) {
    const weft_config_key *key;
    int i = 0;
    while ((key = weft_config_key_at(i)) && !wefti_is(key->name, name)) i++;
    *out = key;
    if (!key)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "unknown key '%.60s' to search over, see weft config", name);
    if (!is_plain(key))
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "%s takes texts, expected a key of numbers or choices to search over", name);
    if (strncmp(name, "run.", strlen("run.")) == 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "%s is to be searched over, expected a key of another section: "
            "the search itself sets the steps, seeds and folders of runs",
            name);
    for (int a = 0; a < space->n_axes; a++)
        if (space->axes[a].key == key)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s is searched over twice", name);
    return WEFT_OK;
}

/* Sets the key once on `scratch`, so that an invalid value fails with the key's own error
 * message. */
static weft_status try_value(weft_ctx *ctx, const weft_config_key *key, const char *value,
                             weft_config *scratch) {
    char assignment[160];
    snprintf(assignment, sizeof assignment, "%s=%s", key->name, value);
    return weft_config_set(ctx, scratch, assignment);
}

static weft_status read_range(weft_ctx *ctx, wefti_axis *axis, const char *low,
                              const char *high, weft_config *scratch) {
    weft_quantity unit = wefti_key_quantity(axis->key);
    axis->is_range = true;
    if (!is_whole(axis->key) && axis->key->type != WEFT_KEY_NUMBER)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "%s=%.20s..%.20s is a range, expected a list: its values are words",
            axis->key->name, low, high);
    WEFT_TRY(try_value(ctx, axis->key, low, scratch));
    WEFT_TRY(try_value(ctx, axis->key, high, scratch));
    if (weft_quantity_parse(low, unit, &axis->low) &&
        weft_quantity_parse(high, unit, &axis->high) && axis->low < axis->high)
        return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s=%.20s..%.20s, expected a number and a larger one",
                         axis->key->name, low, high);
}

static weft_status read_list(weft_ctx *ctx, wefti_axis *axis, const char *text,
                             weft_config *scratch) {
    for (;;) {
        size_t n = strcspn(text, ",");
        if (axis->n_items == WEFTI_SPACE_ITEMS || n == 0 || n >= WEFTI_SPACE_TEXT)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                 "the list of %s has '%.40s', expected at most %d values "
                                 "of 1 to %d letters",
                                 axis->key->name, text, (int)WEFTI_SPACE_ITEMS,
                                 WEFTI_SPACE_TEXT - 1);
        char *item = axis->items[axis->n_items++];
        memcpy(item, text, n);
        item[n] = '\0';
        WEFT_TRY(try_value(ctx, axis->key, item, scratch));
        if (!text[n]) return WEFT_OK;
        text += n + 1;
    }
}

/* Reads the two ends of a range, or a list. */
static weft_status read_values(weft_ctx *ctx, wefti_axis *axis, const char *values,
                               weft_config *scratch) {
    char low[WEFTI_SPACE_TEXT];
    const char *dots = strstr(values, "..");
    if (!dots) return read_list(ctx, axis, values, scratch);
    size_t n = (size_t)(dots - values);
    if (n == 0 || n >= sizeof low || !dots[2] || strlen(dots + 2) >= WEFTI_SPACE_TEXT)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "the range of %s is '%.60s', expected LOW..HIGH",
                             axis->key->name, values);
    memcpy(low, values, n);
    low[n] = '\0';
    return read_range(ctx, axis, low, dots + 2, scratch);
}

weft_status wefti_space_add(weft_ctx *ctx, wefti_space *space, const char *text,
                            weft_config *scratch) {
    char name[64];
    size_t n = strcspn(text, "=");
    if (!text[n] || n == 0 || n >= sizeof name)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "'%.60s' is no key to search over, expected "
                             "section.key=LOW..HIGH or section.key=A,B,C",
                             text);
    if (space->n_axes == WEFTI_SPACE_KEYS)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "'%.60s' is one key too many, expected at most %d", text,
                             (int)WEFTI_SPACE_KEYS);
    memcpy(name, text, n);
    name[n] = '\0';
    wefti_axis *axis = &space->axes[space->n_axes];
    memset(axis, 0, sizeof *axis);
    WEFT_TRY(find_key(ctx, space, name, &axis->key));
    WEFT_TRY(read_values(ctx, axis, text + n + 1, scratch));
    space->n_axes++;
    return WEFT_OK;
}

/* --- points --- */

int64_t wefti_space_grid(const wefti_space *space) {
    int64_t points = 1;
    for (int a = 0; a < space->n_axes; a++) {
        if (space->axes[a].is_range) return 0;
        points *= space->axes[a].n_items;
        if (points > INT32_MAX) return INT32_MAX;
    }
    return points;
}

/* The index of an axis's item at the i-th point of the grid. */
static int grid_item(const wefti_space *space, int64_t i, int axis) {
    for (int a = space->n_axes - 1; a > axis; a--) i /= space->axes[a].n_items;
    return (int)(i % space->axes[axis].n_items);
}

/* The root p of p^(d+1) = p + 1, by fixed-point iteration of p = (1 + p)^(1/(d+1)). */
static double root_of(int d) {
    double p = 2;
    for (int turn = 0; turn < 64; turn++) p = pow(1 + p, 1.0 / (d + 1));
    return p;
}

static double coordinate(const wefti_space *space, int64_t i, int axis) {
    double u = 0.5 + (double)i * pow(root_of(space->n_axes), -(axis + 1));
    return u - floor(u);
}

static void range_value(const wefti_axis *axis, double u, char *out) {
    double low = axis->low, high = axis->high;
    double x = low > 0 ? low * pow(high / low, u) : low + (high - low) * u;
    if (is_whole(axis->key)) {
        snprintf(out, WEFTI_SPACE_TEXT, "%.0f", x);
        return;
    }
    snprintf(out, WEFTI_SPACE_TEXT, "%.3g", x);
    wefti_with_point(out);
    double rounded = wefti_strtod(out,
                                  NULL); /* rounding may give a value outside the range */
    if (rounded >= low && rounded <= high) return;
    snprintf(out, WEFTI_SPACE_TEXT, "%.9g", x);
    wefti_with_point(out);
}

void wefti_space_value(const wefti_space *space, int64_t i, int axis,
                       char out[WEFTI_SPACE_TEXT]) {
    const wefti_axis *a = &space->axes[axis];
    double u = coordinate(space, i, axis);
    if (a->is_range) {
        range_value(a, u, out);
        return;
    }
    int item = wefti_space_grid(space) > 0 ? grid_item(space, i, axis)
                                           : (int)(u * a->n_items);
    snprintf(out, WEFTI_SPACE_TEXT, "%s", a->items[item]);
}
