/* SPDX-License-Identifier: MIT */
/* cluster.yaml: what is written reads back to the same bits, and what cannot be is
 * refused in a sentence with its line. */
#include <math.h>

#include "check.h"

#include <weft/cluster.h>
#include <weft/topology.h>

#include "cluster/facts.h"

static weft_ctx *ctx;
static const char path[] = "cluster.yaml";

static int set_up(void **state) { return weft_ctx_create(&ctx) == WEFT_OK ? 0 : -1; }

static int tear_down(void **state) {
    weft_ctx_destroy(ctx);
    return 0;
}

/* A number that tests whether all bits come back. */
static double odd(int i) { return 1.0 / (3 + i) * pow(10, i % 7 - 6); }

static void fill_numbers(const wefti_fact *facts, int n, void *item, int seed) {
    for (int i = 0; i < n; i++) {
        char *at = (char *)item + facts[i].offset;
        double value = odd(seed + i);
        int64_t whole = 1 + i % 2;
        if (value < facts[i].low) value = facts[i].low;
        if (facts[i].type == WEFTI_FACT_TEXT)
            snprintf(at, facts[i].room, "it's \"%d\": #%d, \xc3\xa4", seed, i);
        else if (facts[i].type == WEFTI_FACT_INT)
            memcpy(at, &whole, sizeof whole);
        else
            memcpy(at, &value, sizeof value);
    }
}

/* Every fact there is. */
static weft_cluster *make_full(void) {
    weft_cluster *c;
    assert_int_equal(weft_cluster_create(ctx, &c), WEFT_OK);
    for (const wefti_fact_section *s = wefti_fact_sections; s->name; s++) {
        char *item = (char *)c + s->offset;
        int n = s->list == WEFT_CLUSTER_LISTS ? 1 : 3;
        size_t size = 0;
        if (n > 1) {
            assert_int_equal(weft_cluster_resize(ctx, c, s->list, n), WEFT_OK);
            wefti_fact_items items = wefti_facts_of(c, s->list);
            item = *items.items;
            size = items.size;
        }
        for (int i = 0; i < n; i++, item += size)
            fill_numbers(s->facts, s->n_facts, item, 10 * i + (int)s->offset % 7);
    }
    c->nodes = 4;
    c->sites = 2;
    for (int i = 0; i < 3; i++) c->pairs[i] = (weft_link_pair){i, i + 1, 1e6 / 3, odd(i)};
    for (int i = 0; i < 3; i++) c->machines[i].node = i;
    return c;
}

static void assert_same(weft_cluster *a, weft_cluster *b) {
    for (const wefti_fact_section *s = wefti_fact_sections; s->name; s++) {
        const char *x = (char *)a + s->offset, *y = (char *)b + s->offset;
        int64_t n = 1;
        size_t size = 0;
        if (s->list != WEFT_CLUSTER_LISTS) {
            wefti_fact_items of_a = wefti_facts_of(a, s->list),
                             of_b = wefti_facts_of(b, s->list);
            n = *of_a.n;
            assert_int_equal(n, *of_b.n);
            x = *of_a.items;
            y = *of_b.items;
            size = of_a.size;
        }
        for (int64_t i = 0; i < n; i++, x += size, y += size) {
            for (int k = 0; k < s->n_facts; k++) {
                const wefti_fact *f = &s->facts[k];
                if (f->type == WEFTI_FACT_TEXT)
                    assert_string_equal(x + f->offset, y + f->offset);
                else
                    assert_memory_equal(x + f->offset, y + f->offset, 8);
            }
        }
    }
}

TEST(what_is_written_reads_back) {
    weft_cluster *c = make_full(), *again;
    assert_int_equal(weft_cluster_write(ctx, c, path), WEFT_OK);
    assert_int_equal(weft_cluster_load(ctx, path, &again), WEFT_OK);
    assert_same(c, again);
    weft_cluster_destroy(ctx, c);
    weft_cluster_destroy(ctx, again);
}

TEST(an_empty_cluster_reads_back) {
    weft_cluster *c, *again;
    assert_int_equal(weft_cluster_create(ctx, &c), WEFT_OK);
    assert_int_equal(weft_cluster_write(ctx, c, path), WEFT_OK);
    assert_int_equal(weft_cluster_load(ctx, path, &again), WEFT_OK);
    assert_same(c, again);
    assert_int_equal(again->nodes, 1);
    weft_cluster_destroy(ctx, c);
    weft_cluster_destroy(ctx, again);
}

