/* SPDX-License-Identifier: MIT */
/* Names of keys and values in earlier versions, with their present names. A file that was
 * written for an earlier version is refused with the new name, because a key that is
 * accepted under two names is documented under one and searched for under the other. */
#include "config/renamed.h"

#include "base/text.h"

static const struct {
    const char *old, *now;
} names[] = {
    {"mesh.pace", "mesh.compute_time"},
    {"mesh.stall", "mesh.straggler_time"},
    {"replicator.exchange=gather", "all_gather"},
    {"replicator.exchange=owner", "sharded"},
    {"site_replicator.exchange=gather", "all_gather"},
    {"site_replicator.exchange=owner", "sharded"},
    {"cluster.crowd", "incast"},
    {"cluster.engine", "backend"},
};

const char *wefti_renamed(const char *old) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (wefti_is(names[i].old, old)) return names[i].now;
    return NULL;
}
