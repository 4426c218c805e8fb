/* SPDX-License-Identifier: MIT */
/* demo beside the published code of DeMo. That code (github.com/bloc97/DeMo at 0e48145, f32,
 * decay 0.9, k 3, chunk 8, lr 0.5) was run for four steps of two ranks on a matrix, a vector, a
 * vector of prime length and a flat matrix. Its definition in double gives the same signs and the
 * same momentum; and where its chunks, the largest divisors of the axes, are as long as demo's,
 * demo gives what the definition gives. */
#include <math.h>

#include "ranks.h"
#include "replicate/replicator.h"

enum { SHAPES = 4, ALL = 120 + 14 + 13 + 154, TURNS = 4, RANKS = 3 };

static const wefti_piece pieces[SHAPES] = {{12, 10, 0, true, 0},
                                           {14, 1, 120, false, 1},
                                           {13, 1, 134, false, 2},
                                           {7, 22, 147, true, 3}};

/* The direction of each step: of every element '-', '0' or '+'. */
static const char *const published_signs[TURNS] = {
    "-++-++--+-+--+-+++--+--++--+++--++----+++-++-+--+--+--+-++-+----+--+-++--+-+"
    "--+-++++-++----++----+---+++++-+++++--+-+--+-+--+----++--+---++----+--+-----"
    "-+-++--+++--++++----+-++-++-++-++-++---+--+-++-++-+--+--++--++-+--++-+--+--+"
    "+-++--++++--++++--++--+--+--+-++--+-++--++-++--+-++-++-++---+++---+++--++",
    "+----+++---++--+--++-+++++--++---+++-++-+--++-++--+++---+--+++-+--+--+--+-++"
    "--++-+--+--++--+--+-++----+-+++--+++-+-+--+-+---+++--++-+----+++--++-+-++-++"
    "+--+----++---+--++---++--+-+--++-+-+-+++---++--+-++-++-+++-++-++-++++--++-++"
    "--++++--+++---+--+---+-+--++--++++--++++---++++-++---+++-+++--+---+++-+-+",
    "--++-+++---++----++-+---++--+++--++-+--+++----++---+++-++++--++-++--++++--++"
    "++--+-++---+++--++-+--++-++-+++--+-+--+-++--++---++---++--+---++----++-+-+-+"
    "--++++--+++++-+-+++--+--+-++--++++-++--++---+-+--+-+--++-+++--++---++----++-"
    "+---++--+++--++++--+++++--+++---++-+--++-+++-+--+++---++-----+-+---++---+",
    "++----+++--++--+-+-+++---+---+++---++--+-++---+-+----++--++--+--+-+++-+++--+"
    "+--+--+++---++---++--++-++---++++-+++--++--++++--+++--++++++--++++-++-++--+-"
    "+---++-+--+----++++-+-++--++++--+------++++--+--+-++--+---+--++++--+-+--++--"
    "+--++-+--++----+---+--++-+-+++-++-+--+------++++--++----++------+-+-++--+"};

