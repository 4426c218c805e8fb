/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "checkpoint/safetensors.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

static const wefti_tensor_spec three[] = {
    {"wte", 2, 5, 3, {0}}, {"bias", 1, 7, 1, {0}}, {"head", 2, 2, 4, {0}}};

/* ---- files made by hand ---- */

/* Length, header, then n_data bytes of `data` (or of zeros). */
static void write_file(const char *path, const char *header, const void *data,
                       size_t n_data) {
    size_t n = strlen(header);
    unsigned char *all = calloc(1, 8 + n + n_data);
    assert_non_null(all);
    for (int i = 0; i < 8; i++) all[i] = (unsigned char)(n >> (8 * i));
    memcpy(all + 8, header, n);
    if (data) memcpy(all + 8 + n, data, n_data);
    put_bytes(path, all, (int64_t)(8 + n + n_data));
    free(all);
}

static weft_status try_open(const char *path) {
    wefti_safetensors *file;
    weft_status status = wefti_safetensors_open(ctx, path, false, &file);
    if (status != WEFT_OK) {
        assert_null(file);
        return status;
    }
    return wefti_safetensors_close(ctx, file);
}

/* ---- writing and reading ---- */

static void fill(float *data, int64_t n, float first) {
    for (int64_t i = 0; i < n; i++) data[i] = first + (float)i;
}

TEST(rows_of_several_writers_come_back) {
    float wte[15], bias[7], head[8], got[15];
    wefti_safetensors *a, *b;
    fill(wte, 15, 1), fill(bias, 7, 100), fill(head, 8, -50);
    assert_ok(ctx, wefti_safetensors_create(ctx, "w.safetensors", three, 3, NULL, &a));
    assert_ok(ctx, wefti_safetensors_open(ctx, "w.safetensors", true, &b));
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, a, 0, 0, 2, wte));
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, b, 0, 2, 3, wte + 6));
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, b, 1, 0, 7, bias));
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, a, 2, 1, 1, head + 4));
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, b, 2, 0, 1, head));
    assert_ok(ctx, wefti_safetensors_close(ctx, a));
    assert_ok(ctx, wefti_safetensors_close(ctx, b));
    assert_ok(ctx, wefti_safetensors_open(ctx, "w.safetensors", false, &a));
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, a, 0, 0, 5, got));
    assert_memory_equal(got, wte, sizeof wte);
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, a, 1, 3, 4, got));
    assert_memory_equal(got, bias + 3, 4 * sizeof(float));
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, a, 2, 0, 2, got));
    assert_memory_equal(got, head, sizeof head);
    assert_ok(ctx, wefti_safetensors_close(ctx, a));
}

TEST(large_tensors_keep_every_bit) {
    enum {
        ROWS = 301,
        COLS = 173
    }; /* more than a conversion chunk, not a multiple of it */
    wefti_tensor_spec spec = {"t", 2, ROWS, COLS, {0}};
    static float data[ROWS * COLS], got[ROWS * COLS];
    for (uint64_t i = 0; i < ROWS * COLS; i++) {
        uint32_t bits = (uint32_t)wefti_rng_u64(3, WEFTI_STREAM_TEST, 0, i);
        memcpy(&data[i], &bits, sizeof bits); /* any bits, NaN and infinity too */
    }
    wefti_safetensors *file;
    assert_ok(ctx, wefti_safetensors_create(ctx, "l.safetensors", &spec, 1, NULL, &file));
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, file, 0, 0, ROWS, data));
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, file, 0, 0, ROWS, got));
    assert_memory_equal(got, data, sizeof data);
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
}

