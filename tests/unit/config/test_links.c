/* SPDX-License-Identifier: MIT */
#include "config_helpers.h"

#include <weft/topology.h>

static weft_status load(fixture *f, const char *yaml, weft_links *out) {
    write_file("links.yaml", yaml, strlen(yaml));
    return weft_links_load(f->ctx, "links.yaml", out);
}

TEST_IN(setup, teardown, links_are_read_and_other_sections_left_alone) {
    fixture *f = *state;
    weft_links links = {.struct_size = sizeof links};
    assert_ok(f->ctx,
              load(f,
                   "nodes:\n  - {name: a, at: [1, {x: y}]}\nlinks:\n"
                   "  - {from: 0, to: 1, latency: 10ms, bandwidth: 100Mbit}\n"
                   "  - to: 0\n    from: 12\n    bandwidth: 2 MB/s\n    latency: 0\n"
                   "later: &a [*b]\n",
                   &links));
    assert_int_equal(links.n, 2);
    assert_int_equal(links.items[0].to, 1);
    assert_true(links.items[0].latency_s == 0.01);
    assert_true(links.items[0].bandwidth_Bps == 12.5e6);
    assert_int_equal(links.items[1].from, 12);
    assert_int_equal(links.items[1].to, 0);
    assert_true(links.items[1].bandwidth_Bps == 2e6 && links.items[1].latency_s == 0);
    weft_free(f->ctx, links.items);
}

TEST_IN(setup, teardown, many_links_are_all_kept) {
    fixture *f = *state;
    char yaml[8192] = "links:\n";
    size_t n = strlen(yaml);
    weft_links links = {.struct_size = sizeof links};
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(yaml + n, sizeof yaml - n,
                              "- {from: %d, to: %d, latency: 1ms, bandwidth: 1Gbit}\n", i,
                              i + 1);
    assert_ok(f->ctx, load(f, yaml, &links));
    assert_int_equal(links.n, 100);
    for (int i = 0; i < 100; i++) assert_int_equal(links.items[i].from, i);
    weft_free(f->ctx, links.items);
}

TEST_IN(setup, teardown, broken_files_are_refused_with_their_line) {
    fixture *f = *state;
    static const char *const cases[][2] = {
        {"", "links.yaml has no links, expected a list 'links:'"},
        {"link: []\n", "links.yaml has no links, expected a list 'links:'"},
        {"links: []\n", "links.yaml has no links, expected a list 'links:'"},
        {"- 1\n", "links.yaml:1: found a single value or list, expected sections"},
        {"\nlinks: {a: b}\n",
         "links.yaml:2: links is not a list, expected one link in each line after '-'"},
        {"links:\n- 7\n",
         "links.yaml:2: a link is a single value or list, expected {from: 0, to: 1, "
         "latency: 10ms, bandwidth: 100Mbit}"},
        {"links:\n- {from: 0, to: 1, latency: 1ms}\n",
         "links.yaml:2: a link without bandwidth, expected from, to, latency and "
         "bandwidth"},
        {"links:\n- from: 0\n  too: 1\n",
         "links.yaml:3: a link has no 'too' (did you mean 'to'?), expected from, to, "
         "latency and bandwidth"},
        {"links:\n- from: 0\n  from: 1\n",
         "links.yaml:3: from is given twice in one link"},
        {"links:\n- from: -1\n",
         "links.yaml:2: from is '-1', expected the number of a node: 0, 1, ..."},
        {"links:\n- to: 65536\n",
         "links.yaml:2: to is '65536', expected the number of a node: 0, 1, ..."},
        {"links:\n- to: [1]\n", "links.yaml:2: to is not a plain value"},
        {"links:\n- [1]: 2\n",
         "links.yaml:2: found a list or mapping, expected a field's name"},
        {"links:\n- from: \"1\\0\"\n", "links.yaml:2: a value contains a zero byte"},
        {"links:\n- latency: 10\n",
         "links.yaml:2: latency is '10', expected a time such as 10ms"},
        {"links:\n- latency: -1ms\n",
         "links.yaml:2: latency is '-1ms', expected a time such as 10ms"},
        {"links:\n- bandwidth: 0Mbit\n",
         "links.yaml:2: bandwidth is '0Mbit', expected a rate such as 100Mbit"},
        {"links:\n- {from: 1, to: 1, latency: 0, bandwidth: 1Mbit}\n",
         "links.yaml:2: a link goes from node 1 to itself"},
        {"links:\n- {from: 0, to: 1, latency: 0, bandwidth: 1Mbit}\nlinks: []\n",
         "links.yaml:3: 'links' is given twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_links links = {.struct_size = sizeof links};
        assert_refused(f, load(f, cases[i][0], &links), WEFT_ERR_FORMAT, cases[i][1]);
        assert_null(links.items);
    }
}

TEST_IN(setup, teardown, bytes_that_are_not_yaml_are_refused) {
    fixture *f = *state;
    weft_links links = {.struct_size = sizeof links};
    assert_int_equal(load(f, "links: [\n", &links), WEFT_ERR_FORMAT);
    assert_non_null(strstr(weft_ctx_message(f->ctx), "links.yaml:"));
    assert_non_null(strstr(weft_ctx_message(f->ctx), ": not valid YAML: "));
    weft_ctx_clear(f->ctx);
    assert_int_equal(weft_links_load(f->ctx, "nowhere.yaml", &links), WEFT_ERR_FILE);
    weft_ctx_clear(f->ctx);
}

TEST_IN(setup, teardown, every_failing_allocation_is_a_clean_error) {
    fixture *f = *state;
    weft_links links = {.struct_size = sizeof links};
    int64_t held = weft_ctx_bytes_held(f->ctx), k = 0;
    for (;; k++) {
        weft_ctx_fail_allocation(f->ctx, k);
        weft_status status = load(
            f, "links: [{from: 0, to: 1, latency: 0, bandwidth: 1Mbit}]\n", &links);
        weft_ctx_fail_allocation(f->ctx, -1);
        if (status == WEFT_OK) break;
        assert_int_equal(status, WEFT_ERR_MEMORY);
        assert_int_equal(weft_ctx_bytes_held(f->ctx), held);
        weft_ctx_clear(f->ctx);
    }
    weft_free(f->ctx, links.items);
    assert_int_equal(k, 2);
}

/* Any byte of a good file may be another one: read or refused, nothing else. */
TEST_IN(setup, teardown, changed_bytes_never_harm) {
    fixture *f = *state;
    static const char good[] = "a: [{b: c}]\nlinks:\n- {from: 0, to: 1, latency: 10ms, "
                               "bandwidth: 100Mbit}\n- {to: 2, from: 1, latency: 0, "
                               "bandwidth: 1Gbit}\n";
    for (size_t at = 0; at + 1 < sizeof good; at++) {
        char bytes[sizeof good];
        weft_links links = {.struct_size = sizeof links};
        memcpy(bytes, good, sizeof good);
        bytes[at] = (char)(bytes[at] ^ (1 << at % 8));
        write_file("links.yaml", bytes, sizeof good - 1);
        weft_status status = weft_links_load(f->ctx, "links.yaml", &links);
        assert_true(status == WEFT_OK || status == WEFT_ERR_FORMAT);
        assert_true((status == WEFT_OK) == (links.n > 0));
        weft_free(f->ctx, links.items);
        weft_ctx_clear(f->ctx);
    }
}
