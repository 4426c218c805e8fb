/* SPDX-License-Identifier: MIT */
/* The files are read back by a decoder of its own: CRC bit by bit, protobuf field by
 * field. */
#include "base/clock.h"
#include "unit/record/helpers.h"

#include <glob.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "record/tfevents.h"

/* ---- decoder ---- */

static uint32_t slow_crc32c(const unsigned char *bytes, size_t n) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            uint32_t in = (crc ^ (uint32_t)bytes[i] >> bit) & 1;
            crc = crc >> 1 ^ (in ? 0x82f63b78u : 0);
        }
    return ~crc;
}

static uint64_t little(const unsigned char *bytes, int n) {
    uint64_t value = 0;
    for (int i = n; i-- > 0;) value = value << 8 | bytes[i];
    return value;
}

static void assert_crc(const unsigned char *bytes, size_t n,
                       const unsigned char *stored) {
    uint32_t crc = slow_crc32c(bytes, n);
    uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    assert_int_equal(little(stored, 4), masked);
}

typedef struct field {
    uint64_t number, wire, value; /* value: number, or length of the bytes */
    const unsigned char *bytes;
} field;

static uint64_t read_varint(const unsigned char **at, const unsigned char *end) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(*at < end && shift < 70);
        unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

static bool next_field(const unsigned char **at, const unsigned char *end, field *out) {
    if (*at == end) return false;
    uint64_t key = read_varint(at, end);
    *out = (field){.number = key >> 3, .wire = key & 7};
    int width = out->wire == 1 ? 8 : 4;
    if (out->wire == 0) {
        out->value = read_varint(at, end);
    } else if (out->wire == 2) {
        out->value = read_varint(at, end);
        out->bytes = *at;
        assert_true(out->value <= (uint64_t)(end - *at));
        *at += out->value;
    } else {
        assert_true(out->wire == 1 || out->wire == 5);
        assert_true(end - *at >= width);
        out->value = little(*at, width);
        *at += width;
    }
    return true;
}

typedef struct event {
    double wall_time;
    int64_t step;
    char version[32];
    int session_status; /* -1: no session log */
    int n;
    char tags[300][64];
    float values[300];
} event;

static void read_value(const field *f, event *out) {
    const unsigned char *at = f->bytes, *end = f->bytes + f->value;
    field part;
    assert_true(next_field(&at, end, &part));
    assert_true(part.number == 1 && part.wire == 2 && part.value < 64);
    memcpy(out->tags[out->n], part.bytes, part.value);
    assert_true(next_field(&at, end, &part));
    assert_true(part.number == 2 && part.wire == 5);
    uint32_t bits = (uint32_t)part.value;
    memcpy(&out->values[out->n++], &bits, sizeof bits);
    assert_false(next_field(&at, end, &part));
}

static void read_event(const unsigned char *at, const unsigned char *end, event *out) {
    field f;
    memset(out, 0, sizeof *out);
    out->session_status = -1;
    while (next_field(&at, end, &f)) {
        const unsigned char *inner = f.bytes;
        field part;
        if (f.number == 1) memcpy(&out->wall_time, &f.value, 8);
        if (f.number == 2) out->step = (int64_t)f.value;
        if (f.number == 3) memcpy(out->version, f.bytes, f.value);
        if (f.number == 5)
            while (next_field(&inner, f.bytes + f.value, &part)) read_value(&part, out);
        if (f.number == 7) {
            assert_true(next_field(&inner, f.bytes + f.value, &part));
            assert_true(part.number == 1 && part.wire == 0);
            out->session_status = (int)part.value;
        }
    }
}

/* Reads at most `capacity` events; returns their number. */
static int read_events(const char *path, event *out, int capacity) {
    int64_t n_bytes;
    char *data = read_text(ctx, path, &n_bytes);
    const unsigned char *at = (const unsigned char *)data, *end = at + n_bytes;
    int n = 0;
    while (at < end) {
        assert_true(end - at >= 16);
        uint64_t length = little(at, 8);
        assert_crc(at, 8, at + 8);
        assert_true(length <= (uint64_t)(end - at - 16));
        assert_crc(at + 12, length, at + 12 + length);
        assert_true(n < capacity);
        read_event(at + 12, at + 12 + length, &out[n++]);
        at += 16 + length;
    }
    wefti_free(ctx, data);
    return n;
}

/* ---- claims ---- */

