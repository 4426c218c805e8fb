/* SPDX-License-Identifier: MIT */
/* Parses the command line of one command: flags with and without a value, operands, and "--". */
#include "args.h"

#include <string.h>

#include "say.h"

static const char output[] = "--output"; /* the long form of -o, which the tables have */

static int flag_index(const command *c, const char *name, size_t n) {
    if (n == sizeof output - 1 && strncmp(name, output, n) == 0) name = "-o", n = 2;
    for (int i = 0; c->flags && c->flags[i].name && i < MAX_FLAGS; i++)
        if (strlen(c->flags[i].name) == n && strncmp(c->flags[i].name, name, n) == 0)
            return i;
    return -1;
}

/* Of `weft train`, whose command line is given to other commands, too. */
static bool starts_a_run(const command *c, const char *name) {
    const command *train = command_find("train");
    return c->configures && flag_index(train, name, strlen(name)) >= 0;
}

static int unknown_flag(const command *c, const char *text, size_t n) {
    char name[64];
    const char *names[MAX_FLAGS + 3] = {"--help", "--version"};
    int n_names = 2;
    if (flag_index(c, "-o", 2) >= 0) names[n_names++] = output;
    for (const flag *f = c->flags; f && f->name && n_names < MAX_FLAGS + 3; f++)
        names[n_names++] = f->name;
    if (n >= sizeof name) n = sizeof name - 1;
    memcpy(name, text, n);
    name[n] = '\0';
    if (starts_a_run(c, name))
        return usage_error("%s is about how 'weft train' starts and sets no key, so "
                           "'weft %s' does not take it",
                           name, c->name);
    const char *guess = nearest_word(name, names, n_names);
    if (guess)
        return usage_error("unknown flag %s of 'weft %s' (did you mean %s?)", name,
                           c->name, guess);
    return usage_error("unknown flag %s of 'weft %s', see weft %s --help", name, c->name,
                       c->name);
}

/* Parses the flag at argv[*i] and its argument. */
static int take_flag(args *out, int argc, char **argv, int *i) {
    const char *text = argv[*i];
    size_t n = strcspn(text, "=");
    int index = flag_index(out->command, text, n);
    if (text[n] && n == strlen("--help") && strncmp(text, "--help", n) == 0)
        return usage_error("--help takes no value, found '%s'", text + n + 1);
    if (index < 0) return unknown_flag(out->command, text, n);
    const flag *f = &out->command->flags[index];
    if (!f->placeholder && text[n])
        return usage_error("%s takes no value, found '%s'", f->name, text + n + 1);
    if (!f->placeholder)
        out->values[index] = "";
    else if (text[n])
        out->values[index] = text + n + 1;
    else if (*i + 1 < argc)
        out->values[index] = argv[++*i];
    else
        return usage_error("%s needs a value: %s %s", f->name, f->name, f->placeholder);
    if (out->n_given == MAX_GIVEN)
        return usage_error("more than %d flags, found %s", (int)MAX_GIVEN, f->name);
    out->given[out->n_given].flag = index;
    out->given[out->n_given++].value = out->values[index];
    return CODE_OK;
}

int args_parse(const command *c, int argc, char **argv, args *out) {
    *out = (args){.command = c, .operands = argv + (argc > 0)};
    bool flags_end = false;
    for (int i = 1; i < argc; i++) {
        bool is_flag = !flags_end && argv[i][0] == '-' && argv[i][1];
        if (is_flag && strcmp(argv[i], "--") == 0) {
            flags_end = true;
            continue;
        }
        int code = is_flag ? take_flag(out, argc, argv, &i) : CODE_OK;
        if (code != CODE_OK) return code;
        if (!is_flag) out->operands[out->n_operands++] = argv[i];
    }
    return CODE_OK;
}

const char *args_value(const args *a, const char *name) {
    int index = flag_index(a->command, name, strlen(name));
    return index < 0 ? NULL : a->values[index];
}

bool args_knows(const args *a, const char *name) {
    return flag_index(a->command, name, strlen(name)) >= 0;
}

const char *args_nth(const args *a, const char *name, int k) {
    int index = flag_index(a->command, name, strlen(name));
    for (int i = 0; i < a->n_given; i++)
        if (a->given[i].flag == index && k-- == 0) return a->given[i].value;
    return NULL;
}

bool args_has(const args *a, const char *name) { return args_value(a, name) != NULL; }

static int refuse(const char *name, const char *text, weft_quantity unit,
                  interval within) {
    char expected[128], meant[64];
    bool known = weft_quantity_guess(text, unit, meant, sizeof meant);
    weft_quantity_expected(unit, within.low, within.high, expected, sizeof expected);
    return usage_error("%s is '%s', expected %s%s%s%s", name, text, expected,
                       known ? " (did you mean '" : "", known ? meant : "",
                       known ? "'?)" : "");
}

/* A whole number as a count or in plain digits. */
static int whole(const args *a, const char *name, weft_quantity unit, interval within,
                 long long *out) {
    const char *text = args_value(a, name);
    int64_t value;
    if (!text) return CODE_OK;
    if (!weft_quantity_parse_int(text, unit, &value) || (double)value < within.low ||
        (double)value > within.high)
        return refuse(name, text, unit, within);
    *out = value;
    return CODE_OK;
}

int args_int(const args *a, const char *name, long long min, long long max,
             long long *out) {
    return whole(a, name, WEFT_UNIT_COUNT, (interval){(double)min, (double)max}, out);
}

int args_plain(const args *a, const char *name, long long min, long long max,
               long long *out) {
    return whole(a, name, WEFT_UNIT_PLAIN, (interval){(double)min, (double)max}, out);
}

int args_quantity(const args *a, const char *name, weft_quantity unit, interval within,
                  double *out) {
    const char *text = args_value(a, name);
    double value;
    if (!text) return CODE_OK;
    if (!weft_quantity_parse(text, unit, &value) ||
        !(value >= within.low && value <= within.high))
        return refuse(name, text, unit, within);
    *out = value;
    return CODE_OK;
}

int args_expect(const args *a, int min, int max) {
    const char *name = a->command->name;
    if (a->n_operands > max && max > 8) /* more than a usage names */
        return usage_error("%d arguments are %d too many, expected: weft %s %s",
                           a->n_operands, a->n_operands - max, name, a->command->usage);
    if (a->n_operands > max)
        return usage_error("'%s' is one argument too many, expected: weft %s %s",
                           a->operands[max], name, a->command->usage);
    if (a->n_operands < min)
        return usage_error("an argument is missing, expected: weft %s %s", name,
                           a->command->usage);
    return CODE_OK;
}
