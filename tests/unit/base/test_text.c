/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/text.h"
#include "check.h"

typedef struct reading {
    const char *text;
    wefti_quantity unit;
    double value;
} reading;

static const reading good[] = {
    {"0", WEFTI_UNIT_COUNT, 0},
    {"1e-3", WEFTI_UNIT_COUNT, 1e-3},
    {"-2.5", WEFTI_UNIT_COUNT, -2.5},
    {"+7", WEFTI_UNIT_COUNT, 7},
    {".5", WEFTI_UNIT_COUNT, 0.5},
    {"3k", WEFTI_UNIT_COUNT, 3e3},
    {"3 M", WEFTI_UNIT_COUNT, 3e6},
    {"1.5G", WEFTI_UNIT_COUNT, 1.5e9},
    {"12", WEFTI_UNIT_BYTES, 12},
    {"12B", WEFTI_UNIT_BYTES, 12},
    {"4G", WEFTI_UNIT_BYTES, 4e9},
    {"100mbit", WEFTI_UNIT_RATE, 12.5e6},
    {"4kB", WEFTI_UNIT_BYTES, 4e3},
    {"4MB", WEFTI_UNIT_BYTES, 4e6},
    {"4GB", WEFTI_UNIT_BYTES, 4e9},
    {"2KiB", WEFTI_UNIT_BYTES, 2048},
    {"2MiB", WEFTI_UNIT_BYTES, 2097152},
    {"2 GiB", WEFTI_UNIT_BYTES, 2147483648.0},
    {"0", WEFTI_UNIT_TIME, 0},
    {"0.0", WEFTI_UNIT_TIME, 0},
    {"2s", WEFTI_UNIT_TIME, 2},
    {"10ms", WEFTI_UNIT_TIME, 10e-3},
    {"10us", WEFTI_UNIT_TIME, 10e-6},
    {"10ns", WEFTI_UNIT_TIME, 10e-9},
    {"2min", WEFTI_UNIT_TIME, 120},
    {"0.5h", WEFTI_UNIT_TIME, 1800},
    {"8bit", WEFTI_UNIT_RATE, 1},
    {"100kbit", WEFTI_UNIT_RATE, 12500},
    {"100Mbit", WEFTI_UNIT_RATE, 12.5e6},
    {"100Mbit/s", WEFTI_UNIT_RATE, 12.5e6},
    {"1 Gbit", WEFTI_UNIT_RATE, 125e6},
    {"1Gbit/s", WEFTI_UNIT_RATE, 125e6},
    {"1Gb/s", WEFTI_UNIT_RATE, 125e6},
    {"9.4 Gbits/sec", WEFTI_UNIT_RATE, 1175e6},
    {"941 Mbits/sec", WEFTI_UNIT_RATE, 117625e3},
    {"3B/s", WEFTI_UNIT_RATE, 3},
    {"3MB/s", WEFTI_UNIT_RATE, 3e6},
    {"3GB/s", WEFTI_UNIT_RATE, 3e9},
    {"4g", WEFTI_UNIT_BYTES, 4e9},
    {"4mb", WEFTI_UNIT_BYTES, 4e6},
    {"2gib", WEFTI_UNIT_BYTES, 2147483648.0},
    {"1d", WEFTI_UNIT_TIME, 86400},
    {"1GBit", WEFTI_UNIT_RATE, 125e6},
    {"100MBIT/S", WEFTI_UNIT_RATE, 12.5e6},
};

TEST(quantities_are_read_in_their_units) {
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double value = NAN;
        if (!wefti_parse_quantity(good[i].text, good[i].unit, &value))
            fail_msg("'%s' was refused", good[i].text);
        /* one rounding of the number, one of the product */
        if (!(fabs(value - good[i].value) <= 2.3e-16 * fabs(good[i].value)))
            fail_msg("'%s' was read as %g", good[i].text, value);
    }
}

