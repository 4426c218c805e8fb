/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

enum { KEY_TEXT_BYTES = 66 };

/* Makes a new key as the line of its file: 64 hexadecimal digits. False with errno. */
bool key_make(char text[KEY_TEXT_BYTES]);