TEST(file_has_the_bytes_of_the_format) {
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}";
    static const char *const metadata[] = {"format", "pt", NULL};
    static const wefti_tensor_spec specs[] = {{"a", 2, 1, 2, {0}}, {"b", 1, 1, 1, {0}}};
    static const unsigned char numbers[] = {0, 0, 128, 63, 0, 0, 0, 192, 0, 0, 0, 0};
    float row[] = {1, -2};
    wefti_safetensors *file;
    assert_ok(ctx,
              wefti_safetensors_create(ctx, "b.safetensors", specs, 2, metadata, &file));
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, file, 0, 0, 1, row));
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
    char *data;
    int64_t n;
    assert_ok(ctx, wefti_file_read(ctx, "b.safetensors", 4096, &data, &n));
    size_t text = strlen(header), padded = (text + 7) / 8 * 8;
    assert_int_equal(n, 8 + padded + 12);
    assert_int_equal((unsigned char)data[0], padded);
    for (int i = 1; i < 8; i++) assert_int_equal(data[i], 0);
    assert_memory_equal(data + 8, header, text);
    for (size_t i = text; i < padded; i++) assert_int_equal(data[8 + i], ' ');
    assert_memory_equal(data + 8 + padded, numbers, sizeof numbers);
    wefti_free(ctx, data);
}

TEST(names_and_shapes_are_found) {
    static const char *const metadata[] = {"format", "weft", "step", "12", NULL};
    wefti_safetensors *file;
    assert_ok(ctx,
              wefti_safetensors_create(ctx, "m.safetensors", three, 3, metadata, &file));
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
    assert_ok(ctx, wefti_safetensors_open(ctx, "m.safetensors", false, &file));
    assert_int_equal(wefti_safetensors_count(file), 3);
    for (int i = 0; i < 3; i++) {
        const wefti_tensor_spec *spec = wefti_safetensors_spec(file, i);
        assert_string_equal(spec->name, three[i].name);
        assert_int_equal(spec->ndim, three[i].ndim);
        assert_int_equal(spec->rows, three[i].rows);
        assert_int_equal(spec->cols, three[i].cols);
        assert_int_equal(wefti_safetensors_find(file, three[i].name), i);
    }
    assert_int_equal(wefti_safetensors_find(file, "absent"), -1);
    assert_null(wefti_safetensors_spec(file, 3));
    assert_null(wefti_safetensors_spec(file, -1));
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
}

TEST(tensors_without_rows_keep_their_place) {
    static const wefti_tensor_spec specs[] = {{"z", 2, 0, 3, {0}},
                                              {"a", 2, 0, 3, {0}},
                                              {"m", 1, 2, 1, {0}},
                                              {"c", 1, 0, 1, {0}}};
    wefti_safetensors *file;
    float got[2] = {1, 2};
    assert_ok(ctx, wefti_safetensors_create(ctx, "z.safetensors", specs, 4, NULL, &file));
    for (int i = 0; i < 4; i++)
        assert_string_equal(wefti_safetensors_spec(file, i)->name, specs[i].name);
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, file, 0, 0, 0, got));
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, file, 2, 0, 2, got));
    got[0] = got[1] = 0;
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, file, 2, 0, 2, got));
    assert_true(got[0] == 1 && got[1] == 2);
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
}

TEST(unwritten_rows_are_zero_in_a_replaced_file) {
    wefti_safetensors *file;
    char junk[4096];
    float got[15];
    memset(junk, 0x5a, sizeof junk);
    put_bytes("o.safetensors", junk, sizeof junk);
    assert_ok(ctx, wefti_safetensors_create(ctx, "o.safetensors", three, 3, NULL, &file));
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, file, 0, 0, 5, got));
    for (int i = 0; i < 15; i++) assert_true(got[i] == 0);
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
    assert_ok(ctx, try_open("o.safetensors"));
}

/* ---- other dtypes ---- */

/* The value of f16 bits from the definition, in double. */
static double value_of_f16(int bits) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double size = exponent == 0 ? ldexp(mantissa, -24)
                                : ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) size = mantissa ? NAN : INFINITY;
    return bits >> 15 ? -size : size;
}

