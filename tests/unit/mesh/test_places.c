/* SPDX-License-Identifier: MIT */
/* Which rank runs where, and how many run on one machine. */
#include "check.h"
#include "mesh/mesh.h"

enum { SIZE = 5 };

static const char *hosts[SIZE];

/* Numbers the ranks for process `self`; entry: it joins a run, NULL: it begins one. */
static weft_mesh_facts facts_of(int self, const weft_transport_entry *entry) {
    static weft_mesh mesh;
    static wefti_peer peers[SIZE];
    static int rank_of[SIZE], peer_of[SIZE];
    weft_transport t = {
        .ops = &mesh.ops, .entry = entry, .rank = self, .size = SIZE, .host = hosts};
    memset(peers, 0, sizeof peers);
    mesh = (weft_mesh){.transport = &t,
                       .peers = peers,
                       .places.rank_of = rank_of,
                       .places.peer_of = peer_of};
    wefti_mesh_number_ranks(&mesh);
    return *weft_mesh_look(&mesh);
}

TEST(ranks_of_a_machine_are_counted_there) {
    static const char *const uneven[SIZE] = {"a", "b", "a", "b", "b"};
    static const int rank_of[SIZE] = {0, 2, 1, 3, 4}, here[SIZE] = {2, 3, 2, 3, 3};
    memcpy(hosts, uneven, sizeof hosts);
    for (int p = 0; p < SIZE; p++) {
        weft_mesh_facts f = facts_of(p, NULL);
        assert_int_equal(f.rank, rank_of[p]);
        assert_int_equal(f.ranks_here, here[p]);
        assert_int_equal(f.hosts, 2);
        assert_false(f.even);
    }
}

/* Who joins counts itself, and those of its machine that are there; the ranks of its own copy of
 * the model will be. */
TEST(who_joins_counts_who_is_on_its_machine) {
    static const char *const names[SIZE] = {"a", "b", "b", "b", "b"};
    static const struct {
        uint64_t names[SIZE];
        int group, here;
    } cases[] = {
        {{7, 8, 0, 9, 0}, 1, 3},  /* a place that is free is nobody */
        {{7, 0, 0, 0, 0}, 1, 1},  /* nor is another machine */
        {{7, 0, 0, 0, 11}, 1, 1}, /* nor this process twice */
        {{7, 0, 0, 0, 0}, 2, 2},  {{7, 8, 0, 9, 0}, 2, 3},
    };
    static const int rank_of[SIZE] = {0, 2, 1, 3, 4};
    memcpy(hosts, names, sizeof hosts);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        weft_transport_entry entry = {
            .group = cases[k].group, .rank_of = rank_of, .names = cases[k].names};
        weft_mesh_facts f = facts_of(4, &entry);
        assert_int_equal(f.rank, 4);
        assert_int_equal(f.ranks_here, cases[k].here);
    }
}
