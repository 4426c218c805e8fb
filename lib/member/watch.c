/* SPDX-License-Identifier: MIT */
/* Detects which members live: silence, questions to others, complaints, patience.
 *
 * A member is doubted after a silence of
 *
 *     max(silence_us, 5 alive_us, median + 6 MAD of the gaps between its last signs of life,
 *         the longest silence of any member that ended by itself in the last 100 silence_us),
 *     at most 10 silence_us,
 *
 * twice that while this node itself wakes late (Lifeguard: the fault may be its own). A limit that
 * did not follow would have members left out for ever, one after the other, in a network that
 * holds messages up for longer (Chandra and Toueg, 1996). Then the member and three others are
 * asked (SWIM). If none reaches it within probe_us, it is suspected. If others reach it, this node
 * sends a complaint to all. Two members that do not hear each other for link_us can not train
 * together, and one has to go: the one with more complaints made or received, and among equal ones
 * the higher-numbered. */
#include "member/memberstate.h"

#include <string.h>

static int64_t doubled_if_slow(const wefti_member *m, int64_t us) {
    return m->now_us < m->silence.slow_until_us ? 2 * us : us;
}

static int64_t most_limit(const wefti_member *m) {
    return 10 * m->config.policy.silence_us;
}

/* After how long a silence this one is doubted. */
int64_t wefti_watch_limit(const wefti_member *m, const wefti_member_node *peer) {
    bool knows_longer = m->now_us < m->silence.gap_until_us &&
                        m->silence.gap_us > peer->limit_us;
    return knows_longer ? m->silence.gap_us : peer->limit_us;
}

/* -- late waking -- */

/* A node that sleeps longer than its own alarm has received nothing in between: no peer is
 * blamed for that time. */
void wefti_watch_late(wefti_member *m) {
    int64_t late = m->now_us - m->out.wake_us;
    if (m->out.wake_us == 0 || late <= m->config.policy.late_us) return;
    for (int k = 0; k < m->max_peers; k++) {
        wefti_member_node *peer = &m->peers[k];
        if (!peer->used) continue;
        peer->heard_us += late;
        if (peer->doubted_us) peer->doubted_us += late;
        if (peer->behind_us) peer->behind_us += late;
    }
    m->silence.slow_until_us = m->now_us + 10 * m->config.policy.alive_us;
}

/* -- signs of life -- */

static int64_t median(int64_t *x, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && x[k - 1] > x[k]; k--) {
            int64_t swap = x[k];
            x[k] = x[k - 1];
            x[k - 1] = swap;
        }
    return x[n / 2];
}

static void learn_gap(wefti_member *m, wefti_member_node *peer) {
    if (peer->alive_us)
        peer->gap_us[peer->n_gaps++ % WEFTI_PEER_GAPS] = m->now_us - peer->alive_us;
    peer->alive_us = m->now_us;
    if (peer->n_gaps < 4 || peer->n_gaps % 4 != 0) return;
    int n = peer->n_gaps < WEFTI_PEER_GAPS ? peer->n_gaps : WEFTI_PEER_GAPS;
    int64_t sorted[WEFTI_PEER_GAPS], middle,
        limit = wefti_member_least_limit(&m->config.policy);
    memcpy(sorted, peer->gap_us, (size_t)n * sizeof *sorted);
    middle = median(sorted, n);
    for (int i = 0; i < n; i++)
        sorted[i] = sorted[i] > middle ? sorted[i] - middle : middle - sorted[i];
    int64_t wide = middle + 6 * median(sorted, n);
    if (limit < wide) limit = wide;
    peer->limit_us = limit < most_limit(m) ? limit : most_limit(m);
}

/* A silence has ended. A member that was silent for more than twice as long as this node waits was
 * cut off or stood still: waiting for that costs more than going on without it. */
void wefti_watch_silence_ends(wefti_member *m, wefti_member_node *peer) {
    int64_t gap = m->now_us - peer->heard_us, limit = wefti_watch_limit(m, peer);
    if (gap > 0) peer->heard_us = m->now_us;
    if (gap <= peer->limit_us || gap > 2 * (limit + m->config.policy.probe_us)) return;
    m->silence.gap_us = gap < limit ? limit : gap < most_limit(m) ? gap : most_limit(m);
    m->silence.gap_until_us = m->now_us + 100 * m->config.policy.silence_us;
}