TEST(every_f16_is_read_as_its_value) {
    static unsigned char data[2 * 65536];
    static float got[65536];
    wefti_safetensors *file;
    for (int i = 0; i < 65536; i++) {
        data[2 * i] = (unsigned char)i;
        data[2 * i + 1] = (unsigned char)(i >> 8);
    }
    write_file(
        "h.safetensors",
        "{\"h\":{\"dtype\":\"F16\",\"shape\":[256,256],\"data_offsets\":[0,131072]}}",
        data, sizeof data);
    assert_ok(ctx, wefti_safetensors_open(ctx, "h.safetensors", false, &file));
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, file, 0, 0, 256, got));
    for (int i = 0; i < 65536; i++) {
        double expected = value_of_f16(i);
        if (isnan(expected))
            assert_true(isnan(got[i]));
        else
            assert_true((double)got[i] == expected && !signbit(got[i]) == !(i >> 15));
    }
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, file, 0, 60, 1, got));
    assert_true(got[0] == 1.0f); /* row 60 begins with 0x3c00 */
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
}

TEST(bf16_is_the_upper_half_of_f32) {
    static const unsigned char data[] = {0x80, 0x3f, 0x49, 0xc0, 0x80, 0x7f, 1, 0};
    float got[4];
    wefti_safetensors *file;
    write_file("bf.safetensors",
               "{\"x\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]}}", data,
               8);
    assert_ok(ctx, wefti_safetensors_open(ctx, "bf.safetensors", false, &file));
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, file, 0, 0, 4, got));
    assert_true(got[0] == 1.0f && got[1] == -3.140625f && isinf(got[2]));
    assert_true(got[3] == ldexpf(1, -133)); /* the smallest subnormal */
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
}

TEST(other_dtypes_and_dimensions_are_refused_by_name) {
    float got[8];
    wefti_safetensors *file;
    write_file(
        "d.safetensors",
        "{\"ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"flags\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,12]},"
        "\"exact\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[12,20]},"
        "\"mask\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,2],\"data_offsets\":[20,28]},"
        "\"one\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[28,32]},"
        "\"good\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[32,36]}}",
        "0123456789012345678901234567890\0\0\0\x80\x3f", 36);
    assert_ok(ctx, wefti_safetensors_open(ctx, "d.safetensors", true, &file));
    assert_fails(ctx, wefti_safetensors_read_rows(ctx, file, 0, 0, 1, got),
                 WEFT_ERR_FORMAT, "'ids' of d.safetensors has the dtype I64");
    assert_fails(ctx, wefti_safetensors_read_rows(ctx, file, 1, 0, 4, got),
                 WEFT_ERR_FORMAT, "U8");
    assert_fails(ctx, wefti_safetensors_read_rows(ctx, file, 2, 0, 1, got),
                 WEFT_ERR_FORMAT, "F64");
    assert_fails(ctx, wefti_safetensors_read_rows(ctx, file, 3, 0, 1, got),
                 WEFT_ERR_FORMAT, "'mask' of d.safetensors has 5 dimensions");
    assert_fails(ctx, wefti_safetensors_write_rows(ctx, file, 3, 0, 1, got),
                 WEFT_ERR_FORMAT, "mask");
    assert_fails(ctx, wefti_safetensors_read_rows(ctx, file, 4, 0, 1, got),
                 WEFT_ERR_FORMAT, "0 dimensions");
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, file, 5, 0, 1, got));
    assert_true(got[0] == 1.0f);
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
}

/* Three and four dimensions: written as they are said, read as rows and columns; a first
 * dimension of 1 before two others is no row. */
TEST(more_dimensions_keep_their_shape_and_their_rows) {
    static const wefti_tensor_spec specs[] = {{"pos", 3, 3, 2, {1, 3, 2}},
                                              {"patch", 4, 2, 8, {2, 2, 2, 2}}};
    static const float pos[] = {1, 2, 3, 4, 5, 6};
    float patch[16], got[16], two[2];
    wefti_safetensors *file;
    for (int i = 0; i < 16; i++) patch[i] = (float)(i * i);
    assert_ok(ctx, wefti_safetensors_create(ctx, "n.safetensors", specs, 2, NULL, &file));
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, file, 0, 0, 3, pos));
    assert_ok(ctx, wefti_safetensors_write_rows(ctx, file, 1, 0, 2, patch));
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
    assert_ok(ctx, wefti_safetensors_open(ctx, "n.safetensors", false, &file));
    const wefti_tensor_spec *spec = wefti_safetensors_spec(file, 0);
    assert_true(spec->ndim == 3 && spec->dims[0] == 1 && spec->dims[1] == 3);
    assert_true(spec->rows == 3 && spec->cols == 2);
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, file, 0, 1, 1, two));
    assert_true(two[0] == 3 && two[1] == 4);
    spec = wefti_safetensors_spec(file, 1);
    assert_true(spec->ndim == 4 && spec->rows == 2 && spec->cols == 8);
    assert_ok(ctx, wefti_safetensors_read_rows(ctx, file, 1, 0, 2, got));
    assert_memory_equal(got, patch, sizeof patch);
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
}

