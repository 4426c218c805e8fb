/* SPDX-License-Identifier: MIT */
/* What must hold of every kind of model and every kernel table, beyond right gradients.
 */
#include "gradcheck/net.h"
#include "model/model.h"
#include "reference/reference.h"

static const weft_model_config configs[] = {
    {.struct_size = sizeof configs[0],
     .kind = "gpt2",
     .vocab = 53,
     .context = 24,
     .layers = 2,
     .width = 48,
     .heads = 3,
     .tied = true,
     .init_std = 0.1},
    {.struct_size = sizeof configs[0],
     .kind = "gpt2",
     .vocab = 53,
     .context = 24,
     .layers = 2,
     .width = 48,
     .heads = 3,
     .ffn = 70,
     .dropout = 0.2,
     .init_std = 0.1},
    {.struct_size = sizeof configs[0], /* heads that may be kept in bfloat16 */
     .kind = "gpt2",
     .vocab = 53,
     .context = 24,
     .layers = 2,
     .width = 64,
     .heads = 2,
     .ffn = 70,
     .tied = true,
     .init_std = 0.1},
    {.struct_size = sizeof configs[0],
     .kind = "gpt2",
     .vocab = 53,
     .context = 24,
     .layers = 2,
     .width = 64,
     .heads = 2,
     .dropout = 0.2,
     .init_std = 0.1},
    {.struct_size = sizeof configs[0],
     .kind = "llama",
     .vocab = 53,
     .context = 24,
     .layers = 2,
     .width = 48,
     .heads = 6,
     .kv_heads = 2,
     .tied = true,
     .init_std = 0.1},
    {.struct_size = sizeof configs[0],
     .kind = "llama",
     .vocab = 53,
     .context = 24,
     .layers = 2,
     .width = 48,
     .heads = 6,
     .kv_heads = 3,
     .ffn = 70,
     .dropout = 0.2,
     .qk_norm = true,
     .init_std = 0.1},
    {.struct_size = sizeof configs[0],
     .kind = "olmo2",
     .vocab = 53,
     .context = 24,
     .layers = 2,
     .width = 48,
     .heads = 6,
     .kv_heads = 1,
     .ffn = 70,
     .dropout = 0.2,
     .init_std = 0.1},
};
enum { N_CONFIGS = sizeof configs / sizeof configs[0], B = 4, T = 19 };

/* Between tables, and between batches of other sizes, sums are rounded in another order.
 * A sum of K terms in float is then off by about sqrt(K) FLT_EPSILON / 2 of its size, and
 * the errors of P sums behind one another add up like independent ones. K is at most 4 *
 * 64 or B * T; a gradient has passed about 12 sums per block. The 3 is for what norms and
 * softmax amplify. */
#define TERMS 256
#define SUMS (2 * 12)
#define ORDER_TOLERANCE (3 * sqrt((double)SUMS * TERMS) * (double)FLT_EPSILON / 2)

static double distance(const float *a, const float *b, int64_t n) {
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        apart += d * d;
        size += (double)b[i] * (double)b[i];
    }
    return size > 0 ? sqrt(apart / size) : sqrt(apart);
}

static void assert_same_gradients(const net *a, const net *b, double tolerance) {
    for (int i = 0, u = 0, k = 0; i < a->model->n_params; i++, k++) {
        while (k == a->model->units[u].n_params) u++, k = 0;
        const wefti_param *p = &a->model->units[u].params[k];
        int64_t at = a->starts[u] + p->offset;
        double apart = distance(a->grads + at, b->grads + at, p->rows * p->cols);
        if (!(apart <= tolerance)) fail_msg("%s is %g apart", p->name, apart);
    }
}

/* Rows [first, first + b->B) of a's tokens become b's. */
static void take_rows(net *b, const net *a, int64_t first) {
    memcpy(b->tokens, a->tokens + first * T, (size_t)b->N * sizeof *b->tokens);
    memcpy(b->targets, a->targets + first * T, (size_t)b->N * sizeof *b->targets);
    b->row = a->row + (uint64_t)first;
}

static const float *last_x(const net *n) { return net_x(n, n->model->n_units - 1); }

static void poison(float *at, int64_t n) {
    for (int64_t i = 0; i < n; i++) at[i] = NAN;
}

/* Forgets what forward saved and left in scratch, unit by unit, and computes it again. */
static void assert_recomputes(const wefti_kernels *kernels,
                              const weft_model_config *config) {
    net n;
    net_open_with(&n, kernels, config, B, T);
    net_model_gradient(&n);
    float *kept = net_copy(&n, n.grads, n.model->n_elements);
    net_zero_grads(&n);
    for (int u = n.model->n_units - 1; u >= 0; u--) {
        poison(n.saved[u], net_saved_floats(&n, u));
        poison(n.scratch, n.scratch_floats);
        net_forward(&n, u);
        poison(n.scratch, n.scratch_floats);
        net_backward(&n, u);
    }
    assert_memory_equal(kept, n.grads, (size_t)n.model->n_elements * sizeof *kept);
    wefti_free(n.ctx, kept);
    net_close(&n);
}

