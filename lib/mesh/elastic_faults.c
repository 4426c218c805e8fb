/* SPDX-License-Identifier: MIT */
/* How often what a machine computed was wrong (WEFTI_FACT_WRONG), and who is not taken in
 * again for that. Each rank counts what others report of themselves:
 *
 *     rank 2 fails with WEFT_ERR_NUMERIC -> all who hear it: machine of rank 2, one more
 *     new world                          -> all tell each other their counts; the largest holds
 *     a process of that machine asks     -> refused once the count is elastic.faults
 *
 * So all members of a world, and who has just come, have the same counts. */
#include <string.h>

#include "mesh/elastic.h"
#include "base/lock.h"

/* Where the transport has no numbers of machines, their names tell them apart. */
static uint64_t number_of(uint64_t machine, const char *host) {
    uint64_t sum = 0xcbf29ce484222325u; /* FNV-1a */
    if (machine != 0) return machine;
    for (; *host; host++) sum = (sum ^ (unsigned char)*host) * 0x100000001b3u;
    return sum;
}

static uint64_t machine_of(const weft_mesh *mesh, int rank) {
    weft_transport *t = mesh->transport;
    uint64_t machine = t->ops->machine ? t->ops->machine(t, mesh->places.peer_of[rank])
                                       : 0;
    return number_of(machine, weft_mesh_host_of(mesh, rank));
}

/* The machine's entry, or that of the machine with the smallest count, which is forgotten. */
static wefti_fault *entry_of(wefti_elastic *e, uint64_t machine) {
    wefti_fault *least = &e->faults[0];
    for (int i = 0; i < WEFTI_FAULTY_MACHINES; i++) {
        wefti_fault *fault = &e->faults[i];
        if (fault->n > 0 && fault->machine == machine) return fault;
        if (fault->n < least->n) least = fault;
    }
    *least = (wefti_fault){.machine = machine};
    return least;
}

bool wefti_elastic_count_fault(weft_mesh *mesh, int rank) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    int S = e->setup.shards, first = rank / S * S;
    for (int r = first; r < first + S; r++)
        if (e->at[r].was_wrong) return false;
    return ++entry_of(e, machine_of(mesh, rank))->n == e->setup.policy.faults;
}

bool wefti_elastic_shuns(const wefti_elastic *e, const weft_transport_found *found) {
    uint64_t machine = number_of(found->machine, found->host);
    for (int i = 0; i < WEFTI_FAULTY_MACHINES && e->setup.policy.faults > 0; i++)
        if (e->faults[i].machine == machine && e->faults[i].n >= e->setup.policy.faults)
            return true;
    return false;
}

void wefti_elastic_tell_faults(weft_mesh *mesh, wefti_fault *out) {
    pthread_mutex_lock(&mesh->lock);
    memcpy(out, mesh->elastic->faults, sizeof mesh->elastic->faults);
    pthread_mutex_unlock(&mesh->lock);
}

void wefti_elastic_learn_faults(weft_mesh *mesh, const wefti_fault *theirs) {
    pthread_mutex_lock(&mesh->lock);
    for (int i = 0; i < WEFTI_FAULTY_MACHINES; i++) {
        if (theirs[i].n <= 0 || theirs[i].n > INT32_MAX) continue;
        wefti_fault *own = entry_of(mesh->elastic, theirs[i].machine);
        if (own->n < theirs[i].n) own->n = theirs[i].n;
    }
    pthread_mutex_unlock(&mesh->lock);
}
