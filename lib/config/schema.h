/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

/* The table of all keys; a NULL name ends it. */
extern const weft_config_key wefti_config_keys[];

enum { WEFTI_MAX_KEYS = 192 };

/* The key of that name, or NULL; and the index of a key in the table. */
const weft_config_key *wefti_config_key_find(const char *name);
int wefti_config_key_index(const weft_config_key *key);

/* Whether `name` is a section; *index is its index. */
bool wefti_config_section_find(const char *name, int *index);

/* What the user probably meant by an unknown key: a key with the same last part, or one
 * that differs by a typo; NULL if there is none. */
const char *wefti_config_key_guess(const char *name);

/* The same for an unknown section. */
const char *wefti_config_section_guess(const char *name);

/* Whether a key belongs to one machine: the name of a file or folder there, or how the
 * machine computes. The machines of a run may have different values of such a key; of a
 * file only the contents matter. */
bool wefti_config_key_is_own(const weft_config_key *key);

/* The choice of that name, or NULL. */
const weft_choice *wefti_choice_find(const weft_choice *choices, const char *name);

/* The methods (methods.def), and what a method requires of the mesh. */
extern const weft_choice wefti_methods[];
/* Whether a method is just the mean of all gradients. */
bool wefti_method_is_plain(const char *method);

/* The learning rate, as text, if neither the method's row nor the user sets one; NULL:
 * use the key's default. */
const char *wefti_method_rate(const weft_config *c, char *out, size_t out_size);
/* mixer.outer_every, as text, where the method's is longer than a run of this length wants;
 * NULL: the method's own. With less than four outer steps the nodes are apart for most of it. */
const char *wefti_method_interval(const weft_config *c, char *out, size_t out_size);
/* mixer.outer_momentum, as text, where the run has too few outer steps for the method's; NULL: the
 * method's own. */
const char *wefti_method_momentum(const weft_config *c, char *out, size_t out_size);
typedef struct wefti_method_need {
    const char *method, *key; /* an integer key */
    int64_t value;
    const char *instead; /* what to use instead, for the error message */
} wefti_method_need;
extern const wefti_method_need wefti_method_needs[];
