/* SPDX-License-Identifier: MIT */
#ifndef WEFT_QUANTITY_H
#define WEFT_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a number counts, and so the units that its text may have. Keys, flags and files read
 * numbers by these rules alone. */
typedef enum weft_quantity {
    WEFT_UNIT_COUNT,  /**< plain, or k M G T P in any case (powers of 1000); b as G: 7B */
    WEFT_UNIT_NUMBER, /**< plain, or k M G (m may be milli) */
    WEFT_UNIT_SHARE,  /**< plain, or % */
    WEFT_UNIT_BYTES,  /**< B kB MB GB TB KiB MiB GiB, k M G T; also in small letters */
    WEFT_UNIT_TIME,   /**< s ms us ns min h d, and a (365.25 d); 0 needs none. In s */
    WEFT_UNIT_SECONDS, /**< as TIME, or plain: seconds. In s */
    WEFT_UNIT_RATE, /**< bit kbit Mbit Gbit Tbit in any case, with "/s" or without; MB/s GB/s,
                          MBps GBps, ...; as iperf3 prints: Mbits/sec. In byte/s */
    WEFT_UNIT_LINK, /**< as RATE, or k M G T: 1G is 1 Gbit/s, as links are called. In byte/s */
    WEFT_UNIT_WORK,  /**< plain, or M G T P, with "FLOP/s" or without. In FLOP/s */
    WEFT_UNIT_PLAIN, /**< digits alone: a port, a row. Of whole numbers only */
    WEFT_UNIT_PRICE /**< 2.10, $2.10/h, 2.10 EUR/hour: for an hour, in any money: a sign, or
                         three capital letters */
} weft_quantity;

/** Reads "100Mbit", "10ms", "4MB", "5%", "1e-3". Returns false, and leaves *out alone, unless the
 * whole text is a finite number with a unit of the quantity. */
WEFT_API bool weft_quantity_parse(const char *text, weft_quantity unit, double *out);

/** The money of a price, "$" or "EUR", at most `size` - 1 bytes; "": none is named. */
WEFT_API void weft_quantity_money(const char *price, char *out, size_t size);

/** The same for whole numbers, exactly: "12", "16k", also "1.5M" and "1e6". A number with a unit or
 * an exponent is at most 2^53. */
WEFT_API bool weft_quantity_parse_int(const char *text, weft_quantity unit, int64_t *out);

/** Reads two with a comma between them: "100Mbit,10ms", "8h,30%". */
WEFT_API bool weft_quantity_parse_pair(const char *text, const weft_quantity units[2],
                                       double out[2]);

/** What was probably meant by a text that is no such quantity: "5min" by "5m". Returns false if
 * nobody knows, or if it is longer than `size` - 1. */
WEFT_API bool weft_quantity_guess(const char *text, weft_quantity unit, char *out,
                                  size_t size);

/** Writes what is expected, such as "a time such as 5min from 0 to 3600 s", cut off at `size`; low
 * and high are in the quantity's own unit, and no limit from 1e15 on. Returns out. */
WEFT_API const char *weft_quantity_expected(weft_quantity unit, double low, double high,
                                            char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
