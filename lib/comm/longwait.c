/* SPDX-License-Identifier: MIT */
/* Long waits among threads of one process, which no progress thread watches. */
#include "comm/longwait.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"

bool wefti_longwait_say(weft_ctx *ctx, wefti_world *world, pthread_mutex_t *held,
                        int rank, int whom, wefti_longwait *wait) {
    char name[24] = "others";
    double now_s = wefti_now_s(), first_s = atomic_load(&world->say_after_s);
    if (wait->since_s <= 0) *wait = (wefti_longwait){now_s, now_s + first_s};
    if (now_s < wait->due_s) return false;
    double waited_s = now_s - wait->since_s;
    pthread_mutex_lock(&world->failure_lock);
    bool says = waited_s >= wefti_wait_due_s(first_s, world->longest_s, world->logged_s);
    if (says) world->logged_s = waited_s;
    double due_s = wefti_wait_due_s(first_s, world->longest_s, world->logged_s);
    pthread_mutex_unlock(&world->failure_lock);
    wait->due_s = wait->since_s + due_s;
    if (!says) return false;
    if (held) pthread_mutex_unlock(held);
    if (whom >= 0) snprintf(name, sizeof name, "rank %d", whom);
    weft_ctx_log(ctx, WEFT_LOG_WAIT, "rank %d has waited %.0f s for %s, in this process",
                 rank, waited_s, name);
    if (held) pthread_mutex_lock(held);
    return true;
}

void wefti_longwait_end(wefti_world *world, const wefti_longwait *wait) {
    double waited_s = wefti_now_s() - wait->since_s;
    if (wait->since_s <= 0 || waited_s < atomic_load(&world->say_after_s)) return;
    pthread_mutex_lock(&world->failure_lock);
    world->longest_s = fmax(world->longest_s, waited_s);
    world->logged_s = 0;
    pthread_mutex_unlock(&world->failure_lock);
}
