/* SPDX-License-Identifier: MIT */
/* Everything a program that uses weft includes, in the order of the data's way. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <weft/ctx.h>
#include <weft/status.h>

#endif
