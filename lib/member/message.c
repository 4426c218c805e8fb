/* SPDX-License-Identifier: MIT */
/* Encoding of the messages about membership. Each layout is written once, as a walk over
 * the fields of a message that either writes or reads them; so encoding and decoding cannot
 * differ.
 *
 * Header, little-endian:
 *
 *     offset bytes
 *          0    4  magic "wefV"
 *          4    1  version, 3
 *          5    1  kind
 *          6    2  zero
 *          8    8  run
 *         16   16  the sender: key, incarnation
 *         32    8  the sender's view; 0: none
 *         40    8  chain of that view
 *         48    4  bytes that follow
 *         52    4  zero
 *
 * Reading is strict: a message with a number outside its range, a bit that should be zero,
 * or a byte too many or too few is rejected. */
#include "member/message.h"

#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"

static const char magic[4] = {'w', 'e', 'f', 'V'};

enum { VERSION = 3 };

/* The latest possible step and view number. */
static const int64_t max_step = (int64_t)1 << 56;

typedef struct walk {
    const wefti_member_limits *limits;
    bool writing;
    unsigned char *out;      /* writing */
    const unsigned char *in; /* reading */
    size_t at, end;
    const char *fault; /* NULL: all is well so far */
} walk;

static void fault(walk *w, const char *sentence) {
    if (!w->fault) w->fault = sentence;
}

/* Whether there are n more bytes. */
static bool room_for(walk *w, size_t n) {
    if (!w->fault && w->end - w->at < n)
        fault(w, w->writing ? "the message is longer than its room"
                            : "the message is cut short");
    return !w->fault;
}

static void u8(walk *w, unsigned *x) {
    if (!room_for(w, 1)) return;
    if (w->writing)
        w->out[w->at] = (unsigned char)*x;
    else
        *x = w->in[w->at];
    w->at += 1;
}

#define NUMBER(name, type, n_bytes)                                                      \
    static void name(walk *w, type *x) {                                                 \
        if (!room_for(w, n_bytes)) return;                                               \
        if (w->writing)                                                                  \
            wefti_put_##name(w->out + w->at, *x);                                        \
        else                                                                             \
            *x = wefti_get_##name(w->in + w->at);                                        \
        w->at += n_bytes;                                                                \
    }
NUMBER(u16, unsigned, 2)
NUMBER(u32, uint32_t, 4)
NUMBER(u64, uint64_t, 8)

static void flag(walk *w, bool *x) {
    unsigned byte = *x;
    u8(w, &byte);
    if (byte > 1) fault(w, "a flag is neither 0 nor 1");
    *x = byte == 1;
}

/* A whole number from 0 to `most` in two bytes. */
static void small(walk *w, int *x, int most) {
    unsigned y = (unsigned)*x;
    u16(w, &y);
    if (y > (unsigned)most) fault(w, "a number is above its limit");
    *x = w->fault ? 0 : (int)y;
}

/* The number of a node of a view, or NOBODY. */
static void node_number(walk *w, int *x, int n_nodes) {
    unsigned y = (unsigned)*x;
    u16(w, &y);
    if (y != WEFTI_MEMBER_NOBODY && y >= (unsigned)n_nodes)
        fault(w, "there is no such node");
    *x = w->fault ? WEFTI_MEMBER_NOBODY : (int)y;
}

static void step_number(walk *w, int64_t *x) {
    uint64_t y = (uint64_t)*x;
    u64(w, &y);
    if ((int64_t)y < -1 || (int64_t)y > max_step) fault(w, "a step is out of range");
    *x = w->fault ? -1 : (int64_t)y;
}

static void view_number(walk *w, int64_t *x) {
    step_number(w, x);
    if (*x < 0) fault(w, "a view's number is negative");
}

static void node_id(walk *w, wefti_node_id *id) {
    u64(w, &id->key);
    u64(w, &id->incarnation);
}

static void ballot(walk *w, wefti_ballot *b) {
    u64(w, &b->counter);
    if (b->counter > (uint64_t)max_step) fault(w, "a ballot is out of range");
    small(w, &b->leader, w->limits->max_nodes - 1);
}

static void record(walk *w, wefti_member_record *r) {
    view_number(w, &r->promised_view);
    ballot(w, &r->promised);
    view_number(w, &r->accepted_view);
    node_id(w, &r->heir);
    u64(w, &r->chain);
}

static void steps(walk *w, wefti_member_steps *s) {
    step_number(w, &s->begun);
    step_number(w, &s->sent);
    step_number(w, &s->finished);
    if (s->begun < s->sent || s->begun < s->finished)
        fault(w, "steps are sent or finished that have not begun");
}

static void enumerated(walk *w, unsigned *x, unsigned least, unsigned count) {
    u8(w, x);
    if (*x < least || *x >= count) {
        fault(w, "a code is not one of those known");
        *x = least;
    }
}

/* -- a view -- */

