/* SPDX-License-Identifier: MIT */
/* The reader of events under the configuration, cluster.yaml and the list of links. */
#include "config/yamlevents.h"

#include <string.h>

#include "check.h"

static weft_ctx *ctx;

static int begin(void **state) { return weft_ctx_create(&ctx) == WEFT_OK ? 0 : -1; }

static int end(void **state) { return ctx_end(ctx); }

static wefti_yaml reader(bool lenient) {
    return (wefti_yaml){
        .ctx = ctx, .path = "some.yaml", .blame = WEFT_ERR_CONFIG, .lenient = lenient};
}

/* Walks the whole text; the events go into `types`, their lines into `lines`. */
static weft_status walk(const char *text, int64_t n, bool lenient,
                        yaml_event_type_t *types, int *lines) {
    wefti_yaml y = reader(lenient);
    weft_status status = wefti_yaml_begin(&y, text, n);
    for (int i = 0; status == WEFT_OK; i++) {
        status = wefti_yaml_next(&y);
        if (status != WEFT_OK) break;
        if (types) types[i] = y.event.type;
        if (lines) lines[i] = wefti_yaml_line(&y);
        if (y.event.type == YAML_STREAM_END_EVENT) break;
    }
    wefti_yaml_end(&y);
    return status;
}

TEST(events_come_in_the_order_of_the_text_with_their_lines) {
    static const yaml_event_type_t wanted[] = {
        YAML_STREAM_START_EVENT, YAML_DOCUMENT_START_EVENT, YAML_MAPPING_START_EVENT,
        YAML_SCALAR_EVENT,       YAML_SEQUENCE_START_EVENT, YAML_SCALAR_EVENT,
        YAML_SCALAR_EVENT,       YAML_SEQUENCE_END_EVENT,   YAML_MAPPING_END_EVENT,
        YAML_DOCUMENT_END_EVENT, YAML_STREAM_END_EVENT};
    static const char text[] = "# nothing\na:\n- 1\n- 2\n";
    yaml_event_type_t types[16];
    int lines[16];
    assert_ok(ctx, walk(text, sizeof text - 1, false, types, lines));
    assert_memory_equal(types, wanted, sizeof wanted);
    assert_int_equal(lines[3], 2);
    assert_int_equal(lines[5], 3);
    assert_int_equal(lines[6], 4);
}

/* Some editors begin a file with U+FEFF. */
TEST(a_byte_order_mark_is_no_text) {
    static const char text[] = "\xEF\xBB\xBF"
                               "a: 1\nb: 2\n";
    yaml_event_type_t types[16];
    int lines[16];
    assert_ok(ctx, walk(text, sizeof text - 1, false, types, lines));
    assert_int_equal(types[3], YAML_SCALAR_EVENT);
    assert_int_equal(lines[5], 2);
}

/* The text is refused with exactly this sentence and status. */
static void refused(const char *text, weft_status status, const char *sentence) {
    assert_int_equal(walk(text, (int64_t)strlen(text), false, NULL, NULL), status);
    assert_string_equal(weft_ctx_message(ctx), sentence);
    weft_ctx_clear(ctx);
}

TEST(what_no_file_of_ours_needs_is_refused_with_its_line) {
    static const char *const anchors[] = {"a: 1\nb: &x 2\n", "a: 1\nb: *x\n",
                                          "a: 1\nb: &x [1]\n", "a: 1\nb: &x {c: 1}\n"};
    static const char *const tags[] = {"a: !!int 2\n", "a: !x [1]\n", "a: !x {b: 1}\n"};
    for (size_t i = 0; i < sizeof anchors / sizeof anchors[0]; i++)
        refused(anchors[i], WEFT_ERR_CONFIG,
                "some.yaml:2: anchors and aliases (& and *) are not supported, write the "
                "value out");
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        refused(tags[i], WEFT_ERR_CONFIG,
                "some.yaml:1: tags (!) are not supported, write the plain value");
    refused("a: \"1\\0\"\n", WEFT_ERR_CONFIG,
            "some.yaml:1: a value contains a zero byte");
    refused(
        "a: [1\n\nb: ", WEFT_ERR_FORMAT,
        "some.yaml:3: not valid YAML: did not find expected ',' or ']', while parsing "
        "a flow sequence");
    refused("a: 1\nb: \xff\n", WEFT_ERR_FORMAT,
            "some.yaml:2: not valid YAML: invalid leading UTF-8 octet");
}

/* Sections that are stepped over belong to another reader, and may hold anything. */
TEST(a_lenient_reader_takes_anchors_and_tags_but_no_zero_byte) {
    static const char text[] = "a: &x 1\nb: *x\nc: !!int 2\nd: &y [1]\ne: &z {f: !k 1}\n";
    assert_ok(ctx, walk(text, sizeof text - 1, true, NULL, NULL));
    assert_int_equal(walk("a: \"\\0\"\n", 8, true, NULL, NULL), WEFT_ERR_CONFIG);
    weft_ctx_clear(ctx);
}

TEST(a_value_is_skipped_whole_however_deep) {
    enum { DEEP = 900 };
    static char text[4 * DEEP + 64] = "a: ";
    size_t n = strlen(text);
    for (int i = 0; i < DEEP; i++) text[n++] = '[';
    for (int i = 0; i < DEEP; i++) text[n++] = ']';
    memcpy(text + n, "\nb: {c: [1, {d: 2}], e: 3}\nf: 4\n", 32);
    n += 32;
    wefti_yaml y = reader(false);
    assert_ok(ctx, wefti_yaml_begin(&y, text, (int64_t)n));
    for (int i = 0; i < 3; i++) assert_ok(ctx, wefti_yaml_next(&y)); /* to the mapping */
    const char *const keys[] = {"a", "b", "f"};
    for (int i = 0; i < 3; i++) {
        assert_ok(ctx, wefti_yaml_next(&y));
        assert_string_equal(wefti_yaml_text(&y), keys[i]);
        assert_ok(ctx, wefti_yaml_skip(&y));
    }
    assert_string_equal(wefti_yaml_text(&y), "4");
    assert_ok(ctx, wefti_yaml_next(&y));
    assert_int_equal(y.event.type, YAML_MAPPING_END_EVENT);
    wefti_yaml_end(&y);
}

TEST(nothing_behind_a_key_is_blank_and_a_quoted_nothing_is_not) {
    static const char text[] = "- \n- ''\n- x\n";
    wefti_yaml y = reader(false);
    assert_ok(ctx, wefti_yaml_begin(&y, text, sizeof text - 1));
    for (int i = 0; i < 3; i++) assert_ok(ctx, wefti_yaml_next(&y));
    for (int i = 0; i < 3; i++) {
        assert_ok(ctx, wefti_yaml_next(&y));
        assert_true(wefti_yaml_is_scalar(&y));
        assert_int_equal(wefti_yaml_is_blank(&y), i == 0);
    }
    wefti_yaml_end(&y);
}

int main(void) { return check_run(begin, end); }
