/* SPDX-License-Identifier: MIT */
/* CPace against the vectors of draft-irtf-cfrg-cpace, "Test vector for CPace using group
 * ristretto255 and hash SHA-512". */
#include <sodium.h>

#include "check.h"
#include "invite/cpace.h"

static const char g[] =
    "222b6b195fe84b1652badb6f6a3ae3d24341e7306967f0b8115b40d5698c7e56";
static const char ya[] =
    "da3d23700a9e5699258aef94dc060dfda5ebb61f02a5ea77fad53f4ff0976d08";
static const char Ya[] =
    "d6bac480f2c386c394efc7c47adb9925dcd2630b64f240c50f8d0eec482b9157";
static const char yb[] =
    "d2316b454718c35362d83d69df6320f38578ed5984651435e2949762d900b80d";
static const char Yb[] =
    "3ea7e0b19560d7c0b0f5734f63b955286dfa8232b5ebe63324e2d9e7433f7258";
static const char k[] =
    "80b69a8a76457ab6a4d7f887a4bf6b55a2f80ac19c333f917a05fc9887c8b40f";
static const char ISK_IR[] =
    "b69effbf61b51d56401c0f65601abe428de8206feaaf0e32198896dcae7b35cd"
    "2b38950a39dfd5d4a79164614c2984f7daa460b588c1e80c3fa2068af7900447";
static const char sid_hex[] = "7e4b4791d6a8ef019b936c79fb7f2c57";
static unsigned char sid[16];
static const wefti_cpace_input input = {{"Password", 8},
                                        {"\x0b"
                                         "A_initiator\x0b"
                                         "B_responder",
                                         24},
                                        {sid, sizeof sid}};

static void bytes_of(const char *hex, unsigned char *out, size_t n) {
    size_t got;
    assert_int_equal(sodium_hex2bin(out, n, hex, strlen(hex), NULL, &got, NULL), 0);
    assert_int_equal(got, n);
}

static void is(const unsigned char *got, size_t n, const char *hex) {
    unsigned char expected[64];
    bytes_of(hex, expected, n);
    assert_memory_equal(got, expected, n);
}

TEST(the_draft_s_numbers_come_out) {
    unsigned char point[32], y_a[32], y_b[32], isk[64];
    wefti_cpace_message a = {.associated = {"ADa", 3}}, b = {.associated = {"ADb", 3}};
    wefti_cpace_generator(&input, point);
    is(point, sizeof point, g);
    bytes_of(ya, y_a, sizeof y_a);
    bytes_of(yb, y_b, sizeof y_b);
    assert_true(wefti_cpace_share(&input, y_a, a.share));
    assert_true(wefti_cpace_share(&input, y_b, b.share));
    is(a.share, sizeof a.share, Ya);
    is(b.share, sizeof b.share, Yb);
    assert_true(wefti_cpace_secret(y_a, b.share, point));
    is(point, sizeof point, k);
    assert_true(wefti_cpace_secret(y_b, a.share, point));
    is(point, sizeof point, k);
    wefti_cpace_key(input.session, point, &a, &b, isk);
    is(isk, sizeof isk, ISK_IR);
}

TEST(what_is_no_element_or_neutral_is_refused) {
    unsigned char y[32], k_point[32], theirs[32] = {0};
    wefti_cpace_scalar(y);
    assert_false(wefti_cpace_secret(y, theirs, k_point)); /* the neutral element */
    bytes_of("2b3c6b8c4f3800e7aef6864025b4ed79bd599117e427c41bd47d93d654b4a51c", theirs,
             sizeof theirs);
    assert_false(wefti_cpace_secret(y, theirs, k_point));
    memset(theirs, 0xff, sizeof theirs);
    assert_false(wefti_cpace_secret(y, theirs, k_point));
}

TEST(another_word_gives_another_key_and_tag) {
    unsigned char y[2][32], point[32], keys[2][64], tags[2][64];
    wefti_cpace_input other = input;
    wefti_cpace_message a = {.associated = {"a", 1}}, b = {.associated = {"b", 1}};
    other.password.data = "passworD";
    wefti_cpace_scalar(y[0]);
    wefti_cpace_scalar(y[1]);
    assert_true(wefti_cpace_share(&input, y[0], a.share));
    assert_true(wefti_cpace_share(&other, y[1], b.share));
    for (int side = 0; side < 2; side++) {
        assert_true(wefti_cpace_secret(y[side], side ? a.share : b.share, point));
        wefti_cpace_key(input.session, point, &a, &b, keys[side]);
        wefti_cpace_tag(input.session, keys[side], &a, tags[side]);
    }
    assert_memory_not_equal(keys[0], keys[1], sizeof keys[0]);
    assert_memory_not_equal(tags[0], tags[1], sizeof tags[0]);
}

int main(void) {
    if (sodium_init() < 0) return 1;
    bytes_of(sid_hex, sid, sizeof sid);
    return check_run(NULL, NULL);
}
