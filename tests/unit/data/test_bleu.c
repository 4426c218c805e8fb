/* SPDX-License-Identifier: MIT */
/* BLEU against the numbers that the package sacrebleu (2.6.0, its default tokenization and
 * smoothing) printed for the same corpora, to 1e-9. */

#include "check.h"

#include <math.h>

#include "data/bleu.h"

enum { MAX_TEXTS = 8 };

typedef struct corpus {
    int n;
    const char *translations[MAX_TEXTS], *references[MAX_TEXTS];
    double score;
} corpus;

static const corpus corpora[] = {
    {1, {"&amp; 3.5 -- sat."}, {"&amp; 3.5 -- \343\200\200z"}, 39.763536438352517},
    {1,
     {"(yes) 5. a/b 5. 3.5 U.S. \303\274ber the U.S."},
     {"#1 5. a/b don't 3.5 U.S. \303\274ber the U.S."},
     65.771609099116631},
    {2,
     {"mat, a_b &amp; a <skipped>", "cat &amp; U.S."},
     {"mat, don\342\200\231t &amp; a <skipped>", "stra\303\237e &amp; U.S."},
     43.547888854949569},
    {3,
     {"#1 \343\200\200z e.g., x-y (yes) on 3.5 stra\303\237e . ,",
      "<skipped> 1,000 the don't <skipped> \302\240 the ,, .5 mat,",
      "C++ e.g., 2-3 U.S."},
     {"#1 \343\200\200z e.g., x-y (yes) on ... (yes) . ,",
      "50% 1,000 e.g., don't <skipped> \302\240 the cat .5 mat,",
      "C++ <skipped> 2-3 U.S."},
     53.601968401816023},
    {5,
     {"5. 5. <skipped>", "sat. sat.", "cat #1 \343\200\200z 9-. 50% it's cat",
      "(yes) cat cat U.S. it's 50% -- cat",
      "mat, [x] \303\274ber ~ &quot;hi&quot; a/b <skipped>"},
     {"5. 5. <skipped>", "sat. sat.", "cat #1 $5 9-. 50% it's cat 1,000 ~ <skipped>",
      "(yes) cat cat U.S. U.S. 50% ~ \303\274ber",
      "mat, [x] \303\274ber 9- &quot;hi&quot; e.g., <skipped>"},
     53.466599979838598},
    {8,
     {"on", "&quot;hi&quot; - don\342\200\231t U.S.", "1.,2", "cat 1.,2",
      "\302\240 cat 5. mat, ~ a 3.5 .5 5. mat,", "C++ on . , don't . , &amp; U.S.",
      "&quot;hi&quot;", "#1 1,000"},
     {"on a/b . , (yes) cat -- ,, 2-3", "&quot;hi&quot; a ,, U.S.",
      "1.,2 e.g., don\342\200\231t", "cat 1.,2", "2-3 cat 5. mat, ~ a &amp; .5 on mat,",
      "C++ on . , (yes) . , &amp; \343\200\200z", "&quot;hi&quot;", "#1 1,000"},
     36.82878338264247},
    {1, {"zzz yyy"}, {"on ~ 50% ... <skipped> .5 stra\303\237e don't . ,"}, 0},
    {4,
     {"x-y U.S. don't 5. (yes) 2-3 [x]", "on e.g.,", "mat, 3.5 the",
      "1,000 don't \343\200\200z -- ,, it's -- 1.,2 50% $5 stra\303\237e &amp;"},
     {"x-y U.S. 1.,2 5. e.g., 2-3 [x]", "on --", "don't &amp; the 1.,2 the ~",
      "1,000 don't \343\200\200z stra\303\237e ,, &amp; -- 1.,2 50% $5 stra\303\237e "
      "&amp; 5."},
     43.394191928808368},
    {2,
     {"The cat sat on the mat.", "It is 3,5 or 3.5-4."},
     {"The cat sat on a mat.", "It is 3,5 or 3.5 - 4."},
     78.66345876727064},
    {1, {"a b c"}, {"a b c d e f"}, 0},
};

TEST(scores_are_those_of_the_package) {
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (size_t i = 0; i < sizeof corpora / sizeof corpora[0]; i++) {
        wefti_bleu bleu = {0};
        for (int k = 0; k < corpora[i].n; k++)
            assert_int_equal(wefti_bleu_add(ctx, &bleu, corpora[i].translations[k],
                                            corpora[i].references[k]),
                             WEFT_OK);
        double score = wefti_bleu_score(&bleu);
        if (!(fabs(score - corpora[i].score) <= 1e-9))
            fail_msg("corpus %d has %.17g, expected %.17g", (int)i, score,
                     corpora[i].score);
    }
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

TEST(nothing_scores_nothing) {
    weft_ctx *ctx;
    wefti_bleu bleu = {0};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_true(wefti_bleu_score(&bleu) == 0);
    assert_int_equal(wefti_bleu_add(ctx, &bleu, "", "a b"), WEFT_OK);
    assert_true(wefti_bleu_score(&bleu) == 0);
    weft_ctx_destroy(ctx);
}

TEST(a_failed_allocation_is_a_clean_error) {
    weft_ctx *ctx;
    weft_status status = WEFT_ERR_MEMORY;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    int64_t k;
    for (k = 0; status != WEFT_OK; k++) {
        wefti_bleu bleu = {0};
        assert_true(k < 20);
        weft_ctx_clear(ctx);
        weft_ctx_fail_allocation(ctx, k);
        status = wefti_bleu_add(ctx, &bleu, "a b", "a c");
        assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    }
    weft_ctx_fail_allocation(ctx, -1);
    assert_true(k > 4);
    weft_ctx_destroy(ctx);
}