/* ---- arguments ---- */

TEST(rows_outside_are_refused) {
    wefti_safetensors *file;
    float data[64] = {0};
    assert_ok(ctx, wefti_safetensors_create(ctx, "r.safetensors", three, 3, NULL, &file));
    assert_fails(ctx, wefti_safetensors_write_rows(ctx, file, 0, 4, 2, data),
                 WEFT_ERR_ARGUMENT, "it has 5");
    assert_fails(ctx, wefti_safetensors_write_rows(ctx, file, 0, INT64_MAX, 2, data),
                 WEFT_ERR_ARGUMENT, "it has 5");
    assert_fails(ctx, wefti_safetensors_read_rows(ctx, file, 0, 0, INT64_MAX, data),
                 WEFT_ERR_ARGUMENT, "it has 5");
    assert_fails(ctx, wefti_safetensors_read_rows(ctx, file, 0, -1, 2, data),
                 WEFT_ERR_ARGUMENT, "-1");
    assert_fails(ctx, wefti_safetensors_read_rows(ctx, file, 0, 0, -1, data),
                 WEFT_ERR_ARGUMENT, "-1");
    assert_fails(ctx, wefti_safetensors_read_rows(ctx, file, 3, 0, 1, data),
                 WEFT_ERR_ARGUMENT, "has 3 tensors");
    assert_fails(ctx, wefti_safetensors_write_rows(ctx, file, -1, 0, 1, data),
                 WEFT_ERR_ARGUMENT, "tensor -1");
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
    assert_ok(ctx, wefti_safetensors_open(ctx, "r.safetensors", false, &file));
    assert_fails(ctx, wefti_safetensors_write_rows(ctx, file, 0, 0, 1, data),
                 WEFT_ERR_ARGUMENT, "can not be written");
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
    assert_ok(ctx, wefti_safetensors_close(ctx, NULL));
}

static void create_refuses(const wefti_tensor_spec *specs, int n,
                           const char *const *metadata, const char *words) {
    wefti_safetensors *file;
    remove("c.safetensors");
    assert_fails(
        ctx, wefti_safetensors_create(ctx, "c.safetensors", specs, n, metadata, &file),
        WEFT_ERR_ARGUMENT, words);
    assert_null(file);
    assert_int_equal(access("c.safetensors", F_OK), -1);
}

