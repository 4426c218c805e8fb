/* SPDX-License-Identifier: MIT */
#pragma once

/* The keys that a choice of `chooser` ("mixer.kind") reads and not every other choice does:
 * their last parts, NULL-terminated; NULL: none. */
const char *const *wefti_kind_keys(const char *chooser, const char *kind);