void wefti_watch_heard(wefti_member *m, wefti_member_node *peer, bool is_alive) {
    if (is_alive) learn_gap(m, peer);
    wefti_watch_silence_ends(m, peer);
    peer->doubted_us = 0;
    peer->answered_others = false;
    wefti_evidence e = peer->standing.evidence;
    if (e == WEFTI_EVIDENCE_SILENCE || e == WEFTI_EVIDENCE_CLOSED)
        peer->standing.evidence = WEFTI_EVIDENCE_NONE;
}

/* -- suspicion -- */

static void tell(wefti_member *m, wefti_member_node *peer, wefti_evidence evidence) {
    wefti_message suspect = {
        .kind = WEFTI_SAY_SUSPECT, .subject = peer->id, .evidence = evidence};
    peer->told_us = m->now_us;
    wefti_member_say_all(m, &suspect, wefti_peer_is_sound);
}

void wefti_watch_suspect(wefti_member *m, wefti_member_node *peer,
                         wefti_evidence evidence) {
    if (evidence <= peer->standing.evidence) return;
    peer->standing.evidence = evidence;
    if (evidence != WEFTI_EVIDENCE_MUTE) tell(m, peer, evidence);
}

/* The tables of complaints hold milliseconds, plus one, so that 0 means none. */
static int32_t *cell(const wefti_member *m, int32_t *table, int who, int about) {
    return &table[(int64_t)who * m->config.limits.max_nodes + about];
}

static int32_t now_ms(const wefti_member *m) {
    return (int32_t)((m->now_us / 1000) % 2000000000) + 1;
}

/* A complaint that was left out five times has ended. */
static int64_t complaint_gap_us(const wefti_member *m) {
    int64_t probe = m->config.policy.probe_us, again = 3 * m->config.policy.retry_us;
    return 5 * (probe > again ? probe : again);
}

static void complain(wefti_member *m, int who, int about) {
    int64_t gap = complaint_gap_us(m) / 1000;
    int32_t *first = cell(m, m->complaints.first, who, about);
    int32_t *last = cell(m, m->complaints.last, who, about), now = now_ms(m);
    if (*first == 0 || now < *last || now - *last > gap) *first = now;
    *last = now;
    m->complaints.at_us = m->now_us;
}

/* For how long `who` has complained about `about`, in microseconds; -1: it does not. */
static int64_t complaint_us(const wefti_member *m, int who, int about) {
    int32_t first = *cell(m, m->complaints.first, who, about);
    int32_t last = *cell(m, m->complaints.last, who, about), now = now_ms(m);
    if (first == 0 || now < last || now - last > complaint_gap_us(m) / 1000) return -1;
    return (int64_t)(now - first) * 1000;
}

/* Whether this node does not hear a member, either: complaints about it say nothing about
 * those who make them. */
static bool is_gone(const wefti_member *m, int i) {
    if (i == m->number) return false;
    wefti_evidence e = m->peers[m->peer_of_number[i]].standing.evidence;
    return e == WEFTI_EVIDENCE_SILENCE || e >= WEFTI_EVIDENCE_CLOSED;
}

/* The number of other members with which member i has a complaint, in either direction. */
static int troubles(const wefti_member *m, int i) {
    int n = 0;
    for (int k = 0; k < m->view.n_nodes; k++)
        n += !is_gone(m, k) && (complaint_us(m, i, k) >= 0 || complaint_us(m, k, i) >= 0);
    return n;
}

static void settle_complaint(wefti_member *m, int who, int about) {
    if (is_gone(m, who) || is_gone(m, about)) return;
    int a = troubles(m, who), b = troubles(m, about);
    int goes = a > b || (a == b && who > about) ? who : about;
    if (goes == m->number) return; /* the others will do it */
    wefti_member_node *peer = &m->peers[m->peer_of_number[goes]];
    wefti_watch_suspect(m, peer, WEFTI_EVIDENCE_LINK);
}

static void settle_complaints(wefti_member *m) {
    if (m->complaints.at_us == 0 ||
        m->now_us - m->complaints.at_us > 2 * complaint_gap_us(m))
        return;
    for (int who = 0; who < m->view.n_nodes; who++)
        for (int about = 0; about < m->view.n_nodes; about++)
            if (*cell(m, m->complaints.first, who, about) &&
                complaint_us(m, who, about) >= m->config.policy.link_us)
                settle_complaint(m, who, about);
}

/* -- messages -- */

