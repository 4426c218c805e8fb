/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "comm/comm.h"

/* All ranks of a run: R replicas x S shards. rank = replica * S + shard; neighbouring
 * replicas share a node, neighbouring nodes a site. The backends are in local.c and
 * remote.c. */

/* The wire between nodes, if it is emulated (local.h); bandwidth_Bps = 0: it is not. */
typedef struct wefti_wire_model {
    double bandwidth_Bps;
    double latency_s;
} wefti_wire_model;

enum { WEFTI_MAX_RANKS = 4096 };

enum { WEFTI_SAY_AFTER_S = 10 };

/* How long a wait for others lasts when it is told (again): some seconds, half as long again as the
 * longest one that ended by itself, twice as long as when it was told last. */
double wefti_wait_due_s(double first_s, double longest_s, double told_s);

typedef enum wefti_group {
    WEFTI_GROUP_WORLD,   /* all ranks */
    WEFTI_GROUP_SHARD,   /* the ranks that share one copy of the model */
    WEFTI_GROUP_REPLICA, /* the ranks with this shard, one per replica of this site */
    WEFTI_GROUP_SITES    /* the ranks with this shard at this place in their sites, one
                            per site; with one site: like WEFTI_GROUP_REPLICA */
} wefti_group;

/* How ranks are arranged: replicas_per_node divides replicas, sites divides the nodes. A
 * site has one interface to all other sites, shared by its nodes, which obeys site_wire.
 *
 * Sites that have lost nodes differ in size; site_first then says where each begins, and
 * there are two levels of exchange even if only one site is left. */
typedef struct wefti_world_shape {
    int replicas, shards, replicas_per_node, sites;
    wefti_wire_model wire, site_wire;
    const int *site_first; /* [sites + 1] first replicas, borrowed; NULL: equal sites */
} wefti_world_shape;

typedef struct wefti_world wefti_world;

/* What a backend implements. */
typedef struct wefti_world_ops {
    const char *name;
    weft_status (*join)(weft_ctx *ctx, wefti_world *world, int rank, wefti_group group,
                        int channel, wefti_comm **out);
    void (*wake)(wefti_world *world); /* after the first failure was recorded */
    void (*destroy)(weft_ctx *ctx, wefti_world *world);
} wefti_world_ops;

/* The head of every backend's world. */
struct wefti_world {
    const wefti_world_ops *ops;
    wefti_world_shape shape;
    int size;
    int first_here, n_here; /* the ranks of this process */
    atomic_int poisoned;
    _Atomic double say_after_s; /* threads that wait for others; WEFTI_SAY_AFTER_S */
    pthread_mutex_t failure_lock;
    int failed_rank; /* -1: none; guarded by failure_lock, like the next two */
    weft_status failed_status;
    char failed_message[1024];
    double longest_s; /* failure_lock: the longest wait that was logged and ended, */
    double logged_s;  /* and how long one had lasted when it was logged last */
};

/* Checks the shape and fills in the head; all ranks are in this process. */
weft_status wefti_world_init(weft_ctx *ctx, wefti_world *world,
                             const wefti_world_ops *ops,
                             const wefti_world_shape *shape) WEFT_CHECKED;

/* All communicators must be destroyed first; NULL is accepted. */
void wefti_world_destroy(weft_ctx *ctx, wefti_world *world);

/* One rank's view of a group; the rank must be in this process. `channel` (0..7) separates
 * communicators over the same group. `ctx` is borrowed, owns the memory and gets the error
 * messages. Not collective. */
weft_status wefti_world_join(weft_ctx *ctx, wefti_world *world, int rank,
                             wefti_group group, int channel,
                             wefti_comm **out) WEFT_CHECKED;

/* Wakes every waiting rank with WEFT_ERR_PEER; the first caller's message is kept. */
void wefti_world_poison(wefti_world *world, int rank, weft_status status,
                        const char *text);

/* The first failure: its rank, or -1 if there is none. [out] text: at least 1024 bytes.
 */
int wefti_world_failure(wefti_world *world, weft_status *status, char *text);

/* Returns that failure as the error of a waiting rank. */
weft_status wefti_world_poisoned_error(weft_ctx *ctx, wefti_world *world);

/* Members of a rank's group: member r is world rank first + r * stride.
 *
 * A member of the group between sites is a site. All its ranks with one shard have the same
 * data, so any of them may speak for it. Of a site with m such ranks, the rank at place p
 * of another site receives from number p mod m; if that one is lost, from the next, and so
 * on, cyclically. If all sites have the same number of ranks, each rank receives from the
 * rank at its own place. */
typedef struct wefti_members {
    int first, stride, size;
    int rank;              /* of the rank that asks */
    int per_site;          /* between sites: replicas of each; else 0 */
    const int *site_first; /* as in the shape */
    int shards, shard, place;
} wefti_members;

wefti_members wefti_world_members(const wefti_world_shape *shape, int rank,
                                  wefti_group group);

/* The world rank of member i from which this rank receives. */
int wefti_members_at(const wefti_members *m, int i);

/* Between sites. The first: replicas of site i. The second: the world rank of site `of`
 * from which a place of another site receives if the k ranks before it are lost; with k = 0
 * and the site itself, the rank at this place. */
int wefti_members_replicas(const wefti_members *m, int i);
int wefti_members_speaker(const wefti_members *m, int of, int place, int k);

/* Whether sites exchange with each other: a second level of exchange. */
bool wefti_world_has_sites(const wefti_world_shape *shape);

int wefti_world_node_of(const wefti_world_shape *shape, int rank);
int wefti_world_site_of(const wefti_world_shape *shape, int rank);
wefti_link_class wefti_world_link(const wefti_world_shape *shape, int a, int b);