TEST_IN(setup, teardown, the_decoders_crc_is_the_published_one) {
    assert_int_equal(slow_crc32c((const unsigned char *)"123456789", 9), 0xe3069283u);
}

TEST_IN(setup, teardown, a_file_begins_with_its_version) {
    static event events[4];
    wefti_tfevents *e;
    assert_ok(ctx, wefti_tfevents_create(ctx, "room", 0, 1700000000.25, &e));
    assert_int_equal(read_events(wefti_tfevents_path(e), events, 4), 1);
    assert_string_equal(events[0].version, "brain.Event:2");
    assert_true(events[0].wall_time == 1700000000.25);
    assert_int_equal(events[0].session_status, -1);
    assert_non_null(
        strstr(wefti_tfevents_path(e), "room/events.out.tfevents.1700000000."));
    assert_ok(ctx, wefti_tfevents_close(ctx, e));
}

TEST_IN(setup, teardown, scalars_come_back) {
    static event events[8];
    static const wefti_scalar row[] = {{"train/loss", 3.25},
                                       {"train/lr", 6e-4},
                                       {"\xc3\xa9", -1e300},
                                       {"x", 1e300},
                                       {"nan", NAN}};
    static const int64_t steps[] = {0, 1, 127, 128, INT64_MAX};
    wefti_tfevents *e;
    char path[4096];
    assert_ok(ctx, wefti_tfevents_create(ctx, "room", 0, 1, &e));
    for (int i = 0; i < 5; i++)
        assert_ok(ctx, wefti_tfevents_write(ctx, e, steps[i], 2.5 + i, row, i + 1));
    assert_ok(ctx, wefti_tfevents_write(ctx, e, 7, 9, row, 0));
    snprintf(path, sizeof path, "%s", wefti_tfevents_path(e));
    assert_ok(ctx, wefti_tfevents_close(ctx, e));
    assert_int_equal(read_events(path, events, 8), 7);
    for (int i = 0; i < 5; i++) {
        const event *got = &events[i + 1];
        assert_int_equal(got->step, steps[i]);
        assert_true(got->wall_time == 2.5 + i);
        assert_int_equal(got->n, i + 1);
        for (int k = 0; k <= i; k++) assert_string_equal(got->tags[k], row[k].tag);
    }
    assert_true(events[5].values[0] == 3.25f && events[5].values[1] == 6e-4f);
    assert_true(events[5].values[2] == -INFINITY && events[5].values[3] == INFINITY);
    assert_true(isnan(events[5].values[4]));
    assert_int_equal(events[6].n, 0);
}

TEST_IN(setup, teardown, an_event_may_be_longer_than_what_is_reserved) {
    static event events[2];
    static wefti_scalar row[300];
    static char tags[300][32];
    wefti_tfevents *e;
    for (int i = 0; i < 300; i++) {
        snprintf(tags[i], sizeof tags[i], "a/rather/long/tag/%d", i);
        row[i] = (wefti_scalar){tags[i], i};
    }
    assert_ok(ctx, wefti_tfevents_create(ctx, "room", 0, 1, &e));
    assert_ok(ctx, wefti_tfevents_write(ctx, e, 1, 1, row, 300));
    assert_int_equal(read_events(wefti_tfevents_path(e), events, 2), 2);
    assert_int_equal(events[1].n, 300);
    for (int i = 0; i < 300; i++) assert_true(events[1].values[i] == (float)i);
    assert_ok(ctx, wefti_tfevents_close(ctx, e));
}

TEST_IN(setup, teardown, a_resumed_run_purges_later_steps) {
    static event events[4];
    wefti_tfevents *e;
    assert_ok(ctx, wefti_tfevents_create(ctx, "room", 500, 3, &e));
    assert_int_equal(read_events(wefti_tfevents_path(e), events, 4), 2);
    assert_int_equal(events[1].session_status, 1); /* START */
    assert_int_equal(events[1].step, 500);
    assert_ok(ctx, wefti_tfevents_close(ctx, e));
}

TEST_IN(setup, teardown, two_starts_in_one_second_get_two_files) {
    wefti_tfevents *a, *b;
    assert_ok(ctx, wefti_tfevents_create(ctx, "room", 0, 5, &a));
    assert_ok(ctx, wefti_tfevents_create(ctx, "room", 0, 5, &b));
    assert_string_not_equal(wefti_tfevents_path(a), wefti_tfevents_path(b));
    assert_ok(ctx, wefti_tfevents_close(ctx, a));
    assert_ok(ctx, wefti_tfevents_close(ctx, b));
}