static void take_probe(wefti_member *m, wefti_member_node *peer,
                       const wefti_message *message) {
    wefti_message out = *message;
    bool for_me = wefti_node_is(message->subject, m->config.self);
    wefti_member_node *subject = wefti_member_peer(m, message->subject);
    wefti_member_node *origin = wefti_member_peer(m, message->origin);
    if (message->kind == WEFTI_SAY_PROBE_REQ) {
        out.kind = for_me ? WEFTI_SAY_PROBE_ACK : WEFTI_SAY_PROBE_REQ;
        if (for_me)
            wefti_member_say(m, peer->id, &out);
        else if (subject &&
                 wefti_node_is(message->origin, peer->id)) /* one hop, no circles */
            wefti_member_say(m, subject->id, &out);
    } else if (wefti_node_is(message->origin, m->config.self)) {
        if (subject && subject->doubted_us && subject->nonce == message->nonce)
            subject->answered_others = true;
    } else if (origin && wefti_node_is(message->subject, peer->id)) {
        wefti_member_say(m, origin->id, &out);
    }
}

/* A node has ended, and its promises are known. */
void wefti_watch_ended(wefti_member *m, wefti_node_id id,
                       const wefti_member_record *record) {
    wefti_member_node *peer = wefti_member_peer(m, id);
    if (!peer || peer->number < 0) return;
    peer->standing.record = *record;
    if (m->voter.has_accepted &&
        record->chain == m->voter.accepted.chain) { /* it had installed it */
        peer->says_later = true;
        peer->says_out = false;
        peer->says_chain = record->chain;
    }
    wefti_member_see(m, record->promised);
    wefti_watch_suspect(m, peer, WEFTI_EVIDENCE_RECORD);
}

/* What others report counts at once only if this node has not heard the subject itself; and it is
 * a suspicion, whatever proof they say they have. */
static void take_suspect(wefti_member *m, wefti_member_node *peer,
                         const wefti_message *message) {
    wefti_member_node *subject = wefti_member_peer(m, message->subject);
    int about = wefti_view_find(&m->view, message->subject);
    if (about < 0 || message->evidence == WEFTI_EVIDENCE_PATIENCE) return;
    complain(m, peer->number, about);
    if (subject && subject->number >= 0 && message->evidence != WEFTI_EVIDENCE_LINK &&
        m->now_us - subject->heard_us > doubled_if_slow(m, 2 * m->config.policy.alive_us))
        wefti_watch_suspect(m, subject, WEFTI_EVIDENCE_SILENCE);
}

static void take_alive(wefti_member_node *peer, const wefti_message *message) {
    peer->has_told = true;
    if (message->steps.sent > peer->steps.sent &&
        peer->standing.evidence == WEFTI_EVIDENCE_PATIENCE)
        peer->standing.evidence = WEFTI_EVIDENCE_NONE;
    if (message->steps.begun > peer->steps.begun)
        peer->steps.begun = message->steps.begun;
    if (message->steps.sent > peer->steps.sent) peer->steps.sent = message->steps.sent;
    if (message->steps.finished > peer->steps.finished)
        peer->steps.finished = message->steps.finished;
}

void wefti_watch_message(wefti_member *m, wefti_member_node *peer,
                         const wefti_message *message) {
    switch (message->kind) {
    case WEFTI_SAY_ALIVE: take_alive(peer, message); break;
    case WEFTI_SAY_SUSPECT: take_suspect(m, peer, message); break;
    case WEFTI_SAY_LEAVE: wefti_watch_ended(m, peer->id, &message->record); break;
    default: take_probe(m, peer, message);
    }
}

/* -- actions that are due -- */

static void ask_others(wefti_member *m, wefti_member_node *peer) {
    peer->doubted_us = m->now_us;
    peer->answered_others = false;
    peer->nonce = wefti_member_draw(m);
    wefti_message probe = {.kind = WEFTI_SAY_PROBE_REQ,
                           .origin = m->config.self,
                           .subject = peer->id,
                           .nonce = peer->nonce};
    wefti_member_say(m, peer->id, &probe);
    int n = m->view.n_nodes, first = (int)(wefti_member_draw(m) % (uint64_t)n);
    for (int k = 0, asked = 0; k < n && asked < 3; k++) {
        int i = (first + k) % n;
        if (i == m->number) continue;
        const wefti_member_node *other = &m->peers[m->peer_of_number[i]];
        if (other == peer || other->standing.evidence != WEFTI_EVIDENCE_NONE) continue;
        wefti_member_say(m, other->id, &probe);
        asked++;
    }
}