TEST(its_links_are_a_list_of_links) {
    weft_cluster *c = make_full();
    weft_links links = {.struct_size = sizeof links};
    assert_int_equal(weft_cluster_write(ctx, c, path), WEFT_OK);
    assert_int_equal(weft_links_load(ctx, path, &links), WEFT_OK);
    assert_int_equal(links.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(links.items[i].to, i + 1);
        assert_true(links.items[i].latency_s == odd(i));
        assert_true(links.items[i].bandwidth_Bps == 1e6 / 3);
    }
    weft_free(ctx, links.items);
    weft_cluster_destroy(ctx, c);
}

static void write_text(const char *text) {
    FILE *file = fopen("bad.yaml", "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

TEST(bad_files_are_refused_with_their_line) {
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", "bad.yaml:1: the file is empty"},
        {"- 1\n", "bad.yaml:1: found a single value or list"},
        {"nodes: 0\n", "bad.yaml:1: nodes is '0', expected a whole number from 1"},
        {"nodes: 2.5\n", "bad.yaml:1: nodes is '2.5'"},
        {"nodes: 4\n\nnode: 5\n", "bad.yaml:3: unknown key 'node' (did you mean 'nodes'"},
        {"nodes: 4\nnodes: 4\n", "bad.yaml:2: 'nodes' is given twice, first in line 1"},
        {"nodes: [4]\n", "bad.yaml:1: nodes is a list or mapping"},
        {"nodes: 3\nsites: 2\n", "bad.yaml:2: 3 nodes in 2 sites"},
        {"wire: 5\n", "bad.yaml:1: wire: expected key: value"},
        {"wire: {bandwidth: 5}\n", "bad.yaml:1: bandwidth is '5', expected a rate"},
        {"wire: {bandwidth: -1Mbit}\n", "bandwidth is '-1Mbit'"},
        {"wire: {bandwidth: nan}\n", "bandwidth is 'nan'"},
        {"wire: {latency: 1}\n", "latency is '1', expected a time"},
        {"wire: {latency: 2h}\n", "latency is '2h', expected a time"},
        {"wire:\n  latencie: 1ms\n", "bad.yaml:2: unknown key of wire 'latencie' (did "
                                     "you mean 'latency'"},
        {"wire: {latency: 1ms, latency: 1ms}\n", "latency is given twice"},
        {"jitter: {stall_share: 1.5}\n", "stall_share is '1.5'"},
        {"units: {name: block}\n", "units is not a list"},
        {"units:\n  - {name: block, forward: 1ms}\n", "bad.yaml:2: units: an entry "
                                                      "without backward"},
        {"links: [{from: 0, to: 0, latency: 1ms, bandwidth: 1Mbit}]\n",
         "bad.yaml:1: a link from node 0 to node 0"},
        {"nodes: 2\nlinks:\n- {from: 0, to: 2, latency: 1ms, bandwidth: 1Mbit}\n",
         "bad.yaml:2: a link from node 0 to node 2"},
        {"steps: [1s, soon]\n", "bad.yaml:1: steps is 'soon'"},
        {"source: \"a\\tb\"\n", "source is"},
        {"nodes: &a 4\n", "bad.yaml:1: anchors"},
        {"nodes: 4\n---\nnodes: 4\n", "a second document"},
        {"units: [\n", "not valid YAML"},
        {"memory: 1e30B\n", "memory is '1e30B'"},
        {"memory: 1e999B\n", "memory is '1e999B'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_cluster *c;
        weft_ctx_clear(ctx);
        write_text(cases[i].text);
        assert_int_equal(weft_cluster_load(ctx, "bad.yaml", &c), WEFT_ERR_FORMAT);
        assert_null(c);
        if (!strstr(weft_ctx_message(ctx), cases[i].sentence))
            fail_msg("%s: '%s' does not say '%s'", cases[i].text, weft_ctx_message(ctx),
                     cases[i].sentence);
    }
    weft_cluster *c;
    assert_int_equal(weft_cluster_load(ctx, "none.yaml", &c), WEFT_ERR_FILE);
}

/* Every prefix of a good file is good or refused: no crash, no endless loop. */
TEST(no_part_of_a_file_does_harm) {
    static char text[65536];
    weft_cluster *c = make_full();
    assert_int_equal(weft_cluster_write(ctx, c, path), WEFT_OK);
    weft_cluster_destroy(ctx, c);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    assert_int_equal(fclose(file), 0);
    assert_in_range(n, 1000, sizeof text - 2);
    int good = 0;
    for (size_t cut = 0; cut < n; cut += 37) {
        char kept = text[cut];
        text[cut] = '\0';
        write_text(text);
        text[cut] = kept;
        weft_status status = weft_cluster_load(ctx, "bad.yaml", &c);
        assert_true(status == WEFT_OK || status == WEFT_ERR_FORMAT);
        good += status == WEFT_OK;
        weft_cluster_destroy(ctx, c);
    }
    assert_in_range(good, 1, n);
}

TEST(what_cannot_be_read_is_not_written) {
    weft_cluster *c;
    assert_int_equal(weft_cluster_create(ctx, &c), WEFT_OK);
    c->wire.latency_s = (double)NAN;
    assert_int_equal(weft_cluster_write(ctx, c, "nan.yaml"), WEFT_ERR_ARGUMENT);
    c->wire.latency_s = -1;
    assert_int_equal(weft_cluster_write(ctx, c, "nan.yaml"), WEFT_ERR_ARGUMENT);
    c->wire.latency_s = 0;
    c->nodes = 0;
    assert_int_equal(weft_cluster_write(ctx, c, "nan.yaml"), WEFT_ERR_ARGUMENT);
    c->nodes = 1;
    memset(c->host, 'x', sizeof c->host);
    assert_int_equal(weft_cluster_write(ctx, c, "nan.yaml"), WEFT_ERR_ARGUMENT);
    assert_null(fopen("nan.yaml", "r"));
    weft_cluster_destroy(ctx, c);
}

/* Each allocation fails once, while writing and while reading. */
TEST(without_memory_it_is_an_error) {
    weft_cluster *c = make_full(), *again = NULL;
    int64_t held = weft_ctx_bytes_held(ctx);
    weft_status status = WEFT_ERR_MEMORY;
    for (int64_t k = 0; status != WEFT_OK; k++) {
        weft_ctx_clear(ctx);
        weft_ctx_fail_allocation(ctx, k);
        status = weft_cluster_write(ctx, c, path);
        if (status == WEFT_OK) status = weft_cluster_load(ctx, path, &again);
        assert_true(status == WEFT_OK || status == WEFT_ERR_MEMORY);
        if (status != WEFT_OK) assert_int_equal(weft_ctx_bytes_held(ctx), held);
        assert_in_range(k, 0, 1000);
    }
    weft_ctx_fail_allocation(ctx, -1);
    assert_same(c, again);
    weft_cluster_destroy(ctx, c);
    weft_cluster_destroy(ctx, again);
}

TEST(facts_are_set_by_hand) {
    static const char *const typed[][2] = {
        {"nodes", "8"},           {"node-flops", "80T"},
        {"ranks-per-node", "4"},  {"link", "25Gbit,20us"},
        {"node-link", "100GBps"}, {"jitter", "5%"},
        {"stall", "1%,2s"},       {"node-memory", "64GB"},
        {"sites", "2"},           {"site-link", "1Gbit,10ms"},
        {"drift", "0.02"},        {"memory-bandwidth", "20GB/s"},
        {"up", "8Mbit"},          {"loss", "0.1%"},
        {"wire-jitter", "5ms"}};
    weft_cluster *c;
    assert_int_equal(weft_cluster_create(ctx, &c), WEFT_OK);
    for (size_t i = 0; i < sizeof typed / sizeof typed[0]; i++)
        assert_int_equal(weft_cluster_set(ctx, c, typed[i][0], typed[i][1]), WEFT_OK);
    assert_int_equal(c->nodes, 8);
    assert_int_equal(c->ranks_per_node, 4);
    assert_true(c->rank_flops == 20e12);
    assert_true(c->memory_bytes == 16e9);
    assert_true(c->wire.bandwidth_Bps == 3.125e9 && c->wire.latency_s == 20 * 1e-6);
    assert_true(c->local.bandwidth_Bps == 100e9);
    assert_true(c->jitter.spread == 0.05 && c->jitter.drift == 0.02);
    assert_true(c->jitter.stall_share == 0.01 && c->jitter.stall_s == 2);
    assert_true(c->memory_Bps == 20e9);
    assert_true(c->wire.up_Bps == 1e6 && c->wire.loss == 0.001);
    assert_true(c->wire.jitter_s == 5 * 1e-3);
    weft_cluster_destroy(ctx, c);
}

/* What is said of a machine has to be of one that is there, once, and of something that is
 * known of the others. */
TEST(bad_machines_are_refused) {
    static const char *const files[][2] = {
        {"nodes: 2\nmachines:\n  - {node: 2}\n", "machine of node 2, expected"},
        {"nodes: 2\nmachines:\n  - {node: 1}\n  - {node: 1}\n", "for the second time"},
        {"nodes: 2\nmachines:\n  - {node: 1, rank_flops: 1G}\n", "expected rank_flops"},
        {"machines:\n  - {rank_flops: 1G}\n", "an entry without node"},
        {"machines:\n  - {node: -1}\n", "node is '-1'"},
        {"machines:\n  - {node: 0, up: 5}\n", "up is '5'"},
        {"rank_flops: 1G\nmachines:\n  - {node: 0, rank_flops: 0}\n",
         "rank_flops is '0'"},
        {"machines:\n  - {node: 0, bandwidth: 0Mbit}\n", "bandwidth is '0Mbit'"},
        {"machines:\n  - {node: 0, uplink: 5Mbit}\n", "unknown key of machines 'uplink'"},
        {"machines: {node: 0}\n", "machines is not a list"},
        {"wire: {loss: 95%}\n", "loss is '95%'"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        weft_cluster *c;
        weft_ctx_clear(ctx);
        FILE *file = fopen("bad.yaml", "w");
        assert_non_null(file);
        assert_true(fputs(files[i][0], file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_not_equal(weft_cluster_load(ctx, "bad.yaml", &c), WEFT_OK);
        if (!strstr(weft_ctx_message(ctx), files[i][1]))
            fail_msg("'%s' does not say '%s'", weft_ctx_message(ctx), files[i][1]);
    }
}

TEST(bad_facts_are_refused) {
    static const char *const typed[][3] = {
        {"nodes", "0", "nodes is '0'"},         {"nodes", "x", "nodes is 'x'"},
        {"node", "8", "did you mean 'nodes'"},  {"link", "25Gbit,20", "link is"},
        {"link", "fast", "link is 'fast'"},     {"stall", "1%", "stall is '1%'"},
        {"stall", "200%,1s", "stall is"},       {"jitter", "-1%", "jitter is '-1%'"},
        {"node-flops", "", "node-flops is ''"}, {"link", "0bit,1ms", "link is"},
        {"loss", "91%", "loss is '91%'"},       {"up", "20", "up is '20'"},
        {"wire-jitter", "5", "wire-jitter is"}};
    weft_cluster *c;
    assert_int_equal(weft_cluster_create(ctx, &c), WEFT_OK);
    for (size_t i = 0; i < sizeof typed / sizeof typed[0]; i++) {
        weft_ctx_clear(ctx);
        assert_int_equal(weft_cluster_set(ctx, c, typed[i][0], typed[i][1]),
                         WEFT_ERR_CONFIG);
        assert_non_null(strstr(weft_ctx_message(ctx), typed[i][2]));
    }
    weft_cluster_destroy(ctx, c);
}

/* Without reading the header's fields, as a caller in another language asks. */
TEST(it_says_how_many_nodes) {
    weft_cluster *c, *again;
    assert_int_equal(weft_cluster_create(ctx, &c), WEFT_OK);
    assert_int_equal(weft_cluster_nodes(c), 1);
    assert_int_equal(weft_cluster_set(ctx, c, "nodes", "7"), WEFT_OK);
    assert_int_equal(weft_cluster_nodes(c), 7);
    assert_int_equal(weft_cluster_write(ctx, c, path), WEFT_OK);
    assert_int_equal(weft_cluster_load(ctx, path, &again), WEFT_OK);
    assert_int_equal(weft_cluster_nodes(again), 7);
    weft_cluster_destroy(ctx, again);
    weft_cluster_destroy(ctx, c);
}

int main(void) { return check_run(set_up, tear_down); }