TEST_IN(setup, teardown, writing_allocates_nothing) {
    static const wefti_scalar row[] = {{"train/loss", 3.25}, {"train/lr", 6e-4}};
    wefti_tfevents *e;
    assert_ok(ctx, wefti_tfevents_create(ctx, "room", 0, 1, &e));
    int64_t before = weft_ctx_allocations(ctx);
    for (int64_t step = 0; step < 100; step++)
        assert_ok(ctx, wefti_tfevents_write(ctx, e, step, 1, row, 2));
    assert_int_equal(weft_ctx_allocations(ctx), before);
    assert_ok(ctx, wefti_tfevents_close(ctx, e));
}

TEST_IN(setup, teardown, impossible_places_and_times_are_refused) {
    wefti_tfevents *e;
    assert_fails(ctx, wefti_tfevents_create(ctx, "room/absent", 0, 1, &e), WEFT_ERR_FILE,
                 "absent");
    assert_null(e);
    assert_fails(ctx, wefti_tfevents_create(ctx, "room", 0, NAN, &e), WEFT_ERR_ARGUMENT,
                 "1970");
    assert_fails(ctx, wefti_tfevents_create(ctx, "room", 0, -1, &e), WEFT_ERR_ARGUMENT,
                 "1970");
    assert_fails(ctx, wefti_tfevents_create(ctx, "room", 0, 1e300, &e), WEFT_ERR_ARGUMENT,
                 "1970");
    assert_ok(ctx, wefti_tfevents_close(ctx, NULL));
    assert_true(wefti_unix_now_s() > 1.6e9);
}

