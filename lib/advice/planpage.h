/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/* engine/record/page/page.html with the plan's script inserted, in two parts; the exported
 * model comes between them. Embedded into the program when weft is built
 * (cmake/embed_page.cmake). */
extern const char wefti_plan_page_head[], wefti_plan_page_tail[];
extern const size_t wefti_plan_page_head_bytes, wefti_plan_page_tail_bytes;
