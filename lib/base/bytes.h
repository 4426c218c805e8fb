/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>
#include <string.h>

/* Little-endian numbers in bytes, on any machine. */

/* Compilers turn a memcpy into one instruction, but not always a loop over bytes. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline void wefti_put_u16(unsigned char *p, uint32_t x) {
    uint16_t y = (uint16_t)x;
    memcpy(p, &y, sizeof y);
}

static inline uint32_t wefti_get_u16(const unsigned char *p) {
    uint16_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline void wefti_put_u32(unsigned char *p, uint32_t x) {
    memcpy(p, &x, sizeof x);
}

static inline void wefti_put_u64(unsigned char *p, uint64_t x) {
    memcpy(p, &x, sizeof x);
}

static inline uint32_t wefti_get_u32(const unsigned char *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline uint64_t wefti_get_u64(const unsigned char *p) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline void wefti_put_floats(int64_t n, const float *x, unsigned char *p) {
    memcpy(p, x, (size_t)n * sizeof *x);
}

static inline void wefti_get_floats(int64_t n, const unsigned char *p, float *x) {
    memcpy(x, p, (size_t)n * sizeof *x);
}
#else
static inline void wefti_put_u16(unsigned char *p, uint32_t x) {
    p[0] = (unsigned char)x;
    p[1] = (unsigned char)(x >> 8);
}

static inline uint32_t wefti_get_u16(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline void wefti_put_u32(unsigned char *p, uint32_t x) {
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(x >> (8 * i));
}

static inline void wefti_put_u64(unsigned char *p, uint64_t x) {
    for (int i = 0; i < 8; i++) p[i] = (unsigned char)(x >> (8 * i));
}

static inline uint32_t wefti_get_u32(const unsigned char *p) {
    uint32_t x = 0;
    for (int i = 0; i < 4; i++) x |= (uint32_t)p[i] << (8 * i);
    return x;
}

static inline uint64_t wefti_get_u64(const unsigned char *p) {
    uint64_t x = 0;
    for (int i = 0; i < 8; i++) x |= (uint64_t)p[i] << (8 * i);
    return x;
}

static inline void wefti_put_floats(int64_t n, const float *x, unsigned char *p) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        wefti_put_u32(p + 4 * i, bits);
    }
}

static inline void wefti_get_floats(int64_t n, const unsigned char *p, float *x) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = wefti_get_u32(p + 4 * i);
        memcpy(&x[i], &bits, sizeof bits);
    }
}
#endif

/* A double as its 64 bits. */
static inline void wefti_put_f64(unsigned char *p, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    wefti_put_u64(p, bits);
}

static inline double wefti_get_f64(const unsigned char *p) {
    uint64_t bits = wefti_get_u64(p);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
