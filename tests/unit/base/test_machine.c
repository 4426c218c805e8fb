/* SPDX-License-Identifier: MIT */
/* Counters of a machine, from a /proc of the test's own. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine.h"

static weft_ctx *ctx;

static int setup(void **state) {
    if (room_begin(&ctx) != 0) return -1;
    return mkdir("room/proc", 0777) == 0 && mkdir("room/proc/net", 0777) == 0 ? 0 : -1;
}

static int teardown(void **state) { return ctx_end(ctx); }

static void put(const char *path, const char *text) {
    put_bytes(path, text, (int64_t)strlen(text));
}

TEST(the_number_is_the_machines) {
    uint64_t number = wefti_machine_number();
    assert_true(number != 0 && wefti_machine_number() == number);
    assert_int_equal(setenv("WEFT_MACHINE", "a", 1), 0);
    uint64_t a = wefti_machine_number();
    assert_int_equal(setenv("WEFT_MACHINE", "b", 1), 0);
    uint64_t b = wefti_machine_number();
    assert_int_equal(unsetenv("WEFT_MACHINE"), 0);
    assert_true(a != b && a != number && b != number);
    assert_true(wefti_machine_number() == number);
}

TEST_IN(setup, teardown, busy_is_all_but_idle_and_waiting) {
    double busy, all, ticks = (double)sysconf(_SC_CLK_TCK);
    put("room/proc/stat", "cpu  10 20 30 400 50 6 7 8 9 1\ncpu0 1 2 3 4\n");
    wefti_machine_busy("room", &busy, &all);
    assert_true(fabs(all * ticks - 531) < 1e-9 && fabs(busy * ticks - 81) < 1e-9);
    put("room/proc/stat", "cpu  10 20 30 400\n"); /* of an old kernel */
    wefti_machine_busy("room", &busy, &all);
    assert_true(fabs(busy * ticks - 60) < 1e-9);
    put("room/proc/stat", "intr 5\n");
    wefti_machine_busy("room", &busy, &all);
    assert_true(isnan(busy) && isnan(all));
    wefti_machine_busy("none", &busy, &all);
    assert_true(isnan(busy) && isnan(all));
}

TEST_IN(setup, teardown, bytes_that_leave_the_machine_count_once) {
    double out, in;
    put("room/proc/net/dev", "Inter-|   Receive                            |  Transmit\n"
                             " face |bytes    packets errs drop fifo frame compressed "
                             "multicast|bytes    packets\n"
                             "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n"
                             "  eth0: 1000 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n"
                             "enp3s0:5 1 0 0 0 0 0 0 300000000000 1 0 0 0 0 0 0\n"
                             "docker0: 777 1 0 0 0 0 0 0 777 1 0 0 0 0 0 0\n"
                             "veth12ab: 777 1 0 0 0 0 0 0 777 1 0 0 0 0 0 0\n"
                             "broken: x\n");
    wefti_machine_network("room", &out, &in);
    assert_true(in == 1005 && out == 300000000020.0);
    wefti_machine_network("none", &out, &in);
    assert_true(isnan(out) && isnan(in));
}

TEST_IN(setup, teardown, this_machine_tells_something) {
    double busy, all;
    wefti_machine_busy(NULL, &busy, &all);
    assert_true(isnan(all) || (busy >= 0 && busy <= all));
    assert_true(wefti_machine_cores() >= 1);
}
