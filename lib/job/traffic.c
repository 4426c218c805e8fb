/* SPDX-License-Identifier: MIT */
/* Bytes of a step, before it runs: what the kinds say they send, between ranks that do
 * not share a node.
 *
 *     replicator    sum over rounds, buckets and members on other nodes
 *     mixer         messages of its acts in this step, by bucket and partner
 *
 * Only payload that leaves a node counts, as the backends count it: a run compares the
 * two numbers, and they are equal. */
#include "job/job.h"
#include "mix/mixer.h"
#include "replicate/replicator.h"

/* The group of the first shard stands for all: shards do not meet in these groups. */
static wefti_members members_of(const wefti_job *job, int replica, wefti_group group) {
    wefti_world_shape shape = wefti_job_shape(job);
    return wefti_world_members(&shape, replica * job->S, group);
}

static int replica_of(const wefti_job *job, const wefti_members *group, int member) {
    return wefti_members_at(group, member) / job->S;
}

/* How many ranks receive what this rank sends to a member: one, unless the member is a
 * site that has more or fewer replicas than this rank's site. */
static int hearers_of(const wefti_members *group, int member) {
    int n = 0;
    if (group->per_site == 0) return 1;
    for (int place = 0; place < wefti_members_replicas(group, member); place++)
        n += place % wefti_members_replicas(group, group->rank) == group->place;
    return n;
}

static bool share_node(const wefti_job *job, int a, int b) {
    return a / job->copies == b / job->copies;
}

static bool repeats(const wefti_arrangement *a, int b) {
    return b > 0 && wefti_bucket_is_like(&a->buckets[b - 1], &a->buckets[b]);
}

static int64_t replicator_bytes(const wefti_job *job, const wefti_arrangement *a,
                                const wefti_replicator_config *config, wefti_group kind,
                                int replica) {
    wefti_members group = members_of(job, replica, kind);
    int64_t n_bytes = 0;
    for (int to = 0; to < group.size; to++) {
        int64_t each = 0;
        if (share_node(job, replica, replica_of(job, &group, to))) continue;
        for (int b = 0; b < a->n_buckets; b++) {
            if (!repeats(a, b))
                each = hearers_of(&group, to) *
                       wefti_replicator_wire_bytes(config, &a->buckets[b], group.size,
                                                   group.rank, to);
            n_bytes += each;
        }
    }
    return n_bytes;
}

typedef struct total {
    const wefti_job *job;
    wefti_members group;
    int replica;
    int64_t n_bytes;
} total;

static void add_message(void *user, int peer, int64_t n_bytes) {
    total *t = user;
    int there = replica_of(t->job, &t->group, peer);
    if (!share_node(t->job, t->replica, there))
        t->n_bytes += hearers_of(&t->group, peer) * n_bytes;
}

static bool are_same(const wefti_mixer_act *a, const wefti_mixer_act *b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i].sends != b[i].sends || a[i].exchange != b[i].exchange ||
            a[i].round != b[i].round)
            return false;
    return true;
}

static int64_t mixer_bytes(const wefti_job *job, const wefti_arrangement *a, int replica,
                           int64_t step) {
    const wefti_mixer_ops *ops = wefti_mixer_find(job->mixer_config.kind);
    wefti_mixer_act acts[2][WEFTI_MIXER_ACTS];
    int n[2] = {0, 0};
    int64_t before = 0;
    total sent = {job, members_of(job, replica, WEFTI_GROUP_SITES), replica, 0};
    wefti_mixer_question q = {.n_buckets = a->n_buckets,
                              .R = sent.group.size,
                              .from = sent.group.rank,
                              .step = step,
                              .room = job->gossip.room};
    for (q.number = 0; q.number < a->n_buckets; q.number++) {
        int k = q.number % 2; /* those of the bucket before are kept */
        int64_t so_far = sent.n_bytes;
        q.bucket = &a->buckets[q.number];
        n[k] = ops->acts(&job->mixer_config, &q, acts[k]);
        bool again = n[k] > 0 && n[0] == n[1] && are_same(acts[0], acts[1], n[k]) &&
                     repeats(a, q.number);
        for (int i = 0; i < n[k] && !again; i++)
            if (acts[k][i].sends)
                ops->messages(&job->mixer_config, &q, &acts[k][i], add_message, &sent);
        if (again) sent.n_bytes += before;
        before = sent.n_bytes - so_far;
    }
    return sent.n_bytes;
}

static int64_t due_steps(const wefti_replicator_config *config, int64_t first,
                         int64_t n) {
    int64_t n_due = 0;
    for (int64_t t = first; t < first + n; t++)
        n_due += wefti_replicator_is_due(config, t);
    return n_due;
}

int64_t wefti_job_wire_bytes(const wefti_job *job, const wefti_arrangement *a,
                             int replica, int64_t first, int64_t n) {
    const wefti_replicator_config *near = &job->replicator_config,
                                  *far = &job->site_replicator_config;
    int64_t status = (int64_t)(job->W - job->copies * job->S) *
                     wefti_job_status_bytes(job);
    int64_t n_bytes = n * status;
    n_bytes += due_steps(near, first, n) *
               replicator_bytes(job, a, near, WEFTI_GROUP_REPLICA, replica);
    if (wefti_job_has_sites(job))
        n_bytes += due_steps(far, first, n) *
                   replicator_bytes(job, a, far, WEFTI_GROUP_SITES, replica);
    for (int64_t t = first; t < first + n; t++)
        n_bytes += mixer_bytes(job, a, replica, t);
    return n_bytes;
}

int64_t wefti_job_node_bytes(const wefti_job *job, const wefti_arrangement *a,
                             bool others, int64_t first, int64_t n) {
    int64_t n_bytes = 0;
    for (int replica = others ? 1 : 0; replica < job->copies; replica++)
        n_bytes += wefti_job_wire_bytes(job, a, replica, first, n);
    return n_bytes;
}
