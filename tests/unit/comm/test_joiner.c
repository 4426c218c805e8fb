/* SPDX-License-Identifier: MIT */
/* What a process says that comes into a run that trains, and what it is told: numbers that no run
 * has are refused before anything is allocated by them. */
#include "start/joiner.h"

#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <unistd.h>

#include "base/bytes.h"
#include "check.h"
#include "members.h"
#include "net/socket.h"
#include "start/tcpstate.h"

static wefti_late_card some_card(void) {
    wefti_late_card card = {
        .place = 3, .port = 29500, .run = 7, .incarnation = 99, .machine = 55};
    memcpy(card.host, "al\033pha", 7);
    return card;
}

TEST(a_card_comes_back) {
    unsigned char bytes[WEFTI_CARD_BYTES];
    wefti_late_card card = some_card(), back;
    wefti_late_card_write(&card, bytes);
    assert_true(wefti_late_card_read(bytes, &back));
    assert_int_equal(back.place, 3);
    assert_int_equal(back.port, 29500);
    assert_int_equal(back.run, 7);
    assert_int_equal(back.incarnation, 99);
    assert_int_equal(back.machine, 55);
    assert_null(strchr(back.host, '\033'));
    card.place = -1;
    wefti_late_card_write(&card, bytes);
    assert_true(wefti_late_card_read(bytes, &back));
    assert_int_equal(back.place, -1);
}

/* The word at `at` is no number of a card. */
static void refuse_card(int at, uint32_t word) {
    unsigned char bytes[WEFTI_CARD_BYTES];
    wefti_late_card card = some_card(), back;
    wefti_late_card_write(&card, bytes);
    wefti_put_u32(bytes + at, word);
    if (wefti_late_card_read(bytes, &back))
        fail_msg("a card with %u at byte %d was taken", word, at);
}

TEST(a_card_with_other_numbers_is_none) {
    refuse_card(0, 0x54666577);  /* "wefT": of those who gather */
    refuse_card(4, 2);           /* another version */
    refuse_card(8, 1024);        /* a place that no run has */
    refuse_card(8, 0x80000000u); /* nor that */
    refuse_card(12, 0);          /* no port */
    refuse_card(12, 65536);
    refuse_card(24, 1); /* the incarnation of those who began */
    refuse_card(24, 0);
}

TEST(a_card_of_another_version_is_known_as_one) {
    unsigned char bytes[WEFTI_CARD_BYTES];
    wefti_late_card card = some_card();
    wefti_late_card_write(&card, bytes);
    assert_false(wefti_late_card_is_foreign(bytes));
    wefti_put_u32(bytes + 4, 2);
    assert_true(wefti_late_card_is_foreign(bytes));
    bytes[0] ^= 1;
    assert_false(wefti_late_card_is_foreign(bytes));
}

static bool read_head_of(uint32_t n, uint32_t place, uint32_t group,
                         wefti_late_table *table) {
    unsigned char head[WEFTI_LATE_HEAD_BYTES - 1] = {0};
    wefti_put_u32(head, n);
    wefti_put_u32(head + 4, place);
    wefti_put_u32(head + 16, group);
    return wefti_late_head_read(head, 1024, table);
}

static bool read_head(uint32_t n, uint32_t place, wefti_late_table *table) {
    return read_head_of(n, place, 1, table);
}

TEST(a_group_is_of_at_most_as_many_places_as_there_are) {
    wefti_late_table table;
    assert_true(read_head_of(8, 0, 8, &table));
    assert_int_equal(table.group, 8);
    assert_false(read_head_of(8, 0, 9, &table));
    assert_false(read_head_of(8, 0, 0, &table));
    assert_false(read_head_of(8, 0, 0xffffffffu, &table));
}

TEST(a_table_is_of_at_most_so_many_places) {
    wefti_late_table table;
    assert_true(read_head(1024, 1023, &table));
    assert_int_equal(table.n_places, 1024);
    assert_false(read_head(1025, 0, &table));
    assert_false(read_head(0xffffffffu, 0, &table));
    assert_false(read_head(0, 0, &table));
    assert_false(read_head(4, 4, &table));
}

TEST(each_rank_stands_in_a_table_once) {
    unsigned char row[WEFTI_LATE_ROW_BYTES];
    bool seen[2] = {false, false};
    wefti_late_table table;
    assert_true(read_head(2, 0, &table));
    table.rank_of = calloc(2, sizeof *table.rank_of);
    table.names = calloc(2, sizeof *table.names);
    table.cards = calloc(2, WEFTI_CARD_BYTES);
    memset(row, 0xff, sizeof row); /* texts without an end, too */
    assert_false(wefti_late_row_read(row, 0, seen, &table));
    wefti_put_u32(row, 1);
    assert_true(wefti_late_row_read(row, 0, seen, &table));
    assert_int_equal(table.rank_of[0], 1);
    assert_int_equal(strlen((char *)table.cards + WEFTI_CARD_HOST_AT),
                     WEFTI_CARD_HOST_BYTES - 1);
    assert_false(wefti_late_row_read(row, 1, seen, &table));
    wefti_put_u32(row, 0);
    assert_true(wefti_late_row_read(row, 1, seen, &table));
    wefti_late_table_fini(&table);
    assert_null(table.cards);
}

static int setup(void **state) {
    weft_ctx *ctx = NULL;
    int failed = ctx_begin(&ctx);
    *state = ctx;
    return failed;
}
static int teardown(void **state) { return ctx_end(*state); }

