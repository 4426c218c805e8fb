/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include "token/strmap.h"

TEST_IN(with_ctx, without_leak, keys_are_numbered_in_the_order_of_insertion) {
    weft_ctx *ctx = *state;
    enum { N = 20000, KEYS = 700 };
    static int64_t number[KEYS];
    wefti_u64map map = {0};
    int64_t n = 0;
    for (int k = 0; k < KEYS; k++) number[k] = -1;
    assert_int_equal(wefti_u64map_find(&map, 3), -1);
    for (int64_t i = 0; i < N; i++) {
        int64_t k = pick(1, i, KEYS), index;
        /* keys that differ in high bits only, low bits only, and zero among them */
        uint64_t key = (uint64_t)(k % 26) << 58 | (uint64_t)(k / 26);
        assert_int_equal(wefti_u64map_find(&map, key), number[k]);
        assert_ok(ctx, wefti_u64map_put(ctx, &map, key, &index));
        if (number[k] < 0) number[k] = n++;
        assert_int_equal(index, number[k]);
        assert_int_equal(map.n, n);
        assert_int_equal(map.keys[index], key);
    }
    assert_int_equal(n, KEYS);
    wefti_u64map_fini(ctx, &map);
}
