/* SPDX-License-Identifier: MIT */
/* The table of a rank's facts, and its two uses: encoding as bytes for other ranks, and as JSON.
 *
 * Bytes: the magic "WFD1", then each field in the order of the table: texts at their full
 * size, numbers as 8 bytes little-endian. */
#include "base/sized.h"
#include "doctor/fact_fields.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "text/json.h"

#define PLACE(field)                                                                     \
    offsetof(weft_rank_facts, field), sizeof(((weft_rank_facts *)0)->field)
#define FIELD(field, kind) {#field, WEFTI_FIELD_##kind, PLACE(field)},
#define TEXT(field) FIELD(field, TEXT)
#define WHOLE(field) FIELD(field, WHOLE)
#define REAL(field) FIELD(field, REAL)
#define BITS(field) FIELD(field, BITS)

/* In the order of the bytes: a new one is the last. */
/* clang-format off */
#define FIELDS \
    WHOLE(rank) WHOLE(size) WHOLE(ranks_here) WHOLE(process_ranks) TEXT(launcher) \
    TEXT(version) TEXT(mpi) TEXT(blas) TEXT(blas_core) BITS(program_hash) \
    BITS(library_hash) TEXT(host) TEXT(system) TEXT(processor) WHOLE(instructions) \
    WHOLE(cores) WHOLE(cores_allowed) BITS(cpus) WHOLE(memory_nodes) REAL(cpu_quota) \
    REAL(load) TEXT(governor) WHOLE(memory_bytes) WHOLE(memory_available_bytes) \
    WHOLE(memory_limit_bytes) WHOLE(memory_limit_used_bytes) WHOLE(swap_bytes) \
    WHOLE(swap_used_bytes) WHOLE(clock_synchronized) REAL(clock_error_s) \
    REAL(clock_offset_s) REAL(clock_offset_error_s) WHOLE(host_resolves) \
    TEXT(host_address) TEXT(interfaces) WHOLE(n_interfaces) TEXT(interface) \
    TEXT(address) WHOLE(mtu) WHOLE(speed_Mbit) TEXT(openblas_coretype) TEXT(openblas_l2) \
    TEXT(openblas_threads) TEXT(omp_threads) TEXT(omp_bind) TEXT(ucx_tls) TEXT(mca_btl) \
    TEXT(mca_interface) TEXT(mca) WHOLE(has_run) BITS(config_hash) WHOLE(nodes) \
    WHOLE(ranks_per_node) WHOLE(threads) WHOLE(memory_needed_bytes) WHOLE(data_files) \
    WHOLE(data_bytes) WHOLE(data_missing) BITS(data_hash) TEXT(data_path) TEXT(folder) \
    TEXT(folder_type) WHOLE(folder_shared) WHOLE(folder_error) WHOLE(disk_free_bytes) \
    WHOLE(disk_needed_bytes) BITS(machine) WHOLE(send_buffer) WHOLE(receive_buffer) \
    TEXT(congestion) TEXT(chosen) TEXT(calls)
/* clang-format on */

const wefti_fact_field wefti_rank_fields[] = {FIELDS{NULL, WEFTI_FIELD_TEXT, 0, 0}};

enum { MAGIC = 4 };
static const char magic[MAGIC] = {'W', 'F', 'D', '1'};

size_t wefti_facts_bytes(void) {
    size_t n = MAGIC;
    for (const wefti_fact_field *f = wefti_rank_fields; f->name; f++) n += f->size;
    return n;
}

/* Every field that is not a text consists of 8-byte words. */
void wefti_facts_encode(const weft_rank_facts *facts, void *bytes) {
    unsigned char *out = bytes;
    memcpy(out, magic, MAGIC);
    out += MAGIC;
    for (const wefti_fact_field *f = wefti_rank_fields; f->name; f++) {
        const char *value = (const char *)facts + f->offset;
        if (f->kind == WEFTI_FIELD_TEXT) memcpy(out, value, f->size);
        for (size_t i = 0; f->kind != WEFTI_FIELD_TEXT && i < f->size; i += 8) {
            uint64_t word;
            memcpy(&word, value + i, sizeof word);
            wefti_put_u64(out + i, word);
        }
        out += f->size;
    }
}

