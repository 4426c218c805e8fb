/* SPDX-License-Identifier: MIT */
/* Many ranks as threads, which post (comm/posts.h): each replicator has the bits and bytes that it
 * has by messages to each, as which a wire of a nanosecond makes them go. */
#include "replicas.h"

enum { FEW = 65, MANY = 130 };

static trial posted[MANY], sent[MANY];

static void compare(const wefti_replicator_config *config, int R, int learners) {
    static trial like;
    like.config = *config;
    like.learners = learners;
    like.until = 2;
    like.kernels = wefti_kernels_find(NULL);
    run_alike(posted, R, &like);
    run_alike_on(sent, R, &like, (wefti_wire_model){0, 1e-9});
    for (int r = 0; r < R; r++) {
        assert_int_equal(posted[r].bytes_out, sent[r].bytes_out);
        if (!learners) assert_int_equal(posted[r].bytes_out, posted[r].bytes_predicted);
        assert_int_equal(posted[r].allocated, 0);
        assert_memory_equal(posted[r].direction, sent[r].direction,
                            sizeof sent[r].direction);
        assert_memory_equal(posted[r].kept, sent[r].kept, sizeof sent[r].kept);
        for (int step = 0; step < STEPS && posted[r].due[step]; step++)
            assert_memory_equal(posted[r].direction[step], posted[0].direction[step],
                                sizeof posted[0].direction[step]);
    }
    assert_true(posted[0].bytes_out > 0);
}

TEST(posting_changes_no_bit_of_any_replicator) {
    for (int i = 0; wefti_replicator_registry[i]; i++) {
        const char *kind = wefti_replicator_registry[i]->name;
        if (strcmp(kind, "none") == 0) continue;
        wefti_replicator_config config = knobs(kind, 1 + i % 2, 4, true);
        config.values = i % 2 ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32;
        config.route = WEFTI_ROUTE_OWNER;
        compare(&config, FEW, 0);
        config.route = WEFTI_ROUTE_GATHER;
        if (strcmp(kind, "demo") == 0) compare(&config, FEW, 0);
        if (wefti_replicator_registry[i]->robust) {
            config.robust = WEFTI_ROBUST_TRIM;
            compare(&config, FEW, 0);
        }
    }
}

TEST(nor_do_twice_as_many_ranks) {
    wefti_replicator_config config = knobs("full", 1, 4, false);
    compare(&config, MANY, MANY / 4);
    config = knobs("demo", 1, 4, true);
    config.route = WEFTI_ROUTE_OWNER;
    compare(&config, MANY, MANY / 4);
}
