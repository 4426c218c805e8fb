/* SPDX-License-Identifier: MIT */
/* The program: finds the command and runs it. One file per command; registry.c lists them. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <weft/version.h>

#include "common.h"
#include "help.h"

static int unknown_command(const char *name) {
    const char *names[32];
    int n = 0;
    for (; commands[n] && n < 32; n++) names[n] = commands[n]->name;
    const char *guess = nearest_word(name, names, n);
    if (guess)
        return usage_error("unknown command '%s' (did you mean '%s'?)", name, guess);
    return usage_error("unknown command '%s', see weft --help", name);
}

/* Whether a flag of all commands is given, in its long or its short form. */
static bool asks_for(const char *name, const char *letter, int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], name) == 0 || strcmp(argv[i], letter) == 0) return true;
    return false;
}

static int version(void) {
    printf("weft %s\n", WEFT_VERSION);
    return CODE_OK;
}

static int help(const char *name) {
    const command *c = name ? command_find(name) : NULL;
    if (name && !c) return unknown_command(name);
    if (c)
        help_command(stdout, c);
    else
        help_overview(stdout);
    return CODE_OK;
}

static int dispatch(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "--help";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
        strcmp(word, "help") == 0)
        return help(argc > 2 ? argv[2] : NULL);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 ||
        strcmp(word, "version") == 0)
        return version();
    const command *c = command_find(word);
    if (!c && word[0] == '-') {
        static const char *const own[] = {"--help", "--version"};
        const char *guess = strcmp(word, "-v") == 0 ? own[1] : nearest_word(word, own, 2);
        if (guess) return usage_error("unknown flag %s (did you mean %s?)", word, guess);
        return usage_error("unknown flag %s, see weft --help", word);
    }
    if (!c) return unknown_command(word);
    if (asks_for("--help", "-h", argc - 1, argv + 1)) return help(word);
    if (asks_for("--version", "-V", argc - 1, argv + 1)) return version();
    if (c->configures) threads_sleep(argv);
    products_in_one_thread();
    return command_run(c, argc - 1, argv + 1);
}

/* The numbers of closed standard streams stay theirs: a run's file that had one would get
 * what is printed. Opened the wrong way round, they fail as closed ones do. */
static void keep_numbers_of_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
    keep_numbers_of_streams();
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error message, not a crash */
    return finish_output(dispatch(argc, argv));
}
