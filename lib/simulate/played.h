/* SPDX-License-Identifier: MIT */
#pragma once

/* One step of one rank. */
typedef struct wefti_played {
    double step_s, exchange_s, wait_s;
    double codec_s, wire_s, late_s; /* of wait_s */
    double status_s;                /* waiting for the ranks' status, beside it */
} wefti_played;
