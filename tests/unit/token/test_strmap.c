/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include "token/strmap.h"

TEST_IN(with_ctx, without_leak, equal_strings_are_one_entry_wherever_they_lie) {
    weft_ctx *ctx = *state;
    enum { N = 20000 };
    static char text[N];
    static int64_t seen[27 * 27 * 27];
    wefti_strmap map = {0};
    int64_t different = 0;
    for (int i = 0; i < N; i++) text[i] = (char)('a' + pick(2, i, 6));
    assert_null(wefti_strmap_find(&map, text, text, 2));
    for (int64_t i = 0; i + 3 < N; i++) {
        int64_t n = 1 + i % 3, code = 0;
        for (int64_t k = 0; k < n; k++) code = code * 27 + text[i + k] - 'a' + 1;
        wefti_str_entry *entry;
        bool found = wefti_strmap_find(&map, text, text + i, n) != NULL;
        assert_int_equal(found, seen[code] > 0);
        assert_ok(ctx, wefti_strmap_put(ctx, &map, text, i, n, &entry));
        different += seen[code] == 0;
        assert_int_equal(entry->value++, seen[code]++);
        assert_int_equal(entry->n_bytes, n);
        assert_memory_equal(text + entry->offset, text + i, (size_t)n);
    }
    assert_int_equal(map.n, different);
    wefti_strmap_fini(ctx, &map);
}