/* The members of a view or of a roster. */
static void nodes(walk *w, int *n, wefti_view_node *list, int64_t first_step) {
    small(w, n, w->limits->max_nodes);
    for (int i = 0; i < *n && !w->fault; i++) {
        node_id(w, &list[i].id);
        step_number(w, &list[i].first_step);
        if (list[i].first_step > first_step)
            fault(w, "a member takes part later than its view");
    }
}

static void rosters(walk *w, wefti_view *v) {
    small(w, &v->n_rosters, w->limits->window);
    int64_t before = v->first_step;
    for (int k = 0; k < v->n_rosters && !w->fault; k++) {
        wefti_roster *r = &v->rosters[k];
        view_number(w, &r->number);
        step_number(w, &r->first_step);
        nodes(w, &r->n_nodes, r->nodes, r->first_step);
        if (r->first_step >= before || r->number >= v->number)
            fault(w, "rosters are not in order");
        before = r->first_step;
    }
}

/* The holders of the pieces of one departed node and step: for each round a flag and, if it
 * is set, a number for each part. */
static void view_holders(walk *w, wefti_view *v, int d, int s) {
    for (int r = 0; r < w->limits->rounds && !w->fault; r++) {
        uint16_t *holders = wefti_view_holder(w->limits, v, d, s, r, 0);
        bool some = false;
        for (int p = 0; w->writing && p < w->limits->parts; p++)
            some = some || holders[p] != WEFTI_MEMBER_NOBODY;
        flag(w, &some);
        for (int p = 0; p < w->limits->parts && !w->fault; p++) {
            int holder = w->writing ? holders[p] : WEFTI_MEMBER_NOBODY;
            if (some) node_number(w, &holder, v->n_nodes);
            if (!w->writing) holders[p] = (uint16_t)holder;
        }
    }
}

static void view_departed(walk *w, wefti_view *v) {
    small(w, &v->n_departed, wefti_view_max_departed(w->limits));
    for (int d = 0; d < v->n_departed && !w->fault; d++) {
        wefti_departed *gone = &v->departed[d];
        node_id(w, &gone->id);
        u32(w, &gone->counted);
        if (gone->counted >> v->cut_steps)
            fault(w, "rows count of a step outside the cut");
        for (int s = 0; s < v->cut_steps && !w->fault; s++) view_holders(w, v, d, s);
    }
}

static void view(walk *w, wefti_view *v) {
    view_number(w, &v->number);
    u64(w, &v->parent);
    u64(w, &v->chain);
    step_number(w, &v->first_step);
    step_number(w, &v->cut_low);
    small(w, &v->cut_steps, w->limits->window);
    nodes(w, &v->n_nodes, v->nodes, v->first_step);
    view_departed(w, v);
    rosters(w, v);
    if (w->fault) return;
    if (v->number < 1) fault(w, "a view has no number");
    if (v->n_nodes < 1) fault(w, "a view has no members");
    if (v->cut_low + v->cut_steps + 1 != v->first_step && v->cut_steps > 0)
        fault(w, "a cut does not end at the view's first step");
    if (v->chain != wefti_view_hash(w->limits, v)) fault(w, "a view's hash is wrong");
}

/* -- other tables -- */

static void numbers(walk *w, wefti_message *m) {
    small(w, &m->n_numbers, w->limits->max_nodes);
    for (int i = 0; i < m->n_numbers && !w->fault; i++) {
        int number = w->writing ? m->numbers[i] : 0;
        small(w, &number, w->limits->max_nodes - 1);
        if (!w->writing) m->numbers[i] = (uint16_t)number;
    }
}

static size_t held_bytes(const wefti_member_limits *limits) {
    return (size_t)limits->rounds * (((size_t)limits->parts + 7) / 8);
}

static void raw(walk *w, const unsigned char **bytes, size_t n) {
    if (!room_for(w, n)) return;
    if (w->writing)
        memcpy(w->out + w->at, *bytes, n);
    else
        *bytes = w->in + w->at;
    w->at += n;
}

static void inventory(walk *w, wefti_message *m) {
    small(w, &m->n_entries, wefti_view_max_departed(w->limits) * w->limits->window);
    for (int k = 0; k < m->n_entries && !w->fault; k++) {
        wefti_inventory_entry *entry = &m->entries[k];
        node_id(w, &entry->sender);
        step_number(w, &entry->step);
        flag(w, &entry->counted);
        raw(w, &entry->held, held_bytes(w->limits));
    }
}

/* -- the kinds -- */

static void walk_flush_ok(walk *w, wefti_message *m) {
    ballot(w, &m->ballot);
    flag(w, &m->refused);
    ballot(w, &m->other);
    steps(w, &m->steps);
    flag(w, &m->has_value);
    if (m->has_value && !w->fault) view(w, m->value);
    inventory(w, m);
}

