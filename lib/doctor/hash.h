/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* XXH3 of the first `most` bytes of a file; 0 if it cannot be read. */
uint64_t wefti_digest_file(const char *path, int64_t most, uint64_t seed);
uint64_t wefti_digest_text(const char *text);