/* What --join takes, and what a process that was left behind tells itself. */
static void check_doors(weft_ctx *ctx, const char *text, const char *expected) {
    wefti_tcp_endpoint *endpoints;
    char got[2048] = "";
    size_t at = 0;
    int n;
    assert_int_equal(wefti_tcp_endpoints(ctx, text, 29500, 2, &endpoints, &n), WEFT_OK);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(got + at, sizeof got - at, "%s|%d ", endpoints[i].host,
                               endpoints[i].port);
    assert_string_equal(got, expected);
    wefti_free(ctx, endpoints);
}

TEST_IN(setup, teardown, doors_are_hosts_with_or_without_ports) {
    weft_ctx *ctx = *state;
    check_doors(ctx, "a", "a|29500 a|29501 ");
    check_doors(ctx, "a:7", "a|7 ");
    check_doors(ctx, "10.0.0.1:7,b,c:65535", "10.0.0.1|7 b|29500 b|29501 c|65535 ");
    check_doors(ctx, "fd00::2", "fd00::2|29500 fd00::2|29501 ");
    check_doors(ctx, "[fd00::2]:8,[::1]", "fd00::2|8 ::1|29500 ::1|29501 ");
}

TEST_IN(setup, teardown, what_is_no_door_is_refused) {
    static const char *const texts[] = {
        "",     ":7",     "a:",      "a:0", "a:65536", "a:99999999999999999999",
        "a:7x", "a:-7",   "a,",      ",a",  "a,,b",    "[::1",
        "[]:7", "[::1]7", "[::1]x:7"};
    weft_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        wefti_tcp_endpoint *endpoints;
        int n;
        if (wefti_tcp_endpoints(ctx, texts[i], 29500, 2, &endpoints, &n) !=
            WEFT_ERR_ARGUMENT)
            fail_msg("\"%s\" was taken", texts[i]);
        assert_null(endpoints);
        weft_ctx_clear(ctx);
    }
    char name[300];
    memset(name, 'a', sizeof name);
    name[256] = 0; /* longer than a name may be */
    wefti_tcp_endpoint *endpoints;
    int n;
    assert_int_equal(wefti_tcp_endpoints(ctx, name, 29500, 1, &endpoints, &n),
                     WEFT_ERR_ARGUMENT);
    name[255] = 0;
    assert_int_equal(wefti_tcp_endpoints(ctx, name, 29500, 1, &endpoints, &n), WEFT_OK);
    assert_int_equal(n, 1);
    wefti_free(ctx, endpoints);
}

/* A connection that ended before its process looked at it: the member can be called all the same,
 * and who has come since at another port of its machine. */
TEST(whose_connection_has_ended_can_be_called) {
    char where[64];
    int port = free_port(), listener = wefti_socket_listen(true, port);
    const struct linger at_once = {1, 0};
    connection peer = {.call = -1};
    unsigned char card[WEFTI_CARD_BYTES] = {0};
    tcp_transport t = {.peers = &peer, .cards = card, .endpoint = 29500};
    wefti_put_u32(card + 16, 29507);
    wefti_connection s = wefti_connection_of(
        wefti_socket_connect(NULL, "127.0.0.1", port, 1e9));
    int other = accept(listener, NULL, NULL);
    assert_true(s.fd >= 0 && other >= 0);
    setsockopt(other, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(other); /* a reset */
    assert_int_equal(recv(s.fd, where, 1, 0), -1);
    wefti_tcp_begin(&t, 0, s);
    assert_true(wefti_tcp_where(&t.head, 0, where, sizeof where));
    assert_string_equal(where, "127.0.0.1:29507");
    assert_int_equal(wefti_tcp_turn(&t.head, 0, 3), 3);
    assert_true(wefti_tcp_where(&t.head, 0, where, sizeof where));
    assert_string_equal(where, "127.0.0.1:29502");
    assert_int_equal(wefti_tcp_turn(&t.head, 0, WEFTI_TCP_PORTS + 1), 0);
    assert_true(wefti_tcp_where(&t.head, 0, where, sizeof where));
    assert_string_equal(where, "127.0.0.1:29507");
    wefti_connection_close(&peer.stream);
    close(listener);
}

/* As a member that was suspended: the system accepts, and nobody reads. With TLS a shake ends
 * before all time is up. */
TEST_IN(setup, teardown, who_stands_still_does_not_hang_up) {
    weft_ctx *ctx = *state;
    write_key("a.key", 'a', 0600);
    wefti_tls_context *tls[] = {
        NULL, context_of(&(weft_mesh_security){.struct_size = sizeof(weft_mesh_security),
                                               .key = "a.key"})};
    for (int i = 0; i < 2; i++) {
        wefti_tcp_endpoint *endpoints;
        wefti_connection *streams;
        wefti_late_table table;
        wefti_late_card card;
        char text[32];
        int listener, n, port = free_port(), still = wefti_socket_listen(true, port);
        snprintf(text, sizeof text, "127.0.0.1:%d", port);
        assert_ok(ctx, wefti_tcp_endpoints(ctx, text, 29500, 1, &endpoints, &n));
        const wefti_tcp_place place = {
            .patience_s = tls[i] ? 12 : 6, .endpoints = endpoints, .n_endpoints = n};
        assert_fails(
            ctx,
            wefti_late_enter(ctx, &place, tls[i], &streams, &table, &card, &listener),
            WEFT_ERR_PEER, "it accepted the call and did not answer; it may stand still");
        wefti_free(ctx, endpoints);
        wefti_tls_context_destroy(tls[i]);
        close(still);
    }
}
