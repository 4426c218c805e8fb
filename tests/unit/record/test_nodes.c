/* SPDX-License-Identifier: MIT */
/* nodes.jsonl as a report reads it: good lines, bad ones, one that is being written, a file that
 * has grown large; and the columns that the page gets. */
#include "unit/record/helpers.h"

#include <math.h>
#include <sys/stat.h>

#include <jansson.h>

#include "record/nodes.h"

static const char path[] = "room/nodes.jsonl";

static void put(const char *text) { put_bytes(path, text, (int64_t)strlen(text)); }

static wefti_nodes read_nodes(void) {
    wefti_nodes nodes;
    assert_ok(ctx, wefti_nodes_read(ctx, path, &nodes));
    return nodes;
}

static json_t *put_and_parse(int64_t most) {
    wefti_nodes nodes = read_nodes();
    wefti_buffer out = {0};
    wefti_nodes_put(ctx, &out, &nodes, most);
    assert_int_equal(out.status, WEFT_OK);
    json_t *list = json_loads(out.bytes, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_array(list));
    wefti_buffer_fini(ctx, &out);
    wefti_nodes_fini(ctx, &nodes);
    return list;
}

static double at(const json_t *list, size_t node, const char *column, size_t i) {
    return json_number_value(
        json_array_get(json_object_get(json_array_get(list, node), column), i));
}

TEST_IN(setup, teardown, lines_are_read_in_their_order) {
    put("{\"step\":5,\"elapsed_s\":1.5,\"node\":0,\"host\":\"a\",\"ranks\":2,\"cores\":4,"
        "\"pass_rows\":8,\"recomputes\":1,"
        "\"cpu_cores\":1.5,\"busy_share\":0.5,\"memory_bytes\":1e9,\"rank_bytes\":4e8,"
        "\"net_out\":10,\"net_in\":20,\"wire_out\":5,\"wire_in\":6}\n"
        "{\"step\":5,\"node\":1,\"net_out\":null}\n");
    wefti_nodes nodes = read_nodes();
    assert_int_equal(nodes.n, 2);
    assert_string_equal(nodes.lines[0].host, "a");
    assert_int_equal(nodes.lines[0].ranks, 2);
    assert_int_equal(nodes.lines[0].cores, 4);
    assert_int_equal(nodes.lines[0].pass_rows, 8);
    assert_int_equal(nodes.lines[0].recomputes, 1);
    assert_int_equal(nodes.lines[1].pass_rows, 0);
    assert_true(nodes.lines[0].cpu_cores == 1.5 && nodes.lines[0].wire_in == 6);
    assert_true(nodes.lines[0].memory_bytes == 1e9 && nodes.lines[0].rank_bytes == 4e8);
    assert_true(isnan(nodes.lines[1].net_out) && isnan(nodes.lines[1].cpu_cores));
    wefti_nodes_fini(ctx, &nodes);
    remove(path);
    nodes = read_nodes();
    assert_int_equal(nodes.n, 0); /* a run of before */
}

TEST_IN(setup, teardown, damage_and_a_line_under_way_are_left_out) {
    put("{\"step\":1,\"node\":0,\"cpu_cores\":1e400}\nnonsense\n[1]\n"
        "{\"step\":-1,\"node\":0}\n{\"step\":1,\"node\":1e9}\n{\"node\":0}\n"
        "{\"step\":2,\"node\":0,\"cpu_cores\":-3,\"ranks\":1e300,\"host\":7}\n"
        "{\"step\":3,\"node\":0}");
    wefti_nodes nodes = read_nodes();
    assert_int_equal(nodes.n, 1);
    assert_int_equal(nodes.lines[0].step, 2);
    assert_true(isnan(nodes.lines[0].cpu_cores));
    assert_string_equal(nodes.lines[0].host, "");
    assert_int_equal(nodes.lines[0].ranks, 0);
    wefti_nodes_fini(ctx, &nodes);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_fails(ctx, wefti_nodes_read(ctx, path, &nodes), WEFT_ERR_FILE, "regular file");
}

TEST_IN(setup, teardown, of_a_large_file_the_end_counts) {
    char line[128];
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 100000; i++) {
        snprintf(line, sizeof line, "{\"step\":%d,\"node\":%d,\"host\":\"%070d\"}\n",
                 i / 2 + 1, i % 2, i);
        fputs(line, file);
    }
    fclose(file);
    wefti_nodes nodes = read_nodes();
    assert_true(nodes.n > 50000 && nodes.n < 90000); /* 8 of 10.8 MB, and no warning */
    assert_int_equal(nodes.lines[nodes.n - 1].step, 50000);
    wefti_nodes_fini(ctx, &nodes);
}

TEST_IN(setup, teardown, columns_are_thinned_and_keep_the_newest) {
    wefti_buffer text = {0};
    for (int i = 1; i <= 1000; i++)
        for (int node = 0; node < 2; node++)
            wefti_buffer_print(ctx, &text,
                               "{\"step\":%d,\"node\":%d,\"cpu_cores\":%d,\"cores\":2}\n",
                               i, node, 10 * node + i % 3);
    put_bytes(path, text.bytes, text.n);
    wefti_buffer_fini(ctx, &text);
    json_t *list = put_and_parse(100);
    assert_int_equal(json_array_size(list), 2);
    size_t n = json_array_size(json_object_get(json_array_get(list, 1), "step"));
    assert_true(n > 50 && n <= 100);
    assert_true(at(list, 1, "step", n - 1) == 1000 &&
                at(list, 1, "cpu_cores", n - 1) == 11);
    assert_true(at(list, 0, "cpu_cores", n - 1) == 1);
    json_decref(list);
}

TEST_IN(setup, teardown, nodes_that_left_are_not_shown) {
    put("{\"step\":1,\"node\":0,\"host\":\"<\\\"\"}\n{\"step\":1,\"node\":1}\n"
        "{\"step\":2,\"node\":0,\"host\":\"<\\\"\"}\n");
    json_t *list = put_and_parse(10);
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(list, 0), "host")), "<\"");
    assert_true(at(list, 0, "step", 1) == 2);
    json_decref(list);
    put("{\"step\":1,\"node\":1}\n"); /* no line of node 0 at all */
    list = put_and_parse(10);
    assert_int_equal(json_array_size(list), 1);
    json_decref(list);
}

static weft_status read_once(void *user) {
    wefti_nodes nodes;
    (void)user;
    WEFT_TRY(wefti_nodes_read(ctx, path, &nodes));
    wefti_nodes_fini(ctx, &nodes);
    return WEFT_OK;
}

TEST_IN(setup, teardown, every_allocation_failure_is_clean) {
    put("{\"step\":1,\"node\":0}\n");
    assert_true(fail_each_allocation(ctx, NULL, read_once, NULL) >= 2);
}
