/* SPDX-License-Identifier: MIT */
/* Addresses in a library that was built without libcurl. */
#include "store/http.h"

weft_status wefti_http(weft_ctx *ctx, wefti_verb verb, const wefti_transfer *t,
                       bool *there) {
    (void)verb;
    *there = false;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "%s is an address, and this weft was built without libcurl "
                         "(7.88 or newer): install libcurl4-openssl-dev and build again",
                         t->address);
}
