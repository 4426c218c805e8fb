/* SPDX-License-Identifier: MIT */
/* Rates that fit differ by a factor of ten among methods, so a rate that is carried over
 * from another one is the usual mistake. */
#include "job/doubts.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/schema.h"

static const double far = 4; /* times the usual rate, or a part of it */

void wefti_job_doubt(weft_ctx *ctx, const weft_config *c) {
    char text[32], times[48];
    const char *own = wefti_method_rate(c, text, sizeof text);
    double said = c->optimizer.lr, usual = own ? strtod(own, NULL) : said;
    if (said <= 0 || (said >= usual / far && said <= usual * far)) return;
    if (said > usual)
        snprintf(times, sizeof times, "%.3g times", said / usual);
    else
        snprintf(times, sizeof times, "1/%.3g of", usual / said);
    weft_ctx_log(ctx, WEFT_LOG_WARN,
                 "optimizer.lr is %g, %s the rate of method %s with %s for a model of "
                 "this width: %s, which is taken where optimizer.lr is left out",
                 said, times, c->method, c->optimizer.kind, own);
}
