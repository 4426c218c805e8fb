/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "check.h"

typedef struct reading {
    const char *text;
    weft_quantity unit;
    double value;
} reading;

static const reading good[] = {
    {"0", WEFT_UNIT_COUNT, 0},
    {"1e-3", WEFT_UNIT_COUNT, 1e-3},
    {"-2.5", WEFT_UNIT_COUNT, -2.5},
    {"+7", WEFT_UNIT_COUNT, 7},
    {".5", WEFT_UNIT_COUNT, 0.5},
    {"3k", WEFT_UNIT_COUNT, 3e3},
    {"3 M", WEFT_UNIT_COUNT, 3e6},
    {"1.5G", WEFT_UNIT_COUNT, 1.5e9},
    {"12", WEFT_UNIT_BYTES, 12},
    {"12B", WEFT_UNIT_BYTES, 12},
    {"4G", WEFT_UNIT_BYTES, 4e9},
    {"100mbit", WEFT_UNIT_RATE, 12.5e6},
    {"4kB", WEFT_UNIT_BYTES, 4e3},
    {"4MB", WEFT_UNIT_BYTES, 4e6},
    {"4GB", WEFT_UNIT_BYTES, 4e9},
    {"2KiB", WEFT_UNIT_BYTES, 2048},
    {"2MiB", WEFT_UNIT_BYTES, 2097152},
    {"2 GiB", WEFT_UNIT_BYTES, 2147483648.0},
    {"0", WEFT_UNIT_TIME, 0},
    {"0.0", WEFT_UNIT_TIME, 0},
    {"2s", WEFT_UNIT_TIME, 2},
    {"10ms", WEFT_UNIT_TIME, 10e-3},
    {"10us", WEFT_UNIT_TIME, 10e-6},
    {"10ns", WEFT_UNIT_TIME, 10e-9},
    {"2min", WEFT_UNIT_TIME, 120},
    {"0.5h", WEFT_UNIT_TIME, 1800},
    {"8bit", WEFT_UNIT_RATE, 1},
    {"100kbit", WEFT_UNIT_RATE, 12500},
    {"100Mbit", WEFT_UNIT_RATE, 12.5e6},
    {"100Mbit/s", WEFT_UNIT_RATE, 12.5e6},
    {"1 Gbit", WEFT_UNIT_RATE, 125e6},
    {"1Gbit/s", WEFT_UNIT_RATE, 125e6},
    {"1Gb/s", WEFT_UNIT_RATE, 125e6},
    {"9.4 Gbits/sec", WEFT_UNIT_RATE, 1175e6},
    {"941 Mbits/sec", WEFT_UNIT_RATE, 117625e3},
    {"3B/s", WEFT_UNIT_RATE, 3},
    {"3MB/s", WEFT_UNIT_RATE, 3e6},
    {"3GB/s", WEFT_UNIT_RATE, 3e9},
    {"4g", WEFT_UNIT_BYTES, 4e9},
    {"4mb", WEFT_UNIT_BYTES, 4e6},
    {"2gib", WEFT_UNIT_BYTES, 2147483648.0},
    {"1d", WEFT_UNIT_TIME, 86400},
    {"1GBit", WEFT_UNIT_RATE, 125e6},
    {"100MBIT/S", WEFT_UNIT_RATE, 12.5e6},
    {"1K", WEFT_UNIT_COUNT, 1e3},
    {"124m", WEFT_UNIT_COUNT, 124e6},
    {"7B", WEFT_UNIT_COUNT, 7e9},
    {"7b", WEFT_UNIT_COUNT, 7e9},
    {"1.5t", WEFT_UNIT_COUNT, 1.5e12},
    {"1P", WEFT_UNIT_COUNT, 1e15},
    {"0.7", WEFT_UNIT_NUMBER, 0.7},
    {"500k", WEFT_UNIT_NUMBER, 5e5},
    {"5%", WEFT_UNIT_SHARE, 0.05},
    {"0.05", WEFT_UNIT_SHARE, 0.05},
    {"30", WEFT_UNIT_SECONDS, 30},
    {"5min", WEFT_UNIT_SECONDS, 300},
    {"2a", WEFT_UNIT_TIME, 63115200},
    {"1G", WEFT_UNIT_LINK, 125e6},
    {"100m", WEFT_UNIT_LINK, 12.5e6},
    {"64k", WEFT_UNIT_LINK, 8e3},
    {"1gbit", WEFT_UNIT_LINK, 125e6},
    {"80T", WEFT_UNIT_WORK, 80e12},
    {"EUR 2.5/h", WEFT_UNIT_PRICE, 2.5},
    {"2.5 EUR/h", WEFT_UNIT_PRICE, 2.5},
    {"2.5$", WEFT_UNIT_PRICE, 2.5},
    {"2e1 EUR/hour", WEFT_UNIT_PRICE, 20},
    {"80TFLOP/s", WEFT_UNIT_WORK, 80e12},
};

