/* SPDX-License-Identifier: MIT */
/* `weft key new`: 32 random bytes as hex, for mesh.key. The output file becomes
 * accessible only to its owner. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

enum { KEY_BYTES = 32 };

static const char *const actions[] = {"new", NULL};

/* Makes the file that the shell has opened as stdout accessible only to its owner. */
static int protect_output(void) {
    struct stat info;
    if (fstat(STDOUT_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return CODE_OK;
    if (fchmod(STDOUT_FILENO, S_IRUSR | S_IWUSR) == 0) return CODE_OK;
    fprintf(stderr, "weft: could not make the key's file private: %s\n", strerror(errno));
    return CODE_FAILED;
}

bool key_make(char text[KEY_TEXT_BYTES]) {
    unsigned char key[KEY_BYTES];
    for (size_t n = 0; n < sizeof key;) {
        ssize_t got = getrandom(key + n, sizeof key - n, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        n += (size_t)got;
    }
    for (int i = 0; i < KEY_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", key[i]);
    memcpy(text + 2 * KEY_BYTES, "\n", 2);
    explicit_bzero(key, sizeof key);
    return true;
}

static int print_key(void) {
    char text[KEY_TEXT_BYTES];
    if (!key_make(text)) {
        fprintf(stderr, "weft: no random bytes: %s\n", strerror(errno));
        return CODE_FAILED;
    }
    fputs(text, stdout);
    explicit_bzero(text, sizeof text);
    return CODE_OK;
}

static int run(weft_ctx *ctx, args *a) {
    (void)ctx;
    if (strcmp(a->operands[0], "new") != 0)
        return usage_error("nothing to do with a key called '%s', expected weft key new",
                           a->operands[0]);
    int code = protect_output();
    return code == CODE_OK ? print_key() : code;
}

const command command_key = {
    .name = "key",
    .summary = "make the key that the machines of a run share",
    .usage = "new > run.key",
    .help = "Prints 32 random bytes as hexadecimal digits and makes the file that they "
            "go to readable only by its owner. Anybody who has the file can take part in "
            "the run: copy it by scp, and name it by mesh.key=run.key or WEFT_KEY_FILE "
            "on every machine. A file that others can read is refused. docs/launching.md "
            "says what it protects.",
    .words = actions,
    .least = 1,
    .most = 1,
    .run = run,
};
