/* SPDX-License-Identifier: MIT */
#pragma once

#include "probe/prober.h"

/* Measures the mixers' work on one thread of every rank. Collective. */
weft_status wefti_probe_mixers(wefti_prober *p, double seconds) WEFT_CHECKED;
