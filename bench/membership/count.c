/* SPDX-License-Identifier: MIT */
/* How often the rare things happen: a rule that no seed needs is not tested. The counts are
 * read from the messages and from the machine's state; nothing depends on them. */
#include "world.h"

#include "base/bytes.h"
#include "member/memberstate.h"

const char *const counter_names[COUNTERS] = {
    [COUNT_BALLOTS] = "ballots",
    [COUNT_REFUSED_FLUSH] = "refused FLUSH",
    [COUNT_REFUSED_VIEW] = "refused VIEW",
    [COUNT_VIEW_ALONE] = "VIEW without its FLUSH",
    [COUNT_ADOPTED] = "accepted views proposed again",
    [COUNT_PROMISES_BROKEN_OFF] = "ballots replaced by a higher one",
    [COUNT_RECORDS] = "records of the dead",
    [COUNT_DEAD] = "deaths without a record",
    [COUNT_VOTES] = "votes of a witness",
    [COUNT_ENTERED] = "joiners that got the state",
    [COUNT_LIES] = "lies told"};

static const char *const ballot_words[] = {"FLUSH", "FLUSH_OK", "VIEW", "VIEW_OK"};

static wefti_ballot ballot_of(const unsigned char *body) {
    return (wefti_ballot){wefti_get_u64(body), (int)wefti_get_u16(body + 8)};
}

/* Byte 10 of the body, after the ballot, says whether FLUSH_OK or VIEW_OK refuses. */
void count_message(world *w, int from, const wefti_member_action *a) {
    const wefti_member *m = w->nodes[from].m;
    bool refuses = a->n_bytes > WEFTI_MESSAGE_HEADER + 10 &&
                   a->bytes[WEFTI_MESSAGE_HEADER + 10] == 1 && a->bytes[5] % 2 == 0;
    int kind = a->bytes[5];
    if (kind >= WEFTI_SAY_FLUSH && kind <= WEFTI_SAY_VIEW_OK) {
        wefti_ballot b = ballot_of(a->bytes + WEFTI_MESSAGE_HEADER);
        trace(w, "node %d sends %s of ballot %llu.%d to node %d%s", from,
              ballot_words[kind - WEFTI_SAY_FLUSH], (unsigned long long)b.counter,
              b.leader, slot_of(w, a->peer), refuses ? ": no" : "");
    }
    if (kind == WEFTI_SAY_FLUSH) w->counts[COUNT_BALLOTS]++;
    if (kind == WEFTI_SAY_FLUSH_OK && refuses) w->counts[COUNT_REFUSED_FLUSH]++;
    if (kind == WEFTI_SAY_VIEW_OK && refuses) w->counts[COUNT_REFUSED_VIEW]++;
    if (kind == WEFTI_SAY_VIEW && m->lead.has_value) w->counts[COUNT_ADOPTED]++;
}

void count_event(world *w, int slot, const wefti_member_event *e) {
    const wefti_member *m = w->nodes[slot].m;
    bool is_member = wefti_view_find(&m->view, e->peer) >= 0;
    if (e->kind == WEFTI_EVENT_RECORD) w->counts[COUNT_RECORDS] += is_member;
    if (e->kind == WEFTI_EVENT_VOTE) w->counts[COUNT_VOTES] += e->given;
    if (e->kind == WEFTI_EVENT_CLOSED && e->evidence == WEFTI_EVIDENCE_DEAD)
        w->counts[COUNT_DEAD] += is_member;
    if (e->kind != WEFTI_EVENT_MESSAGE || m->state < WEFTI_MEMBER_IN) return;
    if ((int64_t)wefti_get_u64(e->bytes + 32) != m->view.number) return;
    int kind = e->bytes[5];
    if (kind != WEFTI_SAY_FLUSH && kind != WEFTI_SAY_VIEW) return;
    wefti_ballot b = ballot_of(e->bytes + WEFTI_MESSAGE_HEADER);
    if (!wefti_ballot_less(m->voter.promised, b)) return;
    if (kind == WEFTI_SAY_VIEW) w->counts[COUNT_VIEW_ALONE]++;
    if (m->lead.phase != WEFTI_LEAD_IDLE) w->counts[COUNT_PROMISES_BROKEN_OFF]++;
}

void trace_members(const world *w) {
    for (int k = 0; k < w->n_slots; k++) {
        const wefti_member *m = w->nodes[k].m;
        if (!w->nodes[k].alive) continue;
        trace(w, "node %d: state %d, view %lld, %s%s; steps %lld %lld %lld", k, m->state,
              (long long)m->view.number, m->voter.frozen ? "frozen, " : "",
              w->nodes[k].has_state ? "has the state" : "has no state",
              (long long)m->steps.begun, (long long)m->steps.sent,
              (long long)m->steps.finished);
        for (int i = 0; i < m->max_peers; i++)
            if (m->peers[i].used)
                trace(w, "  of node %d, number %d: evidence %d",
                      slot_of(w, m->peers[i].id), m->peers[i].number,
                      m->peers[i].standing.evidence);
    }
}
