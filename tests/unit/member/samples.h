/* SPDX-License-Identifier: MIT */
/* One message of each kind, with all its tables filled: for the test and the fuzzer's
 * corpus. */
#pragma once

#include <string.h>

#include "member/message.h"

static const wefti_member_limits sample_limits = {
    .max_nodes = 4, .window = 2, .rounds = 2, .parts = 11};

typedef struct sample {
    wefti_view_node nodes[4];
    wefti_departed departed[8];
    uint16_t holders[8 * 2 * 2 * 11];
    wefti_roster rosters[2];
    wefti_view view;
    uint16_t numbers[4];
    unsigned char held[4];
    wefti_inventory_entry entries[2];
    wefti_message message;
} sample;

static inline void sample_view(sample *s) {
    memset(s->holders, 0xff, sizeof s->holders);
    s->nodes[0] = (wefti_view_node){{1, 11}, 0};
    s->nodes[1] = (wefti_view_node){{2, 12}, 0};
    s->nodes[2] = (wefti_view_node){{3, 13}, 9};
    s->departed[0] = (wefti_departed){{4, 14}, 3};
    s->departed[1] = (wefti_departed){{5, 15}, 0};
    s->view = (wefti_view){.number = 6,
                           .parent = 77,
                           .first_step = 9,
                           .n_nodes = 3,
                           .nodes = s->nodes,
                           .cut_low = 6,
                           .cut_steps = 2,
                           .n_departed = 2,
                           .departed = s->departed,
                           .holders = s->holders};
    *wefti_view_holder(&sample_limits, &s->view, 0, 1, 0, 10) = 2;
    s->rosters[0] = (wefti_roster){5, 4, 1, s->nodes};
    s->view.rosters = s->rosters;
    s->view.n_rosters = 1;
    s->view.chain = wefti_view_hash(&sample_limits, &s->view);
}

static inline void make_sample(wefti_message_kind kind, sample *s) {
    memset(s, 0, sizeof *s);
    sample_view(s);
    s->numbers[0] = 2;
    s->numbers[1] = 1;
    s->held[3] = 0x81;
    s->entries[0] = (wefti_inventory_entry){{4, 14}, 7, true, s->held};
    s->entries[1] = (wefti_inventory_entry){{5, 15}, 8, false, s->held};
    s->message = (wefti_message){.kind = kind,
                                 .run = 5,
                                 .from = {2, 12},
                                 .view = 5,
                                 .chain = 99,
                                 .config_hash = 1,
                                 .data_hash = 2,
                                 .steps = {8, 7, 7},
                                 .origin = {1, 11},
                                 .subject = {3, 13},
                                 .nonce = 123,
                                 .evidence = WEFTI_EVIDENCE_LINK,
                                 .record = {6, {3, 1}, 5, {2, 12}, 98},
                                 .ballot = {4, 2},
                                 .refused = true,
                                 .other = {9, 3},
                                 .has_value = true,
                                 .n_numbers = 2,
                                 .numbers = s->numbers,
                                 .n_entries = 2,
                                 .entries = s->entries,
                                 .value = &s->view,
                                 .reason = WEFTI_BYE_FULL};
}
