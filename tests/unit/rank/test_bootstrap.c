/* SPDX-License-Identifier: MIT */
/* Files that rank 0 brings: what it says about them is checked. Rank 0 is driven by hand
 * and lies; rank 1 believes nothing. */
#include "rank/bootstrap.h"

#include <sys/stat.h>

#include "base/memory.h"
#include "check.h"
#include "hub.h"

typedef struct lie {
    int64_t n_bytes, n_sent; /* announced, and really */
    const char *names;
    int64_t file_bytes; /* of the first file; 0: none is sent */
} lie;

typedef struct member {
    hub *hub;
    int number;
    const lie *lie;
    weft_ctx *ctx;
    weft_status status;
    char text[1024];
    pthread_t thread;
} member;

static weft_status tell_lies(const lie *l, wefti_bootstrap *c) {
    int64_t n_bytes = l->n_bytes, file_bytes = l->file_bytes;
    char names[64];
    memcpy(names, l->names, (size_t)l->n_sent);
    WEFT_TRY(wefti_bootstrap_tell(c, &n_bytes, sizeof n_bytes));
    WEFT_TRY(wefti_bootstrap_tell(c, names, l->n_sent));
    if (file_bytes == 0) return WEFT_OK;
    return wefti_comm_send(c->comm, 1, c->n_messages++, &file_bytes, sizeof file_bytes);
}

static weft_status play(member *m, weft_mesh *mesh) {
    wefti_bootstrap c;
    wefti_mesh_watch(mesh, 5, NULL, NULL);
    WEFT_TRY(wefti_bootstrap_join(m->ctx, mesh, &c));
    weft_status status = wefti_alloc_n(m->ctx, 2, 1, "ranks", &c.sees);
    if (status == WEFT_OK) c.sees[0] = true;
    if (status == WEFT_OK && m->number == 0) status = tell_lies(m->lie, &c);
    if (status == WEFT_OK && m->number == 1)
        status = wefti_bootstrap_copy_folder(m->ctx, &c, "from", "room/to");
    wefti_bootstrap_leave(m->ctx, &c);
    return status;
}

static void *member_main(void *argument) {
    member *m = argument;
    weft_mesh *mesh;
    m->status = weft_mesh_create(m->ctx, hub_member(m->hub, m->number), &mesh);
    if (m->status == WEFT_OK) m->status = play(m, mesh);
    snprintf(m->text, sizeof m->text, "%s", weft_ctx_message(m->ctx));
    if (mesh && m->status != WEFT_OK) m->status = weft_mesh_fail(m->ctx, mesh, m->status);
    weft_mesh_close(mesh);
    return NULL;
}

static void refused(const lie *l, const char *expected) {
    member members[2];
    weft_ctx *ctx;
    hub h;
    assert_int_equal(room_begin(&ctx), 0);
    hub_begin(&h, 2, NULL);
    for (int r = 0; r < 2; r++) {
        members[r] = (member){.hub = &h, .number = r, .lie = l};
        assert_int_equal(ctx_begin(&members[r].ctx), 0);
        pthread_create(&members[r].thread, NULL, member_main, &members[r]);
    }
    for (int r = 0; r < 2; r++) {
        pthread_join(members[r].thread, NULL);
        assert_int_equal(ctx_end(members[r].ctx), 0);
    }
    if (!strstr(members[1].text, expected))
        fail_msg("'%s', expected '%s'", members[1].text, expected);
    struct stat info;
    assert_int_not_equal(stat("room/escaped", &info), 0);
    hub_end(&h);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(names_stay_inside_the_folder) {
    static const char *const names[] = {"../escaped", "a/b", ".hidden", "", "/tmp/x"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int64_t n = (int64_t)strlen(names[i]) + 1;
        refused(&(lie){n, n, names[i], 0}, "a name that is none inside one folder");
    }
    refused(&(lie){4, 4, "name", 0}, "a name that is none inside one folder");
}

TEST(lengths_are_checked) {
    refused(&(lie){(int64_t)1 << 40, 4, "name", 0},
            "rank 0 announced 1099511627776 bytes of names of files");
    refused(&(lie){-1, 4, "name", 0}, "rank 0 announced -1 bytes of names of files");
    refused(&(lie){5, 5, "name", -7}, "rank 0 announced -7 bytes for room/to/name");
}