TEST(quantities_are_read_in_their_units) {
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double value = NAN;
        if (!weft_quantity_parse(good[i].text, good[i].unit, &value))
            fail_msg("'%s' was refused", good[i].text);
        /* one rounding of the number, one of the product */
        if (!(fabs(value - good[i].value) <= 2.3e-16 * fabs(good[i].value)))
            fail_msg("'%s' was read as %g", good[i].text, value);
    }
}

static const reading bad[] = {
    {"", WEFT_UNIT_COUNT, 0},          {" 1", WEFT_UNIT_COUNT, 0},
    {"\t1", WEFT_UNIT_COUNT, 0},       {"k", WEFT_UNIT_COUNT, 0},
    {"-", WEFT_UNIT_COUNT, 0},         {"1kk", WEFT_UNIT_COUNT, 0},
    {"1k1", WEFT_UNIT_COUNT, 0},       {"1,5", WEFT_UNIT_COUNT, 0},
    {"1_000", WEFT_UNIT_COUNT, 0},     {"1 000", WEFT_UNIT_COUNT, 0},
    {"0x10", WEFT_UNIT_COUNT, 0},      {"-0x10", WEFT_UNIT_COUNT, 0},
    {"0X1p3", WEFT_UNIT_COUNT, 0},     {"nan", WEFT_UNIT_COUNT, 0},
    {"-nan", WEFT_UNIT_COUNT, 0},      {"inf", WEFT_UNIT_COUNT, 0},
    {"-Infinity", WEFT_UNIT_COUNT, 0}, {"1e999", WEFT_UNIT_COUNT, 0},
    {"1e308G", WEFT_UNIT_COUNT, 0},    {"1m", WEFT_UNIT_NUMBER, 0},
    {"5%", WEFT_UNIT_NUMBER, 0},       {"5 pct", WEFT_UNIT_SHARE, 0},
    {"5m", WEFT_UNIT_SECONDS, 0},      {"1G", WEFT_UNIT_RATE, 0},
    {"100", WEFT_UNIT_LINK, 0},        {"1Gb", WEFT_UNIT_LINK, 0},
    {"80t", WEFT_UNIT_WORK, 0},        {"1kB", WEFT_UNIT_COUNT, 0},
    {"1e", WEFT_UNIT_COUNT, 0},        {"1s", WEFT_UNIT_COUNT, 0},
    {"1K", WEFT_UNIT_BYTES, 0},        {"1Mb", WEFT_UNIT_BYTES, 0},
    {"1Mbit", WEFT_UNIT_BYTES, 0},     {"1kiB", WEFT_UNIT_BYTES, 0},
    {"1", WEFT_UNIT_TIME, 0},          {"1m", WEFT_UNIT_TIME, 0},
    {"1S", WEFT_UNIT_TIME, 0},         {"1sec", WEFT_UNIT_TIME, 0},
    {"1ms2", WEFT_UNIT_TIME, 0},       {"0x", WEFT_UNIT_TIME, 0},
    {"100", WEFT_UNIT_RATE, 0},        {"100MB", WEFT_UNIT_RATE, 0},
    {"100Mbit/", WEFT_UNIT_RATE, 0},   {"100Mb", WEFT_UNIT_RATE, 0},
    {"100mb/s", WEFT_UNIT_RATE, 0},    {"1D", WEFT_UNIT_TIME, 0},
};

TEST(everything_else_is_refused) {
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double value = 0;
        if (weft_quantity_parse(bad[i].text, bad[i].unit, &value))
            fail_msg("'%s' was read as %g", bad[i].text, value);
    }
}

