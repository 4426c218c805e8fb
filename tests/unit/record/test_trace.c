/* SPDX-License-Identifier: MIT */
/* Timelines of several ranks as a trace: whose clock, whose names, which nanosecond. */
#include "unit/record/helpers.h"

#include <math.h>

#include <jansson.h>
#include <weft/report.h>

#define STRETCH(lane, what, begin, end)                                                  \
    "{\"lane\":\"" lane "\",\"index\":7,\"what\":\"" what "\",\"begin_s\":" begin        \
    ",\"end_s\":" end "}"

static void put(const char *path, const char *text) {
    put_bytes(path, text, (int64_t)strlen(text));
}

static json_t *trace_of(void) {
    int64_t n;
    assert_ok(ctx, weft_report_trace(ctx, "room", "room/trace"));
    char *text = read_text(ctx, "room/trace", &n);
    json_error_t error;
    json_t *whole = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &error);
    if (!whole) fail_msg("%s at %d", error.text, error.position);
    wefti_free(ctx, text);
    return whole;
}

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static const char *word(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

/* The k-th event of a kind. */
static const json_t *event(const json_t *trace, const char *kind, int k) {
    size_t i;
    const json_t *e;
    json_array_foreach(json_object_get(trace, "traceEvents"), i,
                       e) if (strcmp(word(e, "ph"), kind) == 0 && k-- == 0) return e;
    return NULL;
}

TEST_IN(setup, teardown, ranks_are_on_one_clock) {
    put("room/timeline.json",
        "{\"step\":21,\"rank\":0,\"node\":0,\"host\":\"a\",\"timeline\":[" STRETCH(
            "compute", "forward", "0.5",
            "0.75") "],"
                    "\"others\":[{\"rank\":1,\"node\":0,\"host\":\"a\",\"begun_s\":-0.25,"
                    "\"timeline\":[" STRETCH("compute", "load", "0.125",
                                             "0.25") "," STRETCH("exchange", "begin",
                                                                 "0.25",
                                                                 "0.5000000015") "]}]}");
    json_t *trace = trace_of();
    const json_t *mine = event(trace, "X", 0), *load = event(trace, "X", 1);
    const json_t *begin = event(trace, "X", 2);
    assert_null(event(trace, "X", 3));
    assert_true(number(load, "ts") == 0 && number(load, "pid") == 1); /* -0.125 s */
    assert_true(number(mine, "ts") == 625000 && number(mine, "dur") == 250000);
    assert_true(number(begin, "ts") == 125000 && number(begin, "tid") == 1);
    assert_true(fabs(number(begin, "dur") - 250000.002) < 1e-6);
    assert_string_equal(word(mine, "name"), "forward 7");
    assert_string_equal(word(json_object_get(event(trace, "M", 0), "args"), "name"),
                        "rank 0, node 0, a");
    json_decref(trace);
}

TEST_IN(setup, teardown, what_was_predicted_stands_behind) {
    put("room/timeline.json",
        "{\"timeline\":[" STRETCH("compute", "forward", "0", "1") "]}");
    put("room/plan.json",
        "{\"prediction\":{},\"timeline\":[" STRETCH("wire", "message", "0", "2") "]}");
    json_t *trace = trace_of();
    assert_true(number(event(trace, "X", 1), "pid") == 1);
    assert_true(number(event(trace, "X", 1), "dur") == 2e6);
    assert_string_equal(word(json_object_get(event(trace, "M", 4), "args"), "name"),
                        "predicted");
    json_decref(trace);
}

TEST_IN(setup, teardown, names_from_elsewhere_are_text) {
    put("room/timeline.json", "{\"host\":\"h\\\"\\u0001\\n\",\"timeline\":[" STRETCH(
                                  "\\\"},{", "</script>\\u001b", "0", "1") "]}");
    json_t *trace = trace_of();
    assert_string_equal(word(event(trace, "X", 0), "cat"), "</script>\x1b");
    assert_string_equal(word(json_object_get(event(trace, "M", 0), "args"), "name"),
                        "rank 0, node 0, h\"\x01\n");
    json_decref(trace);
}

static void refuse(const char *text, const char *words) {
    put("room/timeline.json", text);
    assert_fails(ctx, weft_report_trace(ctx, "room", "room/trace"), WEFT_ERR_FORMAT,
                 words);
}

TEST_IN(setup, teardown, damage_is_refused) {
    refuse("{\"timeline\":[{}]}", "item 0 of the timeline is not a stretch of time");
    refuse("{\"timeline\":[],\"others\":[{\"timeline\":[1]}]}",
           "item 0 of the timeline is not a stretch of time");
    refuse("{\"timeline\":[" STRETCH("a", "b", "0", "1e999") "]}", "timeline.json");
    refuse("[]", "timeline.json");
    assert_int_equal(remove("room/timeline.json"), 0);
    assert_fails(ctx, weft_report_trace(ctx, "room", "room/trace"), WEFT_ERR_FILE,
                 "room/timeline.json is not there");
    assert_fails(ctx, weft_report_trace(ctx, "room", NULL), WEFT_ERR_ARGUMENT, "path");
}

static weft_status make_trace(void *user) {
    (void)user;
    return weft_report_trace(ctx, "room", "room/trace");
}

TEST_IN(setup, teardown, every_allocation_failure_is_clean) {
    put("room/timeline.json",
        "{\"timeline\":[" STRETCH("compute", "forward", "0",
                                  "1") "],\"others\":[{\"rank\":1,"
                                       "\"timeline\":[" STRETCH("compute", "forward", "0",
                                                                "1") "]}]}");
    assert_true(fail_each_allocation(ctx, NULL, make_trace, NULL) >= 4);
}
