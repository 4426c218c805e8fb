/* SPDX-License-Identifier: MIT */
/* What a process that is refused is told of the line that differs. */
#include "rank/alike.h"

#include "base/memory.h"
#include "check.h"

static void says(const char *here, const char *there, const char *expected) {
    weft_ctx *ctx;
    void *notice;
    int64_t n;
    assert_int_equal(ctx_begin(&ctx), 0);
    assert_ok(ctx, wefti_alike_notice_of(ctx, there, "", &notice, &n));
    assert_int_equal(wefti_alike_compare(ctx, here, notice, n), WEFT_ERR_CONFIG);
    if (!strstr(weft_ctx_message(ctx), expected)) fail_msg("%s", weft_ctx_message(ctx));
    wefti_free(ctx, notice);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(the_line_that_differs_is_named) {
    says("a.b: 1\na.c: 2\n", "a.b: 1\na.c: 3\n", "a.c is 2 here and 3 in the run;");
    says("a.b: 1\na.c: 2\n", "a.b: 1\na.d: 2\n",
         "'a.c: 2' is here, and 'a.d: 2' is in its place in the run;");
}

TEST(a_text_that_ends_before_the_other_is_no_empty_name) {
    says("a.b: 1\n", "a.b: 1\na.c: 2\n",
         "nothing is here, and 'a.c: 2' is in its place in the run;");
    says("a.b: 1\na.c: 2\n", "a.b: 1\n",
         "'a.c: 2' is here, and nothing is in its place in the run;");
}

TEST(what_was_decided_is_no_part_of_the_text) {
    weft_ctx *ctx;
    void *notice;
    char decided[16], cut[4];
    int64_t n;
    assert_int_equal(ctx_begin(&ctx), 0);
    assert_ok(ctx, wefti_alike_notice_of(ctx, "a.b: 1\n", "1 a.b=1", &notice, &n));
    assert_ok(ctx, wefti_alike_compare(ctx, "a.b: 1\n", notice, n));
    wefti_alike_decided(notice, n, decided, sizeof decided);
    assert_string_equal(decided, "1 a.b=1");
    wefti_alike_decided(notice, n, cut, sizeof cut);
    assert_string_equal(cut, "1 a");
    wefti_alike_decided(notice, n - 8, decided, sizeof decided); /* no zero in it */
    assert_string_equal(decided, "");
    wefti_alike_decided(NULL, 0, decided, sizeof decided);
    assert_string_equal(decided, "");
    wefti_free(ctx, notice);
    assert_int_equal(ctx_end(ctx), 0);
}