TEST(what_was_meant_is_guessed) {
    static const struct {
        const char *text;
        weft_quantity unit;
        const char *meant;
    } rows[] = {{"5m", WEFT_UNIT_TIME, "5min"},
                {"10MS", WEFT_UNIT_TIME, "10ms"},
                {"1.5 days", WEFT_UNIT_TIME, "1.5 d"},
                {"4K", WEFT_UNIT_BYTES, "4k"},
                {"4Gb", WEFT_UNIT_BYTES, "4GB"},
                {"1Gb", WEFT_UNIT_RATE, "1Gbit"},
                {"100MB", WEFT_UNIT_RATE, "100MB/s"},
                {"1gb/s", WEFT_UNIT_RATE, NULL},
                {"5m", WEFT_UNIT_SECONDS, "5min"},
                {"1Gb", WEFT_UNIT_LINK, "1Gbit"},
                {"80t", WEFT_UNIT_WORK, "80T"},
                {"5min", WEFT_UNIT_TIME, NULL},
                {"5", WEFT_UNIT_TIME, NULL},
                {"ten", WEFT_UNIT_COUNT, NULL},
                {"-", WEFT_UNIT_TIME, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char meant[16] = "", small[2];
        bool found = weft_quantity_guess(rows[i].text, rows[i].unit, meant, sizeof meant);
        if (found != (rows[i].meant != NULL) ||
            (found && !wefti_is(meant, rows[i].meant)))
            fail_msg("for '%s' it is '%s'", rows[i].text, meant);
        assert_false(
            weft_quantity_guess(rows[i].text, rows[i].unit, small, sizeof small));
    }
}

TEST(whole_numbers_are_read_exactly) {
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {{"0", 0},
                {"-0", 0},
                {"007", 7},
                {"-12", -12},
                {"3k", 3000},
                {"-3M", -3000000},
                {"9G", 9000000000},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"9007199254740k", 9007199254740000},
                {"+1", 1},
                {"1.0", 1},
                {"1e3", 1000},
                {"1.5k", 1500},
                {"1 k", 1000},
                {"7B", 7000000000}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t value = 1;
        assert_true(weft_quantity_parse_int(rows[i].text, WEFT_UNIT_COUNT, &value));
        assert_int_equal(value, rows[i].value);
    }
}

TEST(what_is_no_whole_number_is_refused) {
    static const char *const rows[] = {"",
                                       " 1",
                                       "-",
                                       "- 1",
                                       "k",
                                       "0x10",
                                       "1kk",
                                       "1kB",
                                       "1.5",
                                       "1.5e0",
                                       "0.1k1",
                                       "9007199254741k",
                                       "1k ",
                                       "--1",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "9223372036854776k",
                                       "-9223372036854776k",
                                       "9223372037G"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t value = 0;
        if (weft_quantity_parse_int(rows[i], WEFT_UNIT_COUNT, &value))
            fail_msg("'%s' was read as %lld", rows[i], (long long)value);
    }
}

TEST(two_quantities_have_a_comma_between_them) {
    static const weft_quantity units[] = {WEFT_UNIT_SHARE, WEFT_UNIT_TIME};
    static const char *const broken[] = {"1%",    "1%,",      ",2s",  "1%,2",
                                         "1%;2s", "1%,2s,3s", "2s,1%"};
    double out[2] = {0, 0};
    assert_true(weft_quantity_parse_pair("1%, 2s", units, out));
    assert_true(out[0] == 0.01 && out[1] == 2);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        if (weft_quantity_parse_pair(broken[i], units, out))
            fail_msg("'%s' was read", broken[i]);
}

TEST(what_is_expected_names_the_limits_that_there_are) {
    char out[80], little[12];
    assert_string_equal(weft_quantity_expected(WEFT_UNIT_TIME, 0, 3600, out, sizeof out),
                        "a time such as 20us or 5min from 0 to 3600 s");
    assert_string_equal(weft_quantity_expected(WEFT_UNIT_COUNT, 1, 1e15, out, sizeof out),
                        "a whole number of at least 1");
    assert_string_equal(
        weft_quantity_expected(WEFT_UNIT_RATE, 0, 1, little, sizeof little),
        "a rate such");
}

