/* SPDX-License-Identifier: MIT */
/* The text format, line by line; names that need escapes; what a reader finds while the file
 * is written again and again. */
#include "unit/record/helpers.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/prometheus.h"

static char *text_of(const char *run, const wefti_gauge *gauges, int n,
                     wefti_buffer *out) {
    wefti_prometheus_put(ctx, out, run, gauges, n);
    assert_int_equal(out->status, WEFT_OK);
    return out->bytes;
}

TEST_IN(setup, teardown, lines_are_those_of_the_format) {
    static const wefti_gauge gauges[] = {
        {"weft_loss", "nats per token", false, 3.25, NULL},
        {"weft_bytes_total", "bytes", true, 12, NULL},
        {"weft_node_cpu", "cores", false, 1.5, "0"},
        {"weft_node_cpu", "cores", false, 2, "1"},
    };
    wefti_buffer out = {0};
    assert_string_equal(text_of("a", gauges, 4, &out),
                        "# HELP weft_loss nats per token\n"
                        "# TYPE weft_loss gauge\n"
                        "weft_loss{run=\"a\"} 3.25\n"
                        "# HELP weft_bytes_total bytes\n"
                        "# TYPE weft_bytes_total counter\n"
                        "weft_bytes_total{run=\"a\"} 12\n"
                        "# HELP weft_node_cpu cores\n"
                        "# TYPE weft_node_cpu gauge\n"
                        "weft_node_cpu{run=\"a\",node=\"0\"} 1.5\n"
                        "weft_node_cpu{run=\"a\",node=\"1\"} 2\n");
    wefti_buffer_fini(ctx, &out);
}

TEST_IN(setup, teardown, what_nobody_knows_has_no_line) {
    const wefti_gauge gauges[] = {{"a", "x", false, (double)NAN, NULL},
                                  {"b", "x", false, (double)INFINITY, NULL},
                                  {"c", "x", false, -(double)INFINITY, NULL}};
    wefti_buffer out = {0};
    assert_string_equal(text_of("r", gauges, 3, &out),
                        "# HELP b x\n# TYPE b gauge\nb{run=\"r\"} +Inf\n"
                        "# HELP c x\n# TYPE c gauge\nc{run=\"r\"} -Inf\n");
    wefti_buffer_fini(ctx, &out);
}

TEST_IN(setup, teardown, names_are_escaped) {
    const wefti_gauge gauge = {"a", "x", false, 1, "n\"\\"};
    wefti_buffer out = {0};
    assert_non_null(strstr(text_of("a\"b\\c\nd", &gauge, 1, &out),
                           "a{run=\"a\\\"b\\\\c\\nd\",node=\"n\\\"\\\\\"} 1\n"));
    wefti_buffer_fini(ctx, &out);
}

static int files_in(const char *folder) {
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Who has the old file open reads the old one to its end. */
TEST_IN(setup, teardown, a_reader_sees_one_whole_file) {
    wefti_buffer old = {0}, new = {0};
    char read_back[16] = "";
    wefti_buffer_text(ctx, &old, "old 1\n");
    wefti_buffer_text(ctx, &new, "new\n");
    assert_ok(ctx, wefti_prometheus_write(ctx, "room/x.prom", &old));
    FILE *reader = fopen("room/x.prom", "r");
    assert_non_null(reader);
    assert_ok(ctx, wefti_prometheus_write(ctx, "room/x.prom", &new));
    assert_non_null(fgets(read_back, sizeof read_back, reader));
    assert_string_equal(read_back, "old 1\n");
    fclose(reader);
    int64_t n;
    char *text = read_text(ctx, "room/x.prom", &n);
    assert_int_equal(n, 4);
    assert_memory_equal(text, "new\n", 4);
    wefti_free(ctx, text);
    assert_int_equal(files_in("room"), 1); /* nothing is left aside */
    assert_fails(ctx, wefti_prometheus_write(ctx, "room/none/x.prom", &new),
                 WEFT_ERR_FILE, "could not write room/none/x.prom: No such file");
    assert_int_equal(mkdir("room/folder", 0777), 0);
    assert_fails(ctx, wefti_prometheus_write(ctx, "room/folder", &new), WEFT_ERR_FILE,
                 "could not write room/folder");
    assert_int_equal(files_in("room"), 2);
    wefti_buffer_fini(ctx, &old);
    wefti_buffer_fini(ctx, &new);
}