static const reading bad[] = {
    {"", WEFTI_UNIT_COUNT, 0},          {" 1", WEFTI_UNIT_COUNT, 0},
    {"\t1", WEFTI_UNIT_COUNT, 0},       {"k", WEFTI_UNIT_COUNT, 0},
    {"-", WEFTI_UNIT_COUNT, 0},         {"1K", WEFTI_UNIT_COUNT, 0},
    {"1kk", WEFTI_UNIT_COUNT, 0},       {"1k1", WEFTI_UNIT_COUNT, 0},
    {"1m", WEFTI_UNIT_COUNT, 0},        {"1,5", WEFTI_UNIT_COUNT, 0},
    {"1_000", WEFTI_UNIT_COUNT, 0},     {"1 000", WEFTI_UNIT_COUNT, 0},
    {"0x10", WEFTI_UNIT_COUNT, 0},      {"-0x10", WEFTI_UNIT_COUNT, 0},
    {"0X1p3", WEFTI_UNIT_COUNT, 0},     {"nan", WEFTI_UNIT_COUNT, 0},
    {"-nan", WEFTI_UNIT_COUNT, 0},      {"inf", WEFTI_UNIT_COUNT, 0},
    {"-Infinity", WEFTI_UNIT_COUNT, 0}, {"1e999", WEFTI_UNIT_COUNT, 0},
    {"1e308G", WEFTI_UNIT_COUNT, 0},    {"1e", WEFTI_UNIT_COUNT, 0},
    {"1B", WEFTI_UNIT_COUNT, 0},        {"1s", WEFTI_UNIT_COUNT, 0},
    {"1K", WEFTI_UNIT_BYTES, 0},        {"1Mb", WEFTI_UNIT_BYTES, 0},
    {"1Mbit", WEFTI_UNIT_BYTES, 0},     {"1kiB", WEFTI_UNIT_BYTES, 0},
    {"1", WEFTI_UNIT_TIME, 0},          {"1m", WEFTI_UNIT_TIME, 0},
    {"1S", WEFTI_UNIT_TIME, 0},         {"1sec", WEFTI_UNIT_TIME, 0},
    {"1ms2", WEFTI_UNIT_TIME, 0},       {"0x", WEFTI_UNIT_TIME, 0},
    {"100", WEFTI_UNIT_RATE, 0},        {"100MB", WEFTI_UNIT_RATE, 0},
    {"100Mbit/", WEFTI_UNIT_RATE, 0},   {"100Mb", WEFTI_UNIT_RATE, 0},
    {"100mb/s", WEFTI_UNIT_RATE, 0},    {"1D", WEFTI_UNIT_TIME, 0},
};

TEST(everything_else_is_refused) {
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double value = 0;
        if (wefti_parse_quantity(bad[i].text, bad[i].unit, &value))
            fail_msg("'%s' was read as %g", bad[i].text, value);
    }
}

TEST(what_was_meant_is_guessed) {
    static const struct {
        const char *text;
        wefti_quantity unit;
        const char *meant;
    } rows[] = {{"5m", WEFTI_UNIT_TIME, "5min"},        {"10MS", WEFTI_UNIT_TIME, "10ms"},
                {"1.5 days", WEFTI_UNIT_TIME, "1.5 d"}, {"4K", WEFTI_UNIT_BYTES, "4k"},
                {"4Gb", WEFTI_UNIT_BYTES, "4GB"},       {"1Gb", WEFTI_UNIT_RATE, "1Gbit"},
                {"100MB", WEFTI_UNIT_RATE, "100MB/s"},  {"1gb/s", WEFTI_UNIT_RATE, NULL},
                {"7b", WEFTI_UNIT_COUNT, "7G"},         {"16m", WEFTI_UNIT_COUNT, "16M"},
                {"5min", WEFTI_UNIT_TIME, NULL},        {"5", WEFTI_UNIT_TIME, NULL},
                {"ten", WEFTI_UNIT_COUNT, NULL},        {"-", WEFTI_UNIT_TIME, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char meant[16] = "", small[2];
        bool found = wefti_guess_quantity(rows[i].text, rows[i].unit, meant,
                                          sizeof meant);
        if (found != (rows[i].meant != NULL) ||
            (found && !wefti_is(meant, rows[i].meant)))
            fail_msg("for '%s' it is '%s'", rows[i].text, meant);
        assert_false(
            wefti_guess_quantity(rows[i].text, rows[i].unit, small, sizeof small));
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
                {"9223372036854775k", 9223372036854775000}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t value = 1;
        assert_true(wefti_parse_int(rows[i].text, &value));
        assert_int_equal(value, rows[i].value);
    }
}

TEST(what_is_no_whole_number_is_refused) {
    static const char *const rows[] = {"",
                                       " 1",
                                       "+1",
                                       "-",
                                       "- 1",
                                       "k",
                                       "1.0",
                                       "1e3",
                                       "0x10",
                                       "1kk",
                                       "1 k",
                                       "1kB",
                                       "1k ",
                                       "1 ",
                                       "--1",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "9223372036854776k",
                                       "-9223372036854776k",
                                       "9223372037G"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t value = 0;
        if (wefti_parse_int(rows[i], &value))
            fail_msg("'%s' was read as %lld", rows[i], (long long)value);
    }
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

int main(void) { return check_run(NULL, NULL); }