TEST(edit_distance_counts_each_kind_of_slip) {
    assert_int_equal(wefti_edit_distance("", ""), 0);
    assert_int_equal(wefti_edit_distance("", "abc"), 3);
    assert_int_equal(wefti_edit_distance("momentum", "momentum"), 0);
    assert_int_equal(wefti_edit_distance("momentm", "momentum"), 1);
    assert_int_equal(wefti_edit_distance("momenttum", "momentum"), 1);
    assert_int_equal(wefti_edit_distance("momemtum", "momentum"), 1);
    assert_int_equal(wefti_edit_distance("mometnum", "momentum"), 1);
    assert_int_equal(wefti_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(wefti_edit_distance("sitting", "kitten"), 3);
}

TEST(long_words_are_compared_up_to_64_letters) {
    char a[2000], b[2000];
    memset(a, 'a', sizeof a - 1);
    memset(b, 'b', sizeof b - 1);
    a[sizeof a - 1] = b[sizeof b - 1] = '\0';
    assert_int_equal(wefti_edit_distance(a, b), 64);
    assert_int_equal(wefti_edit_distance(a, ""), 64);
}

TEST(nearest_finds_typos_only) {
    static const char *const names[] = {"lr", "layers", "momentum", "compression_topk",
                                        "b"};
    enum { N = sizeof names / sizeof names[0] };
    assert_string_equal(wefti_nearest("layer", names, N), "layers");
    assert_string_equal(wefti_nearest("compresion_topk", names, N), "compression_topk");
    assert_string_equal(wefti_nearest("rl", names, N), "lr");
    assert_null(wefti_nearest("optimizer", names, N));
    assert_null(wefti_nearest("a", names, N)); /* all of it is another letter */
    assert_null(wefti_nearest("", names, N));
    assert_null(wefti_nearest("layer", names, 0));
}

TEST(nearest_prefers_the_lower_distance_then_the_first) {
    static const char *const names[] = {"stepped", "stop", "step", "stem"};
    assert_string_equal(wefti_nearest("step", names, 4), "step");
    assert_string_equal(wefti_nearest("stap", names, 4), "stop");
}

TEST(bytes_are_written_with_two_or_three_digits) {
    static const struct {
        double n_bytes;
        const char *text;
    } rows[] = {{0, "0 B"},         {1, "1 B"},       {120, "120 B"},
                {999, "999 B"},     {1000, "1.0 kB"}, {3440000, "3.4 MB"},
                {9949, "9.9 kB"},   {9960, "10 kB"},  {999400, "999 kB"},
                {999600, "1.0 MB"}, {5e9, "5.0 GB"},  {12e12, "12 TB"},
                {1.5e15, "1500 TB"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[24];
        assert_string_equal(wefti_format_bytes(rows[i].n_bytes, out, sizeof out),
                            rows[i].text);
    }
    char out[24];
    wefti_format_bytes(1e300, out, sizeof out); /* cut, not written past the end */
    assert_true(strlen(out) < sizeof out);
}

TEST(what_signs_an_address_is_hidden) {
    static const char *const texts[][2] = {
        {"https://h/a?X-Amz-Date=1&X-Amz-Signature=2", "https://h/a?..."},
        {"could not fetch http://h/a?v=1&sig=x&w=2: the end",
         "could not fetch http://h/a?v=1&w=2&...: the end"},
        {"path: [\"https://h/a?AWSAccessKeyId=x\", \"https://h/b?Token=\"]",
         "path: [\"https://h/a?...\", \"https://h/b?...\"]"},
        {"(https://h/a?sv=1&sig=x), https://h:80/?key=1.",
         "(https://h/a?sv=1&...), https://h:80/?...."},
        {"https://h/a?versionId=0123456789012345678901234567890123456789&x=1", NULL},
        {"https://h/a?x=0123456789012345678901234567890123456789", "https://h/a?..."},
        {"https://h/a?0123456789012345678901234567890123456789", "https://h/a?..."},
        {"https://h/a?v=1&...", NULL},
        {"https://h/a?...", NULL},
        {"https://h/a? sig=x http https:/ s3://b/k?sig=x", NULL},
        {"https://h/a?&&b&", NULL}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "%s", texts[i][0]);
        assert_string_equal(wefti_text_hide(text), texts[i][texts[i][1] ? 1 : 0]);
    }
}