TEST(impossible_tables_are_refused_before_a_file_exists) {
    static const wefti_tensor_spec twins[] = {
        {"x", 1, 2, 1, {0}}, {"y", 1, 2, 1, {0}}, {"x", 2, 1, 1, {0}}};
    static const wefti_tensor_spec bad[] = {
        {"t", 3, 2, 2, {2, 2, 2}}, {"t", 5, 2, 2, {0}},  {"t", 0, 1, 1, {0}},
        {"t", 1, 2, 2, {0}},       {"t", 2, -1, 2, {0}}, {"t", 2, 2, -1, {0}}};
    static const wefti_tensor_spec huge = {"t", 2, INT64_MAX / 8, 3, {0}};
    static const wefti_tensor_spec sum[] = {{"s", 1, INT64_MAX / 8, 1, {0}},
                                            {"t", 1, INT64_MAX / 8, 1, {0}},
                                            {"u", 1, INT64_MAX / 8, 1, {0}}};
    static const wefti_tensor_spec unnamed = {"", 1, 1, 1, {0}},
                                   reserved = {"__metadata__", 1, 1, 1, {0}},
                                   bytes = {"\xff\xfe", 1, 1, 1, {0}},
                                   fine = {"t", 1, 1, 1, {0}};
    static const char *const twice[] = {"k", "1", "k", "2", NULL};
    static const char *const latin[] = {"k", "\xe9", NULL};
    static const char *const latin_key[] = {"\xe9", "v", NULL};
    create_refuses(twins, 3, NULL, "the name 'x'");
    for (int i = 0; i < 6; i++)
        create_refuses(&bad[i], 1, NULL, "tensor 't' of c.safetensors");
    create_refuses(&huge, 1, NULL, "too many");
    create_refuses(sum, 3, NULL, "too many");
    create_refuses(&unnamed, 1, NULL, "not empty");
    create_refuses(&reserved, 1, NULL, "__metadata__");
    create_refuses(&bytes, 1, NULL, "UTF-8");
    create_refuses(&fine, 1, twice, "'k'");
    create_refuses(&fine, 1, latin,
                   "the metadata 'k' of c.safetensors has a value that is not");
    create_refuses(&fine, 1, latin_key, "the metadata key '");
}

/* ---- hostile files ---- */

typedef struct bad_header {
    const char *json;
    int n_data;
    const char *words;
} bad_header;

