/* SPDX-License-Identifier: MIT */
#pragma once

/* The present name of a key, or of a key's value ("section.key=value"), that had another
 * name in an earlier version; NULL: it was not renamed. Old names are refused, with the
 * new name in the message. */
const char *wefti_renamed(const char *old);
