/* SPDX-License-Identifier: MIT */
/* Text for a terminal: messages without control characters and signatures of addresses, the most
 * likely word for a misspelt one, wrapped text. */
#include "say.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <weft/train.h>

#include "command.h"

const char *plain_text(const char *text, char *out, size_t out_size) {
    size_t n = 0;
    unsigned char before = 0;
    for (; text[n] && n + 1 < out_size; n++) {
        unsigned char byte = (unsigned char)text[n];
        bool second = before == 0xc2 && byte >= 0x80 &&
                      byte < 0xa0; /* U+0080 to U+009F */
        if (second) out[n - 1] = '?';
        out[n] = byte < 0x20 || byte == 0x7f || second ? '?' : text[n];
        before = byte;
    }
    out[n] = '\0';
    return weft_address_hide(out);
}

int usage_error(const char *format, ...) {
    char sentence[4096], shown[sizeof sentence];
    va_list values;
    va_start(values, format);
    vsnprintf(sentence, sizeof sentence, format, values);
    va_end(values);
    fprintf(stderr, "weft: %s\n", plain_text(sentence, shown, sizeof shown));
    return CODE_USAGE;
}

const char *nearest_word(const char *word, const char *const *words, int n) {
    size_t best_common = 0;
    const char *best = NULL;
    for (int i = 0; i < n; i++) {
        size_t front = 0, back = 0, a = strlen(word), b = strlen(words[i]);
        size_t shorter = a < b ? a : b, longer = a < b ? b : a;
        while (front < shorter && word[front] == words[i][front]) front++;
        while (back < shorter - front && word[a - 1 - back] == words[i][b - 1 - back])
            back++;
        /* the differing part must be short: two letters or a third of the word, and less
         * than half
         */
        size_t differs = longer - front - back, allowed = longer / 3 > 2 ? longer / 3 : 2;
        if (differs > allowed || 2 * differs >= longer || front + back <= best_common)
            continue;
        best_common = front + back;
        best = words[i];
    }
    return best;
}

void print_wrapped(FILE *out, int indent, int width, const char *text) {
    int column = indent;
    bool start = true;
    while (*text) {
        int n = (int)strcspn(text, " \n");
        if (!start && column + 1 + n > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            start = true;
        }
        if (n > 0) {
            fprintf(out, "%s%.*s", start ? "" : " ", n, text);
            column += n + !start;
            start = false;
        }
        text += n;
        if (strncmp(text, "\n\n", 2) == 0) {
            fprintf(out, "\n\n%*s", indent, "");
            column = indent;
            start = true;
            text++;
        }
        if (*text) text++;
    }
    fputc('\n', out);
}