weft_status wefti_facts_decode(weft_ctx *ctx, const void *bytes, size_t n,
                               weft_rank_facts *out) {
    const unsigned char *in = bytes;
    *out = (weft_rank_facts){.struct_size = sizeof(weft_rank_facts)};
    if (n != wefti_facts_bytes() || memcmp(in, magic, MAGIC) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                             "a rank's facts have %zu bytes and begin unlike this weft's "
                             "%zu: the ranks run different versions of weft",
                             n, wefti_facts_bytes());
    in += MAGIC;
    for (const wefti_fact_field *f = wefti_rank_fields; f->name; f++) {
        char *value = (char *)out + f->offset;
        if (f->kind == WEFTI_FIELD_TEXT) {
            if (!memchr(in, '\0', f->size))
                return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                                     "a rank's facts: the text %s has no end", f->name);
            memcpy(value, in, f->size);
        }
        for (size_t i = 0; f->kind != WEFTI_FIELD_TEXT && i < f->size; i += 8) {
            uint64_t word = wefti_get_u64(in + i);
            memcpy(value + i, &word, sizeof word);
        }
        in += f->size;
    }
    return WEFT_OK;
}

/* Texts come from files and the environment; bytes that are not ASCII become '?' if the
 * text is not valid UTF-8. */
static json_t *text_value(const char *text) {
    char plain[512];
    json_t *value = json_string(text);
    if (value) return value;
    size_t n = 0;
    for (; text[n] && n < sizeof plain - 1; n++)
        plain[n] = (unsigned char)text[n] < 128 ? text[n] : '?';
    plain[n] = '\0';
    return json_string(plain);
}

static json_t *bits_value(const wefti_fact_field *f, const char *value) {
    static const char digits[] = "0123456789abcdef";
    char text[16 * WEFT_DOCTOR_CPU_WORDS + 1];
    size_t n = 0, last = f->size / 8;
    for (size_t w = last; w-- > 0;) { /* most significant word first */
        uint64_t word;
        memcpy(&word, value + 8 * w, sizeof word);
        if (n == 0 && word == 0 && w > 0) continue;
        for (int shift = 60; shift >= 0; shift -= 4)
            text[n++] = digits[(word >> shift) & 15];
    }
    text[n] = '\0';
    return json_string(text);
}

static json_t *field_value(const wefti_fact_field *f, const char *value) {
    int64_t whole;
    double real;
    switch (f->kind) {
    case WEFTI_FIELD_TEXT: return text_value(value);
    case WEFTI_FIELD_BITS: return bits_value(f, value);
    case WEFTI_FIELD_WHOLE:
        memcpy(&whole, value, sizeof whole);
        return json_integer(whole);
    case WEFTI_FIELD_REAL: break;
    }
    memcpy(&real, value, sizeof real);
    return isfinite(real) ? json_real(real) : json_null();
}

weft_status weft_doctor_facts_json(weft_ctx *ctx, const weft_rank_facts *facts,
                                   char **text) {
    *text = NULL;
    WEFTI_SIZED_IN(ctx, weft_rank_facts, facts);
    json_t *object = json_object();
    int bad = object ? 0 : -1;
    for (const wefti_fact_field *f = wefti_rank_fields; f->name && bad == 0; f++)
        bad = json_object_set_new(object, f->name,
                                  field_value(f, (const char *)facts + f->offset));
    int64_t n_bytes;
    weft_status status = wefti_json_text(ctx, bad == 0 ? object : NULL,
                                         JSON_REAL_PRECISION(9), text, &n_bytes);
    json_decref(object);
    return status;
}