#define T(dtype, shape, offsets)                                                         \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const bad_header bad_headers[] = {
    {"", 0, "'{'"},
    {" {}", 0, "'{'"},
    {"[]", 0, "'{'"},
    {"{", 0, "'{'"},
    {"{ ", 0, "JSON"},
    {"{}x", 0, "JSON"},
    {"{\"t\":1}", 0, "'t'"},
    {"{\"t\":null}", 0, "'t'"},
    {"{\"t\":{}}", 0, "'t'"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
     "'t'"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"offsets\":[0,4]}}", 4, "data_offsets"},
    {"{\"t\":" T("F33", "[1]", "[0,4]") "}", 4, "'F33'"},
    {"{\"t\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
    {"{\"t\":" T("F32", "1", "[0,4]") "}", 4, "shape"},
    {"{\"t\":" T("F32", "[1.0]", "[0,4]") "}", 4, "dimension 0"},
    {"{\"t\":" T("F32", "[-1]", "[0,4]") "}", 4, "dimension 0"},
    {"{\"t\":" T("F32", "[1,\"2\"]", "[0,4]") "}", 4, "dimension 1"},
    {"{\"t\":" T("F32", "[1]", "[0,8]") "}", 8, "expected 4 bytes"},
    {"{\"t\":" T("F32", "[2]", "[0,4]") "}", 4, "expected 8 bytes"},
    {"{\"t\":" T("F32", "[1]", "[4,0]") "}", 4, "bytes 4 to 0"},
    {"{\"t\":" T("F32", "[1]", "[-4,0]") "}", 4, "data_offsets"},
    {"{\"t\":" T("F32", "[1]", "[0]") "}", 4, "data_offsets"},
    {"{\"t\":" T("F32", "[1]", "[0,4,8]") "}", 4, "data_offsets"},
    {"{\"t\":" T("F32", "[1]", "[0,4.0]") "}", 4, "data_offsets"},
    {"{\"t\":" T("F32", "[1]", "{}") "}", 4, "data_offsets"},
    {"{\"t\":" T("F32", "[1]", "[0,4]") "}", 8, "holds 8 bytes of data, expected 4"},
    {"{\"t\":" T("F32", "[1]", "[0,4]") "}", 3, "holds 3 bytes of data, expected 4"},
    {"{}", 1, "holds 1 bytes"},
    {"{\"t\":" T("F32", "[1]", "[4,8]") "}", 8, "begins at byte 4, expected 0"},
    {"{\"t\":" T("F32", "[1]", "[0,4]") ",\"u\":" T("F32", "[1]", "[8,12]") "}", 12,
     "begins at byte 8, expected 4"},
    {"{\"t\":" T("F32", "[2]", "[0,8]") ",\"u\":" T("F32", "[2]", "[4,12]") "}", 12,
     "begins at byte 4, expected 8"},
    {"{\"t\":" T("F32", "[1]", "[0,4]") ",\"t\":" T("F32", "[1]", "[4,8]") "}", 8,
     "duplicate"},
    {"{\"t\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, "duplicate"},
    {"{\"t\":" T("F32", "[4611686018427387904]", "[0,4]") "}", 4, "too many"},
    {"{\"t\":" T("F32", "[2147483648,4294967296]", "[0,0]") "}", 0, "too many"},
    {"{\"t\":" T("F32", "[4294967296,4294967296,4294967296]", "[0,0]") "}", 0,
     "too many"},
    {"{\"t\":" T("F32", "[0,4294967296,4294967296]", "[0,0]") "}", 0, "too many"},
    {"{\"t\":" T("F32", "[18446744073709551617]", "[0,4]") "}", 4, "JSON"},
    {"{\"t\":" T("U8", "[9223372036854775807]", "[0,9223372036854775807]") "}", 4,
     "expected 9223372036854775807"},
    {"{\"__metadata__\":[]}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "'k'"},
    {"{\"\xff\":1}", 0, "JSON"},
    {"{\"a\\u0000b\":1}", 0, "JSON"},
};

TEST(faulty_headers_are_refused_with_the_fault) {
    for (size_t i = 0; i < sizeof bad_headers / sizeof bad_headers[0]; i++) {
        const bad_header *bad = &bad_headers[i];
        write_file("bad.safetensors", bad->json, NULL, (size_t)bad->n_data);
        assert_fails(ctx, try_open("bad.safetensors"), WEFT_ERR_FORMAT, bad->words);
    }
}

TEST(header_lengths_beyond_the_file_are_refused) {
    static const uint64_t lengths[] = {
        3, 4, 1 << 20, INT64_MAX, 1ull << 63, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        unsigned char all[10] = {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
        for (int k = 0; k < 8; k++) all[k] = (unsigned char)(lengths[i] >> (8 * k));
        put_bytes("len.safetensors", all, sizeof all);
        assert_fails(ctx, try_open("len.safetensors"), WEFT_ERR_FORMAT,
                     "expected at most 2");
    }
    unsigned char long_length[8] = {1, 0, 0,
                                    1}; /* 16 MiB + 1, and the file has that many */
    put_bytes("len.safetensors", long_length, 8);
    assert_int_equal(truncate("len.safetensors", 17 << 20), 0);
    assert_fails(ctx, try_open("len.safetensors"), WEFT_ERR_FORMAT,
                 "expected at most 16777216");
    remove("len.safetensors");
}

TEST(deep_nesting_is_refused) {
    enum { DEEP = 1 << 20 };
    char *json = malloc(DEEP + 16);
    assert_non_null(json);
    memcpy(json, "{\"t\":", 5);
    memset(json + 5, '[', DEEP);
    json[5 + DEEP] = '\0';
    write_file("deep.safetensors", json, NULL, 0);
    free(json);
    assert_fails(ctx, try_open("deep.safetensors"), WEFT_ERR_FORMAT, "depth");
    remove("deep.safetensors");
}

TEST(a_file_cut_anywhere_is_refused) {
    wefti_safetensors *file;
    char *data;
    int64_t n;
    assert_ok(ctx,
              wefti_safetensors_create(ctx, "cut.safetensors", three, 3, NULL, &file));
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
    assert_ok(ctx, wefti_file_read(ctx, "cut.safetensors", 1 << 20, &data, &n));
    for (int64_t cut = n - 1; cut >= 0; cut--) {
        assert_int_equal(truncate("cut.safetensors", cut), 0);
        assert_fails(ctx, try_open("cut.safetensors"), WEFT_ERR_FORMAT,
                     "cut.safetensors");
    }
    wefti_free(ctx, data);
}

/* Opens a file with random damage; what opens must be readable to its last byte. */
TEST(damaged_headers_never_lead_outside) {
    static const char header[] = "{\"a\":" T("F32", "[2,3]", "[0,24]") ",\"b\":" T(
        "F16", "[4]", "[24,32]") ",\"__metadata__\":{\"k\":\"v\"}}";
    enum { N = sizeof header - 1 };
    int opened = 0;
    for (uint64_t trial = 0; trial < 4000; trial++) {
        char damaged[N + 1];
        memcpy(damaged, header, sizeof damaged);
        uint64_t n_changes = 1 + trial % 3;
        for (uint64_t k = 0; k < n_changes; k++) {
            uint64_t r = wefti_rng_u64(11, WEFTI_STREAM_TEST, trial, k);
            static const char letters[] = "0123456789[]{},:\"-abFe \x80";
            damaged[r % N] = letters[(r >> 32) % (sizeof letters - 1)];
        }
        write_file("fuzz.safetensors", damaged, NULL, 32);
        wefti_safetensors *file;
        if (wefti_safetensors_open(ctx, "fuzz.safetensors", false, &file) != WEFT_OK) {
            assert_true(weft_ctx_message(ctx)[0]);
            weft_ctx_clear(ctx);
            continue;
        }
        opened++;
        for (int i = 0; i < wefti_safetensors_count(file); i++) {
            float got[64];
            const wefti_tensor_spec *spec = wefti_safetensors_spec(file, i);
            assert_true(spec->rows >= 0 && spec->cols >= 0 &&
                        spec->rows * spec->cols <= 64);
            (void)!wefti_safetensors_read_rows(ctx, file, i, 0, spec->rows, got);
        }
        weft_ctx_clear(ctx);
        assert_ok(ctx, wefti_safetensors_close(ctx, file));
    }
    assert_true(opened > 10);
}

TEST(a_file_that_shrinks_while_open_is_an_error) {
    wefti_safetensors *file;
    float got[15];
    assert_ok(ctx, wefti_safetensors_create(ctx, "s.safetensors", three, 3, NULL, &file));
    assert_int_equal(truncate("s.safetensors", 300), 0);
    assert_fails(ctx, wefti_safetensors_read_rows(ctx, file, 2, 0, 2, got),
                 WEFT_ERR_FORMAT, "ends at");
    assert_ok(ctx, wefti_safetensors_close(ctx, file));
}

TEST(things_that_are_no_files_are_refused_without_waiting) {
    remove("fifo.safetensors");
    assert_int_equal(mkfifo("fifo.safetensors", 0600), 0);
    assert_fails(ctx, try_open("fifo.safetensors"), WEFT_ERR_FILE, "not a regular file");
    assert_fails(ctx, try_open("."), WEFT_ERR_FILE, "not a regular file");
    assert_fails(ctx, try_open("absent.safetensors"), WEFT_ERR_FILE, "No such file");
    remove("fifo.safetensors");
}

/* ---- the machine's limits ---- */

TEST(a_full_disk_is_found_at_creation_and_leaves_no_file) {
    struct rlimit before, small;
    wefti_safetensors *file;
    wefti_tensor_spec spec = {"t", 2, 1000, 1000, {0}};
    remove("full.safetensors");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1 << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    weft_status status = wefti_safetensors_create(ctx, "full.safetensors", &spec, 1, NULL,
                                                  &file);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_fails(ctx, status, WEFT_ERR_FILE, "could not reserve 4000");
    assert_null(file);
    assert_int_equal(access("full.safetensors", F_OK), -1);
}

static weft_status write_and_read(void *user) {
    (void)user;
    static const char *const metadata[] = {"k", "v", NULL};
    wefti_safetensors *file;
    WEFT_TRY(wefti_safetensors_create(ctx, "a.safetensors", three, 3, metadata, &file));
    WEFT_TRY(wefti_safetensors_close(ctx, file));
    WEFT_TRY(wefti_safetensors_open(ctx, "a.safetensors", false, &file));
    return wefti_safetensors_close(ctx, file);
}

TEST(every_allocation_failure_is_clean) {
    assert_true(fail_each_allocation(ctx, NULL, write_and_read, NULL) > 10);
}

int main(void) { return check_run(setup, teardown); }
