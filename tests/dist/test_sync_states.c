/* SPDX-License-Identifier: MIT */
/* The picture of states in weft/sync.h: in each state the calls that it names succeed; every other
 * one is WEFT_ERR_ARGUMENT with a sentence, and the step after it has the bits that it would have
 * had. */
#include "loop/sync.h"
#include "loops.h"

typedef struct row {
    const char *state; /* how it is reached: see reach() */
    const char *may;   /* calls that succeed */
} row;

#define ANY " restore "
#define STILL " take" ANY /* nobody writes the parameters */

static const row whole_step[] = {
    {"made", "begin set_rate set_tensor replan" STILL},
    {"begun",
     "open give set_rate set_tensor ready step complete average rest compare save "
     "load resume" STILL},
    {"resting", "open give set_rate set_tensor ready step complete average rest save "
                "compare" STILL},
    {"open", "open give set_rate set_tensor ready step complete" STILL},
    {"handed", "open step complete" ANY},
    {"ending", "open wait_any step" ANY},
    {"averaged", "set_rate set_tensor" STILL},
};

static const row two_halves[] = {
    {"made", "begin set_rate set_tensor replan" STILL},
    {"resting", "open give set_rate set_tensor ready skip agree complete average rest "
                "compare save" STILL},
    {"ending", "open wait_any agree" ANY},
    {"agreed", "mix" STILL},
    {"averaged", "set_rate set_tensor" STILL},
};

/* The mixer's states are the program's. */
static const row held[] = {
    {"made", "begin set_rate set_tensor replan hold_mixer" STILL},
    {"begun",
     "open give set_rate set_tensor ready agree complete average rest compare save "
     "load resume outgoing incoming" STILL},
    {"resting", "open give set_rate set_tensor ready agree complete average rest save "
                "compare incoming" STILL},
    {"open", "open give set_rate set_tensor ready agree complete" STILL},
    {"ending", "open wait_any agree" ANY},
    {"agreed", "mix outgoing incoming" STILL},
    {"averaged", "set_rate set_tensor" STILL},
};

/* Of uneven rows: gradients are ready after weigh. */
static const row uneven[] = {
    {"made", "begin set_rate set_tensor replan" STILL},
    {"resting", "open give set_rate set_tensor weigh average rest compare save" STILL},
    {"open", "open give set_rate set_tensor weigh" STILL},
    {"weighed", "open give set_rate set_tensor ready step complete" STILL},
};

/* What a sync is made from, and its states. */
typedef struct kind {
    const char *method;
    const row *rows;
    int n_rows;
    bool halves, skips, held, uneven;
} kind;

static const char *const calls[] = {
    "begin",    "open",       "give",     "set_rate",  "set_tensor", "ready",
    "skip",     "step",       "agree",    "mix",       "complete",   "wait_any",
    "average",  "restore",    "rest",     "save",      "load",       "resume",
    "take",     "replan",     "ask_form", "weigh",     "hold_mixer", "outgoing",
    "incoming", "not_finite", "collect",  "collected", "signs",      "compare"};

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static bool may(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static weft_status call(const char *name, weft_sync *s, loop *file) {
    static float block[MOST];
    const weft_sync_limits any = {.struct_size = sizeof any};
    weft_sync_report report = {.struct_size = sizeof report};
    weft_sync_part part = {.struct_size = sizeof part};
    weft_sync_parcel parcel = {.struct_size = sizeof parcel};
    unsigned char below[MOST];
    int32_t places[MOST] = {0};
    const char *why;
    double weight;
    bool moves;
    int n;
    for (int k = 0; k < MOST; k++) block[k] = 1;
    if (is(name, "begin")) return weft_sync_begin(s);
    if (is(name, "open")) return weft_sync_open(s);
    if (is(name, "give")) return weft_sync_give(s, 0, block, WEFT_F32, 1);
    if (is(name, "set_rate")) return weft_sync_set_rate(s, 0.5);
    if (is(name, "set_tensor")) return weft_sync_set_tensor(s, 0, 2, 0.1);
    if (is(name, "ready")) return weft_sync_ready(s, 0);
    if (is(name, "skip")) return weft_sync_skip(s);
    if (is(name, "step")) return weft_sync_step(s, 1, &report);
    if (is(name, "agree")) return weft_sync_agree(s, 1, &moves);
    if (is(name, "mix")) return weft_sync_mix(s, &report);
    if (is(name, "complete")) return weft_sync_complete(s, 1);
    if (is(name, "wait_any")) return weft_sync_wait_any(s, 0, &part);
    if (is(name, "average")) return weft_sync_average(s);
    if (is(name, "restore")) return weft_sync_restore(s);
    if (is(name, "rest")) return weft_sync_rest(s);
    if (is(name, "save")) return weft_sync_save(s, write_bytes, file);
    if (is(name, "load")) return weft_sync_load(s, read_bytes, file);
    if (is(name, "compare")) return weft_sync_compare(s);
    if (is(name, "resume")) return weft_sync_resume(s, 1);
    if (is(name, "replan")) return weft_sync_replan(s, &any, &why);
    if (is(name, "ask_form")) return weft_sync_ask_form(s, "full int8");
    if (is(name, "weigh")) return weft_sync_weigh(s, 1, 4, &weight);
    if (is(name, "hold_mixer")) return weft_sync_hold_mixer(s, &n);
    if (is(name, "outgoing")) return weft_sync_outgoing(s, &parcel, 1, &n);
    if (is(name, "incoming")) return weft_sync_incoming(s, &parcel, 1, &n);
    if (is(name, "not_finite")) return weft_sync_not_finite(s, TENSORS);
    if (is(name, "collect")) return weft_sync_collect(s, 0, places, block, MOST);
    if (is(name, "collected")) return weft_sync_collected(s, 0, &n);
    if (is(name, "signs")) return weft_sync_signs(s, 0, below, below, &moves);
    return weft_sync_take(s, 0, block, WEFT_F32);
}

static void must(alone *a, loop *file, const char *name) {
    assert_ok(a->ctx, call(name, a->s, file));
}

static void whole_step_of(alone *a, loop *file, const kind *k) {
    if (k->uneven) must(a, file, "weigh");
    must(a, file, k->halves ? "agree" : "step");
    if (k->halves) must(a, file, "mix");
}

/* `file`: what was saved when the sync had begun. */
static void reach(alone *a, loop *file, const char *state, const kind *its) {
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < elements(&whole[i]); k++)
            weft_sync_parameters(a->s, i)[k] = sinf((float)(7 * k + i));
    if (is(state, "made")) return;
    if (its->held) must(a, file, "hold_mixer");
    must(a, file, "begin");
    must(a, file, "save");
    if (is(state, "begun")) return;
    whole_step_of(a, file, its);
    if (is(state, "averaged")) must(a, file, "average");
    if (is(state, "resting") || is(state, "averaged")) return;
    must(a, file, "open");
    must(a, file, "give");
    if (is(state, "weighed")) must(a, file, "weigh");
    for (int i = TENSORS - 1; i >= 0 && is(state, "handed"); i--)
        assert_ok(a->ctx, weft_sync_ready(a->s, i));
    if (is(state, "ending")) must(a, file, "complete");
    if (is(state, "agreed")) must(a, file, "agree");
}

