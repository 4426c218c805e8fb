/* SPDX-License-Identifier: MIT */
/* Which rank runs where, and what both ends of a connection must have in common. Ranks are
 * numbered host by host, so that the ranks of a node are neighbours:
 *
 *     hosts in the order of their first process -> rank 0, 1, ... of host a, then host b, ...
 *
 * Places for processes that join later come after these; a process that joins later gets
 * all numbers. */
#include <string.h>

#include <weft/version.h>

#include "base/clock.h"
#include "base/machine.h"
#include "mesh/mesh.h"

const char *wefti_mesh_greeting(void) { return "weft " WEFT_VERSION ", envelope 3"; }

/* Two machines may have the same name. */
static bool same_host(const weft_transport *t, int a, int b) {
    if (t->ops->machine) return t->ops->machine(t, a) == t->ops->machine(t, b);
    return strcmp(t->host[a], t->host[b]) == 0;
}

bool wefti_mesh_same_host(const weft_mesh *mesh, int a, int b) {
    return same_host(mesh->transport, mesh->places.peer_of[a], mesh->places.peer_of[b]);
}

/* A place that no process has taken; nobody waits for it. */
static void mark_empty(weft_mesh *mesh, int rank) {
    mesh->peers[rank].lost = mesh->peers[rank].greeted = true;
}

/* Numbers the first n processes host by host, hosts in the order of their first process. */
static void number_founders(weft_mesh *mesh, int n) {
    const weft_transport *t = mesh->transport;
    int next = 0;
    for (int p = 0; p < n; p++) mesh->places.rank_of[p] = -1;
    mesh->places.even = true;
    for (int p = 0; p < n; p++) {
        if (mesh->places.rank_of[p] >= 0) continue;
        int first = next;
        for (int q = p; q < n; q++) {
            if (!same_host(t, p, q)) continue;
            mesh->places.rank_of[q] = next;
            mesh->places.peer_of[next++] = q;
        }
        if (same_host(t, p, t->rank)) mesh->places.ranks_here = next - first;
        mesh->places.hosts++;
        if ((next - first) * mesh->places.hosts != next) mesh->places.even = false;
    }
    for (int p = n; p < t->size; p++) {
        mesh->places.rank_of[p] = mesh->places.peer_of[p] = p;
        mark_empty(mesh, p);
    }
}

/* Numbers ranks as the table says. All ranks of its own group will be on this host. */
static void number_by_table(weft_mesh *mesh, const weft_transport *t) {
    mesh->places.hosts = mesh->places.ranks_here = 1;
    mesh->places.even = true;
    for (int p = 0; p < t->size; p++)
        mesh->places.ranks_here += t->entry->names[p] && p != t->rank &&
                                   same_host(t, p, t->rank);
    if (mesh->places.ranks_here < t->entry->group)
        mesh->places.ranks_here = t->entry->group;
    for (int p = 0; p < t->size; p++) {
        mesh->places.rank_of[p] = t->entry->rank_of[p];
        mesh->places.peer_of[mesh->places.rank_of[p]] = p;
        if (!t->entry->names[p] && p != t->rank)
            mark_empty(mesh, mesh->places.rank_of[p]);
    }
}

void wefti_mesh_number_ranks(weft_mesh *mesh) {
    const weft_transport *t = mesh->transport;
    if (t->entry)
        number_by_table(mesh, t);
    else
        number_founders(mesh, t->founders ? t->founders : t->size);
    mesh->rank = mesh->places.rank_of[t->rank];
    for (int r = 0; r < t->size; r++)
        mesh->peers[r].here = same_host(t, mesh->places.peer_of[r], t->rank);
}

uint64_t weft_mesh_machine(void) { return wefti_machine_number(); }

const weft_mesh_facts *weft_mesh_look(weft_mesh *mesh) {
    mesh->facts = (weft_mesh_facts){
        .rank = mesh->rank,
        .size = mesh->world.size,
        .hosts = mesh->places.hosts,
        .ranks_here = mesh->places.ranks_here,
        .even = mesh->places.even,
        .host = weft_mesh_host_of(mesh, mesh->rank),
        .version = mesh->transport->version,
        .awaited = atomic_load(&mesh->waits.since_s) > 0 ? atomic_load(&mesh->waits.rank)
                                                         : -1,
        .quiet_s = wefti_now_s() - atomic_load(&mesh->carried_s)};
    return &mesh->facts;
}

const char *weft_mesh_host_of(const weft_mesh *mesh, int rank) {
    return mesh->transport->host[mesh->places.peer_of[rank]];
}