TEST(recomputed_activations_give_the_same_bits) {
    const char *const *names = test_kernels_names();
    for (int k = 0; names[k]; k++)
        for (int i = 0; i < N_CONFIGS; i++)
            assert_recomputes(test_kernels_find(names[k]), &configs[i]);
}

TEST(backward_leaves_saved_activations_as_they_were) {
    for (int i = 0; i < N_CONFIGS; i++) {
        net n;
        net_open(&n, &configs[i], B, T);
        net_unit_gradient(&n, 1);
        float *kept = net_copy(&n, n.saved[1], net_saved_floats(&n, 1));
        net_backward(&n, 1);
        assert_memory_equal(kept, n.saved[1],
                            (size_t)net_saved_floats(&n, 1) * sizeof *kept);
        wefti_free(n.ctx, kept);
        net_close(&n);
    }
}

TEST(gradients_are_added) {
    for (int i = 0; i < N_CONFIGS; i++) {
        net once, twice;
        net_open(&once, &configs[i], B, T);
        net_open(&twice, &configs[i], B, T);
        net_model_gradient(&once);
        net_model_gradient(&twice);
        for (int u = twice.model->n_units - 1; u >= 0; u--) net_backward(&twice, u);
        for (int64_t k = 0; k < once.model->n_elements; k++) once.grads[k] *= 2;
        assert_same_gradients(&twice, &once, ORDER_TOLERANCE);
        net_close(&once);
        net_close(&twice);
    }
}

TEST(grad_scale_scales_gradients_and_not_the_loss) {
    for (int i = 0; i < N_CONFIGS; i++) {
        net half, one;
        net_open(&half, &configs[i], B, T);
        net_open(&one, &configs[i], B, T);
        one.grad_scale = 1;
        net_model_gradient(&half);
        net_model_gradient(&one);
        assert_true(half.loss == one.loss);
        for (int64_t k = 0; k < half.model->n_elements; k++) half.grads[k] *= 2;
        assert_same_gradients(&half, &one, ORDER_TOLERANCE);
        net_close(&half);
        net_close(&one);
    }
}

TEST(every_table_agrees_with_the_reference) {
    const char *const *names = test_kernels_names();
    for (int k = 0; names[k]; k++) {
        for (int i = 0; i < N_CONFIGS; i++) {
            net law, other;
            net_open(&law, &configs[i], B, T);
            net_open_with(&other, test_kernels_find(names[k]), &configs[i], B, T);
            net_model_gradient(&law);
            net_model_gradient(&other);
            assert_true(fabs(other.loss / law.loss - 1) <= ORDER_TOLERANCE);
            assert_true(distance(last_x(&other), last_x(&law), law.N * law.C) <=
                        ORDER_TOLERANCE);
            assert_same_gradients(&other, &law, ORDER_TOLERANCE);
            net_close(&law);
            net_close(&other);
        }
    }
}

/* A sum whose last bit is another one may round to the neighbouring bfloat16, and norms
 * amplify that; yet a gradient is nearer to that of the reference's rounded products than
 * half of what rounding itself does to it. */
TEST(bf16_of_every_table_agrees_with_the_reference) {
    const char *const *names = test_kernels_names();
    for (int k = 0; names[k]; k++) {
        for (int i = 0; i < N_CONFIGS; i++) {
            net law, other, exact;
            net_open_with(&law, wefti_kernels_reference.bf16, &configs[i], B, T);
            net_open_with(&other, test_kernels_find(names[k])->bf16, &configs[i], B, T);
            net_open(&exact, &configs[i], B, T);
            net_model_gradient(&law);
            net_model_gradient(&other);
            net_model_gradient(&exact);
            int64_t n = law.model->n_elements;
            double rounding = distance(exact.grads, law.grads, n);
            assert_true(rounding > 0x1p-9 && rounding < 0x1p-5);
            assert_true(distance(other.grads, law.grads, n) < rounding / 2);
            assert_true(fabs(other.loss / law.loss - 1) < 0x1p-12);
            net_close(&law);
            net_close(&other);
            net_close(&exact);
        }
    }
}

/* Also: the mask of a sequence is the same in whatever batch it is, so the mesh does not
 * matter; and the batch's gradient is the sum of its parts'. */