/* To the end of the step that is under way, or of the next one. */
static void go_on(alone *a, loop *file, const char *state, const kind *k) {
    if (is(state, "made")) must(a, file, "begin");
    if (is(state, "averaged")) must(a, file, "restore");
    if (is(state, "agreed"))
        must(a, file, "mix");
    else if (is(state, "weighed"))
        must(a, file, "step");
    else
        whole_step_of(a, file, k);
}

/* In every state: what gives a pointer gives NULL where there is nothing. */
static void check_bounds(weft_sync *s) {
    const int none[] = {-1, TENSORS, 1 << 30};
    const char *name;
    bool as_matrix;
    int n;
    for (size_t k = 0; k < sizeof none / sizeof *none; k++) {
        assert_null(weft_sync_parameters(s, none[k]));
        assert_null(weft_sync_gradients(s, none[k]));
        assert_null(weft_sync_state(s, 0, none[k], &name));
        assert_null(weft_sync_state(s, none[k] < 0 ? -1 : 1 << 30, 0, &name));
        assert_null(weft_sync_rule(s, none[k], &as_matrix));
        assert_false(as_matrix);
    }
    assert_non_null(weft_sync_rule(s, TENSORS - 1, &as_matrix));
    assert_true(weft_sync_numbers(s, &n) || n == 0);
    wefti_rank *rank = s->rank;
    s->rank = NULL; /* as a world that could not begin leaves it */
    assert_null(weft_sync_parameters(s, 0));
    assert_null(weft_sync_state(s, 0, 0, &name));
    n = 1;
    assert_null(weft_sync_numbers(s, &n));
    assert_int_equal(n, 0);
    s->rank = rank;
}

/* [out] params: after the state, the call (NULL: none) and the end of its step. Whether the call
 * succeeded. */
static bool try(const kind *k, const char *state, const char *name, float *params) {
    loop file = {0};
    alone a = begin_alone(k->method,
                          &(weft_sync_setup){.struct_size = sizeof(weft_sync_setup),
                                             .outside = k->halves,
                                             .skips = k->skips,
                                             .uneven = k->uneven});
    reach(&a, &file, state, k);
    check_bounds(a.s);
    weft_status status = name ? call(name, a.s, &file) : WEFT_ERR_ARGUMENT;
    if (status != WEFT_OK) {
        assert_int_equal(status, WEFT_ERR_ARGUMENT);
        assert_true(!name || weft_ctx_message(a.ctx)[0]);
        weft_ctx_clear(a.ctx);
        go_on(&a, &file, state, k);
        for (int i = 0; i < TENSORS; params += elements(&whole[i++]))
            memcpy(params, weft_sync_parameters(a.s, i),
                   (size_t)elements(&whole[i]) * sizeof *params);
    }
    end_alone(&a);
    free(file.saved);
    return status == WEFT_OK;
}

static void try_all(const kind *k) {
    const row *rows = k->rows;
    for (int r = 0; r < k->n_rows; r++) {
        float calm[MOST], params[MOST];
        (void)try(k, rows[r].state, NULL, calm);
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
            bool fine = try(k, rows[r].state, calls[c], params);
            if (fine != may(rows[r].may, calls[c]))
                fail_msg("weft_sync_%s %s where it is %s", calls[c],
                         fine ? "succeeds" : "fails", rows[r].state);
            if (!fine && memcmp(params, calm, sizeof calm) != 0)
                fail_msg("weft_sync_%s fails and changes something where it is %s",
                         calls[c], rows[r].state);
        }
    }
}

TEST(each_state_has_its_calls) {
#define ROWS(table) table, sizeof table / sizeof *table
    try_all(&(kind){"method=dadam", ROWS(whole_step), .halves = false});
    try_all(&(kind){"method=dadam", ROWS(two_halves), .halves = true, .skips = true});
    try_all(&(kind){"method=diloco", ROWS(held), .halves = true, .held = true});
    try_all(&(kind){"method=hsdp", ROWS(uneven), .uneven = true});
}