/* What rank 0 keeps after the last step. */
static const float published_momentum[ALL] = {-0.267655f,
                                              0.204057f,
                                              0.0519392f,
                                              -0.243776f,
                                              0.00662679f,
                                              -0.0340948f,
                                              -0.109477f,
                                              0.104454f,
                                              -0.154458f,
                                              -0.204555f,
                                              -0.184625f,
                                              0.367532f,
                                              0.0945204f,
                                              -0.0898258f,
                                              -0.0550193f,
                                              -0.189232f,
                                              0.403623f,
                                              0.287457f,
                                              -0.347411f,
                                              -0.157851f,
                                              0.193685f,
                                              -0.0135708f,
                                              -0.130616f,
                                              0.147497f,
                                              0.144654f,
                                              -0.134863f,
                                              0.232065f,
                                              0.122615f,
                                              0.0838524f,
                                              0.0688406f,
                                              0.294391f,
                                              -0.213132f,
                                              -0.124278f,
                                              0.0288476f,
                                              0.0505333f,
                                              0.0806095f,
                                              -0.129083f,
                                              -0.0623165f,
                                              0.338388f,
                                              -0.0387541f,
                                              -0.14735f,
                                              -0.108212f,
                                              0.193787f,
                                              -0.0700673f,
                                              -0.217967f,
                                              -0.0291779f,
                                              -0.250061f,
                                              0.11332f,
                                              0.236219f,
                                              -0.323515f,
                                              -0.163746f,
                                              0.0763245f,
                                              0.0598193f,
                                              -0.103595f,
                                              -0.0938478f,
                                              -0.103234f,
                                              -0.267887f,
                                              0.037019f,
                                              0.0150744f,
                                              0.0200571f,
                                              0.0796156f,
                                              0.0747337f,
                                              -0.222781f,
                                              0.0683896f,
                                              0.254045f,
                                              0.327761f,
                                              0.174486f,
                                              -0.0335355f,
                                              -0.273423f,
                                              -0.107538f,
                                              0.370922f,
                                              0.239178f,
                                              -0.221044f,
                                              -0.139777f,
                                              0.125687f,
                                              0.0475884f,
                                              0.261447f,
                                              -0.217623f,
                                              -0.18904f,
                                              0.413242f,
                                              0.04926f,
                                              0.0217429f,
                                              0.0814975f,
                                              -0.129152f,
                                              -0.0918436f,
                                              -0.332079f,
                                              0.114007f,
                                              0.00127478f,
                                              0.0745815f,
                                              0.212264f,
                                              -0.0953056f,
                                              -0.128645f,
                                              0.0241878f,
                                              -0.198741f,
                                              -0.033351f,
                                              -0.12235f,
                                              -0.132778f,
                                              0.0561039f,
                                              0.0886165f,
                                              -0.141724f,
                                              0.0473105f,
                                              0.23876f,
                                              -0.0782129f,
                                              -0.32258f,
                                              -0.0445774f,
                                              0.173494f,
                                              -0.00201088f,
                                              0.086503f,
                                              -0.156658f,
                                              -0.280093f,
                                              0.173292f,
                                              0.263742f,
                                              -0.0398049f,
                                              0.0490963f,
                                              -0.080286f,
                                              -0.0779825f,
                                              0.0809687f,
                                              0.289703f,
                                              0.0454187f,
                                              -0.194399f,
                                              0.0450696f,
                                              0.0245919f,
                                              -0.015059f,
                                              -0.0235043f,
                                              -0.0261019f,
                                              0.00469315f,
                                              0.0202562f,
                                              0.0443041f,
                                              -0.00683942f,
                                              0.0112558f,
                                              -0.0447736f,
                                              -0.015706f,
                                              -0.00174907f,
                                              0.0135082f,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              -0.160901f,
                                              0.0361156f,
                                              -0.0769076f,
                                              0.0781834f,
                                              0.304995f,
                                              0.0808219f,
                                              -0.144488f,
                                              0.247022f,
                                              -0.103233f,
                                              0.0969093f,
                                              -0.175597f,
                                              -0.249938f,
                                              0.0958773f,
                                              0.111439f,
                                              -0.100097f,
                                              0.257064f,
                                              -0.0298195f,
                                              0.151624f,
                                              0.385907f,
                                              0.354968f,
                                              -0.0906576f,
                                              0.0322639f,
                                              -0.135625f,
                                              0.06404f,
                                              -0.029856f,
                                              -0.087933f,
                                              0.0456426f,
                                              0.195682f,
                                              0.130031f,
                                              -0.0187783f,
                                              -0.122048f,
                                              0.0392539f,
                                              0.131771f,
                                              -0.301039f,
                                              -0.155049f,
                                              -0.110141f,
                                              0.0346638f,
                                              0.2115f,
                                              -0.13344f,
                                              -0.00129819f,
                                              0.31041f,
                                              0.343627f,
                                              0.0416621f,
                                              -0.180944f,
                                              -0.213805f,
                                              -0.115418f,
                                              0.0100175f,
                                              -0.0273251f,
                                              -0.173325f,
                                              0.015687f,
                                              0.210263f,
                                              -0.112723f,
                                              -0.0347696f,
                                              -0.135454f,
                                              0.15587f,
                                              -0.23378f,
                                              -0.182124f,
                                              -0.212611f,
                                              -0.00836924f,
                                              0.0579008f,
                                              -0.0171665f,
                                              -0.0374424f,
                                              0.0907101f,
                                              0.108485f,
                                              0.144702f,
                                              -0.197357f,
                                              -0.208394f,
                                              -0.227523f,
                                              -0.0551964f,
                                              0.0431896f,
                                              -0.184234f,
                                              -0.175926f,
                                              0.0211676f,
                                              -0.127514f,
                                              -0.0349356f,
                                              -0.166503f,
                                              -0.0581062f,
                                              -0.0665266f,
                                              -0.105251f,
                                              -0.0876423f,
                                              -0.000255466f,
                                              -0.021345f,
                                              0.0944969f,
                                              -0.0734633f,
                                              -0.0263443f,
                                              -0.0430483f,
                                              0.0503198f,
                                              -0.15051f,
                                              -0.144493f,
                                              -0.240816f,
                                              -0.0839683f,
                                              0.102287f,
                                              -0.0834219f,
                                              -0.232241f,
                                              -0.191351f,
                                              -0.0747151f,
                                              -0.0491893f,
                                              -0.0621345f,
                                              -0.302553f,
                                              0.087724f,
                                              0.0486196f,
                                              0.0776646f,
                                              -0.00140387f,
                                              -0.0657583f,
                                              0.124854f,
                                              -0.0583923f,
                                              -0.0496242f,
                                              -0.0654485f,
                                              -0.0963121f,
                                              -0.0245672f,
                                              -0.0671658f,
                                              -0.217871f,
                                              -0.000427531f,
                                              0.149586f,
                                              -0.00711621f,
                                              -0.112468f,
                                              -0.204456f,
                                              -0.0236733f,
                                              0.0366206f,
                                              0.0885141f,
                                              -0.364321f,
                                              0.0906722f,
                                              0.200729f,
                                              0.109723f,
                                              -0.0626221f,
                                              -0.184671f,
                                              0.0476595f,
                                              0.0542074f,
                                              -0.038258f,
                                              -0.0290547f,
                                              -0.141909f,
                                              0.139697f,
                                              0.150131f,
                                              -0.0787802f,
                                              -0.0280519f,
                                              0.00640181f,
                                              0.09746f,
                                              0.228444f,
                                              -0.119937f,
                                              -0.18839f,
                                              0.0990674f,
                                              0.347901f,
                                              -0.170422f,
                                              -0.110471f,
                                              0.107416f,
                                              0.121787f,
                                              0.0651895f,
                                              -0.327584f,
                                              -0.238255f,
                                              0.116436f,
                                              0.124279f,
                                              0.127551f,
                                              -0.213587f,
                                              0.0756346f};

