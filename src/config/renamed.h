/* SPDX-License-Identifier: MIT */
#pragma once

/* The name today of a key, or of a key's value ("section.key=value"), that had another
 * one in an earlier version; NULL: it had none. Old names are refused, with the new name
 * in the message. */
const char *wefti_renamed(const char *old);