static void walk_body(walk *w, wefti_message *m) {
    unsigned reason = (unsigned)m->reason, evidence = (unsigned)m->evidence;
    switch (m->kind) {
    case WEFTI_SAY_ALIVE: steps(w, &m->steps); break;
    case WEFTI_SAY_PROBE_REQ:
    case WEFTI_SAY_PROBE_ACK:
        node_id(w, &m->origin);
        node_id(w, &m->subject);
        u64(w, &m->nonce);
        break;
    case WEFTI_SAY_SUSPECT:
        node_id(w, &m->subject);
        enumerated(w, &evidence, 1, WEFTI_EVIDENCES);
        m->evidence = (wefti_evidence)evidence;
        break;
    case WEFTI_SAY_LEAVE: record(w, &m->record); break;
    case WEFTI_SAY_FLUSH:
        ballot(w, &m->ballot);
        numbers(w, m);
        break;
    case WEFTI_SAY_FLUSH_OK: walk_flush_ok(w, m); break;
    case WEFTI_SAY_INSTALL: numbers(w, m);      /* fall through */
    case WEFTI_SAY_VIEW: ballot(w, &m->ballot); /* fall through */
    case WEFTI_SAY_WELCOME: view(w, m->value); break;
    case WEFTI_SAY_VIEW_OK:
        ballot(w, &m->ballot);
        flag(w, &m->refused);
        ballot(w, &m->other);
        break;
    case WEFTI_SAY_HELLO:
        u64(w, &m->config_hash);
        u64(w, &m->data_hash);
        break;
    case WEFTI_SAY_READY: break;
    case WEFTI_SAY_BYE:
        enumerated(w, &reason, 1, WEFTI_BYE_REASONS);
        m->reason = (wefti_bye_reason)reason;
        break;
    default: fault(w, "the message is of no known kind");
    }
}

static void walk_header(walk *w, wefti_message *m, uint32_t *n_body) {
    unsigned version = VERSION, kind = (unsigned)m->kind, zero = 0;
    uint32_t zeros = 0;
    const unsigned char *mark = (const unsigned char *)magic;
    raw(w, &mark, sizeof magic);
    u8(w, &version);
    u8(w, &kind);
    u16(w, &zero);
    u64(w, &m->run);
    node_id(w, &m->from);
    view_number(w, &m->view);
    u64(w, &m->chain);
    u32(w, n_body);
    u32(w, &zeros);
    if (w->fault) return;
    if (memcmp(mark, magic, sizeof magic) != 0)
        fault(w, "the message does not begin with wefV");
    if (version != VERSION) fault(w, "the message has another version");
    if (zero || zeros) fault(w, "bytes that should be zero are not");
    if (kind < 1 || kind >= WEFTI_SAY_KINDS) fault(w, "the message is of no known kind");
    m->kind = (wefti_message_kind)kind;
}

/* -- in and out -- */

weft_status wefti_message_room_init(weft_ctx *ctx, const wefti_member_limits *limits,
                                    wefti_message_room *room) {
    *room = (wefti_message_room){0};
    WEFT_TRY(wefti_view_init(ctx, limits, &room->value));
    WEFT_TRY(wefti_alloc_n(ctx, limits->max_nodes, sizeof *room->numbers,
                           "numbers of nodes", &room->numbers));
    return wefti_alloc_n(ctx, (int64_t)wefti_view_max_departed(limits) * limits->window,
                         sizeof *room->entries, "an inventory", &room->entries);
}

void wefti_message_room_fini(weft_ctx *ctx, wefti_message_room *room) {
    wefti_view_fini(ctx, &room->value);
    WEFTI_FREE(ctx, room->numbers, room->entries);
    *room = (wefti_message_room){0};
}

size_t wefti_message_max_bytes(const wefti_member_limits *limits) {
    size_t n = (size_t)limits->max_nodes, gone = (size_t)wefti_view_max_departed(limits);
    size_t window = (size_t)limits->window, rounds = (size_t)limits->rounds;
    size_t cut = gone * (20 + window * rounds * (1 + 2 * (size_t)limits->parts));
    size_t entries = gone * window * (25 + held_bytes(limits));
    size_t lists = (1 + window) * (18 + n * 24);
    return WEFTI_MESSAGE_HEADER + 256 + 2 * n + lists + cut + entries;
}

size_t wefti_message_encode(const wefti_member_limits *limits,
                            const wefti_message *message, unsigned char *out,
                            size_t size) {
    walk w = {.limits = limits, .writing = true, .out = out, .end = size};
    wefti_message copy = *message;
    uint32_t n_body = 0;
    walk_header(&w, &copy, &n_body);
    if (!w.fault) walk_body(&w, &copy);
    if (w.fault) return 0;
    wefti_put_u32(out + 48, (uint32_t)(w.at - WEFTI_MESSAGE_HEADER));
    return w.at;
}

const char *wefti_message_decode(const wefti_member_limits *limits,
                                 wefti_message_room *room, const unsigned char *bytes,
                                 size_t n, wefti_message *out) {
    walk w = {.limits = limits, .in = bytes, .end = n};
    uint32_t n_body = 0;
    *out = (wefti_message){
        .value = &room->value, .numbers = room->numbers, .entries = room->entries};
    walk_header(&w, out, &n_body);
    if (!w.fault && n_body != n - WEFTI_MESSAGE_HEADER)
        fault(&w, "the message is not as long as it says");
    if (!w.fault) walk_body(&w, out);
    if (!w.fault && w.at != n) fault(&w, "bytes follow the message");
    return w.fault;
}