static void make_gradient(int rank, int step, float *g) {
    for (int j = 0; j < SHAPES; j++) {
        int64_t n = pieces[j].rows * pieces[j].cols;
        for (int64_t i = 0; i < n; i++) {
            double x = (double)i;
            double y = sin(1.7 * x + 2.9 * rank + 0.6 * step + j) *
                       cos(0.31 * x * (rank + 1) + 1.3 * step);
            g[pieces[j].offset + i] = (float)y;
        }
    }
}

/* -- the definition in double -- */

static int divisor(int n, int most) {
    int best = 1;
    for (int d = 1; d <= most; d++)
        if (n % d == 0) best = d;
    return best;
}

static double dct(int n, int f, int i) {
    const double pi = 3.14159265358979323846;
    return sqrt((f ? 2.0 : 1.0) / n) * cos(pi * (2 * i + 1) * f / (2 * n));
}

enum { MOST = 64 * 64 };

/* y <- DCT of the h x w numbers x, or back. */
static void transform(int h, int w, bool back, const double *x, double *y) {
    for (int f = 0; f < h; f++)
        for (int e = 0; e < w; e++) {
            double sum = 0;
            for (int i = 0; i < h; i++)
                for (int j = 0; j < w; j++)
                    sum += x[i * w + j] * (back ? dct(h, i, f) * dct(w, j, e)
                                                : dct(h, f, i) * dct(w, e, j));
            y[f * w + e] = sum;
        }
}

static void keep_largest(int n, int k, double *x) {
    static bool chosen[MOST];
    memset(chosen, 0, sizeof chosen);
    for (int turn = 0; turn < k; turn++) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (!chosen[i] && (best < 0 || fabs(x[i]) > fabs(x[best]))) best = i;
        chosen[best] = true;
    }
    for (int i = 0; i < n; i++)
        if (!chosen[i]) x[i] = NAN;
}

/* One chunk of all ranks: m loses what is sent, d gets the mean of it. */
static void exchange_chunk(int R, int h, int w, int stride, double *const *m, int k,
                           double *d) {
    static double x[MOST], q[MOST], y[MOST], sum[MOST];
    static int senders[MOST];
    memset(sum, 0, sizeof sum);
    memset(senders, 0, sizeof senders);
    for (int r = 0; r < R; r++) {
        for (int i = 0; i < h * w; i++) x[i] = m[r][i / w * stride + i % w];
        transform(h, w, false, x, q);
        keep_largest(h * w, k, q);
        for (int i = 0; i < h * w; i++) {
            senders[i] += !isnan(q[i]);
            q[i] = isnan(q[i]) ? 0 : q[i];
            sum[i] += q[i];
        }
        transform(h, w, true, q, y);
        for (int i = 0; i < h * w; i++) m[r][i / w * stride + i % w] -= y[i];
    }
    for (int i = 0; i < h * w; i++) sum[i] /= senders[i] ? senders[i] : 1;
    transform(h, w, true, sum, y);
    for (int i = 0; i < h * w; i++) d[i / w * stride + i % w] = y[i];
}

