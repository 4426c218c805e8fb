/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

/* The one table of keys, ended by a NULL name. */
extern const weft_config_key wefti_config_keys[];

enum { WEFTI_MAX_KEYS = 192 };

/* The key of that name and its place in the table; NULL if there is none. */
const weft_config_key *wefti_config_key_find(const char *name);
int wefti_config_key_index(const weft_config_key *key);

/* Whether `name` is a section; *index its place. */
bool wefti_config_section_find(const char *name, int *index);

/* What the user probably meant by an unknown key: a key with the same last part, or one
 * that is a typo away; NULL if nothing is near. */
const char *wefti_config_key_guess(const char *name);

/* The same for an unknown section. */
const char *wefti_config_section_guess(const char *name);

/* Whether a key is of one machine: the name of a file or folder there, or how it computes. Machines
 * of a run may have different values of it, for what counts of a file is what is in it. */
bool wefti_config_key_is_own(const char *name);

/* The choice of that name, or NULL. */
const weft_choice *wefti_choice_find(const weft_choice *choices, const char *name);

/* The methods (presets.c), and what a method asks of the mesh. */
extern const weft_choice wefti_methods[];
/* Whether a method is nothing but the mean of all gradients. */
bool wefti_method_is_plain(const char *method);

/* The learning rate where neither a method's row nor the user names one, as it is typed; NULL:
 * the key's default stays. */
const char *wefti_method_rate(const weft_config *c, char *out, size_t out_size);
typedef struct wefti_method_need {
    const char *method, *key; /* an integer key */
    int64_t value;
    const char *instead; /* what to do otherwise */
} wefti_method_need;
extern const wefti_method_need wefti_method_needs[];
