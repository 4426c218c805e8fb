/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

/* engine/record/page/page.html with page.css and page.js in their places, in two parts: the
 * data of the runs comes between them. Written into the program when weft is built
 * (cmake/embed_page.cmake). */
extern const char wefti_page_head[], wefti_page_tail[];
extern const size_t wefti_page_head_bytes, wefti_page_tail_bytes;