static void exchange_piece(int R, int rows, int cols, int c, int k, double *const *m,
                           double *d) {
    int h = divisor(rows, c), w = divisor(cols, c);
    for (int row = 0; row < rows; row += h) {
        for (int col = 0; col < cols; col += w) {
            double *at[RANKS];
            for (int r = 0; r < R; r++) at[r] = m[r] + row * cols + col;
            exchange_chunk(R, h, w, cols, at, k < h * w ? k : h * w,
                           d + row * cols + col);
        }
    }
}

/* One step of all ranks on a piece; m, d: where it begins. */
static void step_piece(int R, const wefti_piece *piece, int c, int k, double *const *m,
                       double *d) {
    double *at[RANKS];
    for (int r = 0; r < R; r++) at[r] = m[r] + piece->offset;
    bool is_vector = piece->cols == 1;
    exchange_piece(R, is_vector ? 1 : (int)piece->rows,
                   (int)(is_vector ? piece->rows : piece->cols), c, k, at,
                   d + piece->offset);
}

static void accumulate(int64_t n, const float *g, double *m) {
    for (int64_t i = 0; i < n; i++) m[i] = 0.9 * m[i] + 0.5 * (double)g[i];
}

TEST(the_definition_gives_what_the_published_code_gives) {
    static double m[2][ALL], d[ALL];
    double *const both[] = {m[0], m[1]};
    for (int t = 0; t < TURNS; t++) {
        static float g[ALL];
        for (int r = 0; r < 2; r++) {
            make_gradient(r, t, g);
            accumulate(ALL, g, m[r]);
        }
        for (int j = 0; j < SHAPES; j++) step_piece(2, &pieces[j], 8, 3, both, d);
        for (int i = 0; i < ALL; i++)
            assert_int_equal("-0+"[(d[i] > 0) - (d[i] < 0) + 1], published_signs[t][i]);
    }
    for (int i = 0; i < ALL; i++)
        assert_true(fabs(m[0][i] - (double)published_momentum[i]) < 2e-6);
}

/* -- demo, where chunks divide the axes -- */

enum { WHOLE = 16 * 24 + 40 * 8, C = 8, K = 5 };

static const wefti_piece whole_pieces[] = {{16, 24, 0, true, 0},
                                           {40, 8, 16 * 24, true, 1}};
static const wefti_bucket whole = {2, whole_pieces, WHOLE};

typedef struct replica {
    float g[TURNS][WHOLE], m[TURNS][WHOLE], d[TURNS][WHOLE];
} replica;

static weft_status take_steps(rank_env *env, wefti_replicator *r, replica *x) {
    for (int t = 0; t < TURNS; t++) {
        fill_normal((uint64_t)(100 * env->rank + t), WHOLE, x->g[t]);
        memcpy(x->d[t], x->g[t], sizeof x->d[t]);
        WEFT_TRY(wefti_replicator_begin(r, 0, t, 0.5f, x->d[t]));
        WEFT_TRY(wefti_replicator_combine(r, 0, t, x->d[t]));
        WEFT_TRY(wefti_replicator_end(r, 0, t, x->d[t]));
        memcpy(x->m[t], wefti_replicator_state(r, 0, 0), sizeof x->m[t]);
    }
    WEFT_TRY(wefti_replicator_settle(r));
    return wefti_comm_barrier(env->control, -1);
}

static weft_status run_replica(rank_env *env) {
    wefti_replicator *r;
    wefti_replicator_config config = {.kind = "demo",
                                      .compression_topk = K,
                                      .compression_chunk = C,
                                      .compression_decay = 0.9,
                                      .compression_dims = 2,
                                      .alpha = 1,
                                      .every = 1,
                                      .threads = 1};
    WEFT_TRY(wefti_replicator_create(env->ctx, &config, wefti_kernels_find(NULL),
                                     env->replica, &whole, 1, &r));
    weft_status status = take_steps(env, r, env->user);
    wefti_replicator_destroy(r);
    return status;
}

TEST(demo_is_the_definition_where_chunks_divide) {
    static replica replicas[RANKS];
    static double m[RANKS][WHOLE], d[WHOLE];
    void *users[] = {&replicas[0], &replicas[1], &replicas[2]};
    double *const all[] = {m[0], m[1], m[2]};
    for (int R = 1; R <= RANKS; R++) {
        run_ranks(R, 1, (wefti_wire_model){0, 0}, run_replica, users, NULL);
        memset(m, 0, sizeof m);
        for (int t = 0; t < TURNS; t++) {
            for (int r = 0; r < R; r++) accumulate(WHOLE, replicas[r].g[t], m[r]);
            for (int j = 0; j < 2; j++) step_piece(R, &whole_pieces[j], C, K, all, d);
            for (int i = 0; i < WHOLE; i++) {
                assert_true(fabs(d[i] - (double)replicas[R - 1].d[t][i]) < 1e-5);
                assert_true(fabs(m[0][i] - (double)replicas[0].m[t][i]) < 1e-5);
            }
        }
    }
}