TEST_IN(setup, teardown, a_full_disk_leaves_whole_records) {
    static event events[4];
    static const wefti_scalar row[] = {
        {"a/tag/that/does/not/fit/any/more/into/the/file", 1}};
    struct rlimit before, small;
    wefti_tfevents *e;
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(ctx, wefti_tfevents_create(ctx, "room", 0, 1, &e));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 80;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    weft_status status = wefti_tfevents_write(ctx, e, 1, 1, row, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    char where[512];
    snprintf(where, sizeof where, "%s", wefti_tfevents_path(e));
    assert_int_equal(status, WEFT_OK); /* it waits, and goes before the next one */
    assert_int_equal(read_events(where, events, 4), 1);
    assert_ok(ctx, wefti_tfevents_write(ctx, e, 2, 1, row, 1));
    assert_ok(ctx, wefti_tfevents_close(ctx, e));
    assert_int_equal(read_events(where, events, 4), 3);
    assert_true(events[1].step == 1 && events[2].step == 2);
}

/* The bytes of field number `number` inside a message; fails if it is not there. */
static field inside(const field *message, uint64_t number) {
    const unsigned char *at = message->bytes, *end = at + message->value;
    field part;
    while (next_field(&at, end, &part))
        if (part.number == number) return part;
    fail_msg("no field %d", (int)number);
    return part;
}

static void assert_text(const field *f, const char *expected) {
    assert_int_equal(f->value, strlen(expected));
    assert_memory_equal(f->bytes, expected, f->value);
}

/* The only Value of the k-th event of a file. */
static field value_of(const char *path, int k, int64_t *n_bytes, char **data) {
    *data = read_text(ctx, path, n_bytes);
    const unsigned char *at = (const unsigned char *)*data;
    for (; k > 0; k--) at += 16 + little(at, 8);
    assert_crc(at + 12, little(at, 8), at + 12 + little(at, 8));
    const field whole = {.bytes = at + 12, .value = little(at, 8)};
    field summary = inside(&whole, 5);
    return inside(&summary, 1);
}

static field content_of(const field *value, const char *tag, const char *plugin) {
    field name = inside(value, 1), metadata = inside(value, 9);
    assert_text(&name, tag);
    field data = inside(&metadata, 1), by = inside(&data, 1);
    assert_text(&by, plugin);
    return data;
}

TEST_IN(setup, teardown, settings_are_the_hyperparameters) {
    static const wefti_setting settings[] = {
        {.name = "optimizer.lr", .number = 0.25},
        {.name = "method", .text = "flexdemo"},
        {.name = "mesh.overlap", .number = 1, .is_truth = true}};
    char *text;
    int64_t n_bytes;
    double rate;
    wefti_tfevents *e;
    assert_ok(ctx, wefti_tfevents_create(ctx, "room", 0, 7, &e));
    assert_ok(ctx, wefti_tfevents_settings(ctx, e, 7, settings, 3));
    assert_ok(ctx, wefti_tfevents_end(ctx, e, 8, false));
    field value = value_of(wefti_tfevents_path(e), 1, &n_bytes, &text);
    field data = content_of(&value, "_hparams_/session_start_info", "hparams");
    field content = inside(&data, 2), start = inside(&content, 3), item;
    const unsigned char *at = start.bytes, *end = at + start.value;
    for (int i = 0; i < 3; i++) {
        assert_true(next_field(&at, end, &item) && item.number == 1);
        field name = inside(&item, 1), given = inside(&item, 2);
        assert_text(&name, settings[i].name);
        field one = inside(&given, i == 0 ? 2 : i == 1 ? 3 : 4);
        if (i == 0) memcpy(&rate, &one.value, sizeof rate);
        if (i == 1) assert_text(&one, "flexdemo");
        if (i == 2) assert_int_equal(one.value, 1);
    }
    assert_true(rate == 0.25);
    assert_true(next_field(&at, end, &item) && item.number == 5 && item.wire == 1);
    wefti_free(ctx, text);
    value = value_of(wefti_tfevents_path(e), 2, &n_bytes, &text);
    data = content_of(&value, "_hparams_/session_end_info", "hparams");
    content = inside(&data, 2);
    field ended = inside(&content, 4), how = inside(&ended, 1);
    assert_int_equal(how.value, 2); /* not a success */
    wefti_free(ctx, text);
    assert_ok(ctx, wefti_tfevents_close(ctx, e));
}

TEST_IN(setup, teardown, a_text_is_a_tensor_of_one_string) {
    char *text;
    int64_t n_bytes;
    wefti_tfevents *e;
    assert_ok(ctx, wefti_tfevents_create(ctx, "room", 0, 7, &e));
    assert_ok(ctx, wefti_tfevents_text(ctx, e, 7, "config", "    a: 1\n"));
    field value = value_of(wefti_tfevents_path(e), 1, &n_bytes, &text);
    (void)content_of(&value, "config", "text");
    field tensor = inside(&value, 8), type = inside(&tensor, 1),
          shape = inside(&tensor, 2);
    field dim = inside(&shape, 2), size = inside(&dim, 1), words = inside(&tensor, 8);
    assert_int_equal(type.value, 7);
    assert_int_equal(size.value, 1);
    assert_text(&words, "    a: 1\n");
    wefti_free(ctx, text);
    assert_ok(ctx, wefti_tfevents_close(ctx, e));
}

static weft_status create_and_set(void *user) {
    static const wefti_setting settings[] = {{.name = "a", .text = "b"}};
    wefti_tfevents *e;
    (void)user;
    WEFT_TRY(wefti_tfevents_create(ctx, "room", 9, 1, &e));
    weft_status status = wefti_tfevents_settings(ctx, e, 1, settings, 1);
    if (status == WEFT_OK) status = wefti_tfevents_text(ctx, e, 1, "t", "x");
    if (status == WEFT_OK) status = wefti_tfevents_end(ctx, e, 1, true);
    assert_ok(ctx, wefti_tfevents_close(ctx, e));
    return status;
}

static weft_status create_and_write(void *user) {
    static const wefti_scalar row[] = {{"loss", 1}};
    wefti_tfevents *e;
    (void)user;
    WEFT_TRY(wefti_tfevents_create(ctx, "room", 9, 1, &e));
    weft_status status = wefti_tfevents_write(ctx, e, 9, 1, row, 1);
    assert_ok(ctx, wefti_tfevents_close(ctx, e));
    return status;
}

/* Each start takes a name that is free, and looks at all that are not. */
static void empty_room(void *user) {
    (void)user;
    glob_t found;
    if (glob("room/events*", 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++) unlink(found.gl_pathv[i]);
    globfree(&found);
}

TEST_IN(setup, teardown, every_allocation_failure_is_clean) {
    assert_true(fail_each_allocation(ctx, NULL, create_and_write, NULL) >= 5);
    assert_true(fail_each_allocation(ctx, empty_room, create_and_set, NULL) >= 12);
}
