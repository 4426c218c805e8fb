/* SPDX-License-Identifier: MIT */
/* The tests of a program, in the order of their lines. */
#include "check.h"

static struct row {
    int line;
    struct CMUnitTest test;
} rows[80];
static size_t n_rows;

void check_add(int line, const char *name, CMUnitTestFunction run,
               CMFixtureFunction before, CMFixtureFunction after) {
    if (n_rows == sizeof rows / sizeof *rows) abort();
    rows[n_rows++] = (struct row){line, {name, run, before, after, NULL}};
}

static int in_order(const void *a, const void *b) {
    return ((const struct row *)a)->line - ((const struct row *)b)->line;
}

int check_run(CMFixtureFunction before, CMFixtureFunction after) {
    struct CMUnitTest tests[sizeof rows / sizeof *rows];
    qsort(rows, n_rows, sizeof *rows, in_order);
    for (size_t i = 0; i < n_rows; i++) tests[i] = rows[i].test;
    return _cmocka_run_group_tests("tests", tests, n_rows, before, after);
}

__attribute__((weak)) int main(void) { return check_run(NULL, NULL); }
