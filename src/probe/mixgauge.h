/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_MIXGAUGE_H
#define WEFTI_MIXGAUGE_H

#include "probe/prober.h"

/* Measures the mixers' work on one thread of every rank. Collective. */
weft_status wefti_probe_mixers(wefti_prober *p, double seconds) WEFT_CHECKED;

#endif