static void watch_silence(wefti_member *m, wefti_member_node *peer) {
    int64_t silent = m->now_us - peer->heard_us,
            limit = doubled_if_slow(m, wefti_watch_limit(m, peer));
    if (silent < limit) {
        wefti_member_wake_by(m, peer->heard_us + limit);
        return;
    }
    int64_t wait = doubled_if_slow(m, m->config.policy.probe_us);
    if (peer->doubted_us == 0) {
        ask_others(m, peer);
    } else if (m->now_us - peer->doubted_us >= wait) {
        if (!peer->answered_others) {
            wefti_watch_suspect(m, peer, WEFTI_EVIDENCE_SILENCE);
            return;
        }
        complain(m, m->number, peer->number);
        tell(m, peer, WEFTI_EVIDENCE_LINK);
        ask_others(m, peer);
    }
    wefti_member_wake_by(m, peer->doubted_us + wait);
}

/* The steps that were sent: by the fastest member, and by the slowest of those that train. */
typedef struct progress {
    int64_t most, least;
} progress;

static progress progress_of(const wefti_member *m) {
    progress p = {m->steps.sent, m->steps.sent};
    for (int k = 0; k < m->max_peers; k++) {
        const wefti_member_node *peer = &m->peers[k];
        if (!peer->used || peer->number < 0) continue;
        if (peer->steps.sent > p.most) p.most = peer->steps.sent;
        if (peer->steps.sent < p.least) p.least = peer->steps.sent;
    }
    return p;
}

/* The others wait for a member that computes, not for one that waits itself: it has begun a
 * step, has not sent it, and no other is further behind. With gossip a neighbour of a
 * stopped member is behind as well, but not as far. */
static void watch_patience(wefti_member *m, wefti_member_node *peer, progress p) {
    const wefti_member_steps *s = &peer->steps;
    bool computes = s->begun > s->sent || m->config.policy.rests_count;
    bool is_behind = m->config.policy.patience_us > 0 && computes && s->sent < p.most &&
                     s->sent <= p.least && !m->voter.frozen &&
                     m->view.nodes[peer->number].first_step <= p.most;
    if (!is_behind) {
        peer->behind_us = 0;
        return;
    }
    if (peer->behind_us == 0 || peer->behind_step != s->sent) peer->behind_us = m->now_us;
    peer->behind_step = s->sent; /* who advances is slow, and not waited for in vain */
    if (m->now_us - peer->behind_us >= doubled_if_slow(m, m->config.policy.patience_us))
        wefti_watch_suspect(m, peer, WEFTI_EVIDENCE_PATIENCE);
}

/* A suspected member stays suspected until it is heard; the suspicion is sent again.
 * Evidence from complaints ends with them. */
static void watch_suspect(wefti_member *m, wefti_member_node *peer) {
    wefti_evidence e = peer->standing.evidence;
    if (e == WEFTI_EVIDENCE_LINK) {
        if (troubles(m, peer->number) == 0) peer->standing.evidence = WEFTI_EVIDENCE_NONE;
    } else if (e != WEFTI_EVIDENCE_PATIENCE &&
               m->now_us - peer->told_us >= 3 * m->config.policy.retry_us) {
        tell(m, peer, e);
        complain(m, m->number, peer->number);
    }
}

void wefti_watch_pump(wefti_member *m) {
    progress p = progress_of(m);
    for (int k = 0; k < m->max_peers; k++) {
        wefti_member_node *peer = &m->peers[k];
        if (!peer->used) continue;
        if (peer->number < 0) { /* it wanted to join and is gone */
            if (m->now_us - peer->heard_us > 10 * m->config.policy.silence_us)
                peer->used = false;
            continue;
        }
        if (peer->standing.evidence <= WEFTI_EVIDENCE_MUTE) {
            watch_silence(m, peer);
            watch_patience(m, peer, p);
        } else {
            watch_suspect(m, peer);
        }
    }
    settle_complaints(m);
}

/* After a new view: doubts about its members are forgotten, proofs are not. */
void wefti_watch_forget(wefti_member *m) {
    size_t n = (size_t)m->config.limits.max_nodes;
    memset(m->complaints.first, 0, n * n * sizeof *m->complaints.first);
    for (int k = 0; k < m->max_peers; k++) {
        wefti_member_node *peer = &m->peers[k];
        wefti_evidence e = peer->standing.evidence;
        if (e == WEFTI_EVIDENCE_MUTE || e == WEFTI_EVIDENCE_LINK ||
            e == WEFTI_EVIDENCE_PATIENCE)
            peer->standing.evidence = WEFTI_EVIDENCE_NONE;
        peer->unanswered = 0;
        peer->behind_us = peer->led_us = 0;
    }
}