TEST(a_sequence_does_not_depend_on_the_batch_around_it) {
    const char *const *names = test_kernels_names();
    for (int i = 0; names[i / N_CONFIGS]; i++) {
        net all, part;
        const wefti_kernels *kernels = test_kernels_find(names[i / N_CONFIGS]);
        net_open_with(&all, kernels, &configs[i % N_CONFIGS], B, T);
        net_open_with(&part, kernels, &configs[i % N_CONFIGS], 2, T);
        net_model_gradient(&all);
        double loss = 0;
        for (int64_t first = 0; first < B; first += 2) {
            take_rows(&part, &all, first);
            double before = part.loss = 0;
            for (int u = 0; u < part.model->n_units; u++) net_forward(&part, u);
            const float *rows = last_x(&all) + first * T * all.C;
            assert_true(distance(last_x(&part), rows, part.N * part.C) <=
                        ORDER_TOLERANCE);
            for (int u = part.model->n_units - 1; u >= 0; u--) net_backward(&part, u);
            loss += part.loss - before;
        }
        assert_true(fabs(loss / all.loss - 1) <= ORDER_TOLERANCE);
        assert_same_gradients(&part, &all, ORDER_TOLERANCE);
        net_close(&all);
        net_close(&part);
    }
}

TEST(masks_change_with_seed_step_and_row) {
    for (int i = 0; i < N_CONFIGS; i++) {
        if (configs[i].dropout == 0) continue;
        net n;
        net_open(&n, &configs[i], B, T);
        net_forward(&n, 0);
        float *y = net_copy(&n, net_x(&n, 1), n.N * n.C);
        int64_t dropped = 0;
        for (int64_t k = 0; k < n.N * n.C; k++) dropped += y[k] == 0;
        /* five standard deviations of a binomial count */
        double expected = 0.2 * (double)(n.N * n.C);
        assert_true(fabs((double)dropped - expected) < 5 * sqrt(0.8 * expected));
        for (int change = 0; change < 3; change++) {
            n.seed += change == 0;
            n.step += change == 1;
            n.row += change == 2;
            net_forward(&n, 0);
            assert_memory_not_equal(y, net_x(&n, 1), (size_t)(n.N * n.C) * sizeof *y);
            memcpy(y, net_x(&n, 1), (size_t)(n.N * n.C) * sizeof *y);
        }
        wefti_free(n.ctx, y);
        net_close(&n);
    }
}

TEST(dropout_is_off_outside_training) {
    for (int i = 0; i < N_CONFIGS; i++) {
        net plain, dropping;
        weft_model_config config = configs[i];
        config.dropout = 0.5;
        net_open(&dropping, &config, B, T);
        config.dropout = 0;
        net_open(&plain, &config, B, T);
        dropping.training = false;
        plain.training = false;
        double with = net_model_loss(&dropping, 0), without = net_model_loss(&plain, 0);
        assert_true(with == without);
        dropping.training = true;
        assert_true(net_model_loss(&dropping, 0) != without);
        net_close(&plain);
        net_close(&dropping);
    }
}

/* -log softmax(logits)[target], in double. */
static double row_loss(const float *logits, int64_t V, int32_t target) {
    double top = -HUGE_VAL, sum = 0;
    for (int64_t v = 0; v < V; v++) top = fmax(top, (double)logits[v]);
    for (int64_t v = 0; v < V; v++) sum += exp((double)logits[v] - top);
    return log(sum) + top - (double)logits[target];
}

TEST(logits_of_one_position_are_those_of_the_loss) {
    for (int i = 0; i < N_CONFIGS; i++) {
        net n;
        net_open(&n, &configs[i], B, T);
        double loss = net_model_loss(&n, 0), sum = 0;
        int64_t V = configs[i].vocab;
        float *logits = net_alloc(&n, V, sizeof *logits);
        wefti_pass pass = net_pass(&n, n.model->n_units - 1);
        pass.B = pass.T = 1;
        for (int64_t k = 0; k < n.N; k++) {
            pass.x = last_x(&n) + k * n.C;
            wefti_model_logits(n.model, &pass, logits);
            if (n.targets[k] >= 0) sum += row_loss(logits, V, n.targets[k]);
        }
        assert_true(fabs(sum * (double)n.grad_scale / loss - 1) <= ORDER_TOLERANCE);
        wefti_free(n.ctx, logits);
        net_close(&n);
    }
}

/* A later token changes no earlier position. */
TEST(a_position_sees_only_what_is_before_it) {
    for (int i = 0; i < N_CONFIGS; i++) {
        net n;
        net_open(&n, &configs[i], 1, T);
        net_model_loss(&n, 0);
        float *x = net_copy(&n, last_x(&n), n.N * n.C);
        n.tokens[T / 2] = (n.tokens[T / 2] + 1) % (int32_t)configs[i].vocab;
        net_model_loss(&n, 0);
        int64_t before = T / 2 * n.C;
        assert_memory_equal(x, last_x(&n), (size_t)before * sizeof *x);
        for (int64_t t = T / 2; t < T; t++)
            assert_memory_not_equal(x + t * n.C, last_x(&n) + t * n.C,
                                    (size_t)n.C * sizeof *x);
        wefti_free(n.ctx, x);
        net_close(&n);
    }
}
