/* SPDX-License-Identifier: MIT */
/* What processes tell each other before their ranks run, and how files are copied. The
 * first process (the leader) looks into the run folder and tells the others what it
 * found; values are compared; a file is sent in pieces to machines that do not see the
 * leader's folder. */
#define _GNU_SOURCE
#include "rank/bootstrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "mesh/elastic.h"

enum { PIECE_BYTES = 4 << 20, CHANNEL = 7, MAX_FILES = 4096, NO_FILE = -1 };

/* Distance between the tags of two pieces of a file. */
static const int64_t NEXT_PIECE = (int64_t)1 << 32;

weft_status wefti_bootstrap_join(weft_ctx *ctx, weft_mesh *mesh, wefti_bootstrap *out) {
    *out = (wefti_bootstrap){.mesh = mesh};
    if (!mesh) return WEFT_OK;
    weft_mesh_facts facts = *weft_mesh_look(mesh);
    wefti_world *world = &mesh->world;
    return wefti_world_join(ctx, world, facts.rank, WEFTI_GROUP_WORLD, CHANNEL,
                            &out->comm);
}

void wefti_bootstrap_leave(weft_ctx *ctx, wefti_bootstrap *c) {
    wefti_comm_destroy(c->comm);
    wefti_free(ctx, c->sees);
    *c = (wefti_bootstrap){0};
}

bool wefti_bootstrap_leads(const wefti_bootstrap *c) {
    return !c->comm || c->comm->rank == 0;
}

weft_status wefti_bootstrap_tell(wefti_bootstrap *c, void *data, int64_t n_bytes) {
    return wefti_bootstrap_tell_from(c, 0, data, n_bytes);
}

weft_status wefti_bootstrap_tell_from(wefti_bootstrap *c, int from, void *data,
                                      int64_t n_bytes) {
    if (!c->comm) return WEFT_OK;
    int64_t tag = c->n_messages++;
    if (c->comm->rank == from) {
        WEFT_TRY(wefti_comm_send_all(c->comm, tag, data, n_bytes));
        return wefti_comm_await(c->comm, tag);
    }
    const void *view;
    WEFT_TRY(wefti_comm_receive(c->comm, from, tag, n_bytes, &view));
    memcpy(data, view, (size_t)n_bytes);
    wefti_comm_release(c->comm, from, tag);
    return WEFT_OK;
}

weft_status wefti_bootstrap_same(weft_ctx *ctx, wefti_bootstrap *c, uint64_t value,
                                 const char *what) {
    uint64_t theirs = value;
    WEFT_TRY(wefti_bootstrap_tell(c, &theirs, sizeof theirs));
    if (theirs == value) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s here is not that of rank 0; all ranks must have the same",
                         what);
}

weft_status wefti_bootstrap_sum(wefti_bootstrap *c, double *value) {
    if (!c->comm) return WEFT_OK;
    return wefti_comm_sum(c->comm, c->n_messages++, 1, value);
}

bool wefti_bootstrap_sees(const wefti_bootstrap *c, int rank) {
    return !c->sees || c->sees[rank];
}

int wefti_bootstrap_rank(const wefti_bootstrap *c) { return c->comm ? c->comm->rank : 0; }

/* Whether a file is sent to this rank: it is the first one on its machine among those
 * that do not see the leader's folder. */
static bool is_addressee(const wefti_bootstrap *c, int rank) {
    if (wefti_bootstrap_sees(c, rank)) return false;
    for (int r = 0; r < rank; r++)
        if (!wefti_bootstrap_sees(c, r) && wefti_elastic_same_host(c->mesh, r, rank))
            return false;
    return true;
}

static bool exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

weft_status wefti_bootstrap_look(weft_ctx *ctx, wefti_bootstrap *c, const char *folder,
                                 bool required) {
    char path[PATH_MAX];
    struct timespec now;
    int64_t mark[2];
    if (!c->comm) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, c->comm->size, 1, "ranks", &c->sees));
    clock_gettime(CLOCK_REALTIME, &now);
    mark[0] = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    mark[1] = (int64_t)getpid();
    weft_status made = wefti_file_mkdirs(ctx, folder);
    if (made != WEFT_OK && (required || made != WEFT_ERR_FILE)) return made;
    if (made != WEFT_OK) weft_ctx_clear(ctx);
    WEFT_TRY(wefti_comm_barrier(c->comm, c->n_messages++));
    if (c->comm->rank == 0) {
        snprintf(path, sizeof path, "%.4000s/.seen-%llx-%llx", folder,
                 (unsigned long long)mark[0], (unsigned long long)mark[1]);
        if (wefti_file_write(ctx, path, mark, sizeof mark) != WEFT_OK) mark[1] = NO_FILE;
        if (mark[1] == NO_FILE) weft_ctx_clear(ctx);
    }
    WEFT_TRY(wefti_bootstrap_tell(c, mark, sizeof mark));
    snprintf(path, sizeof path, "%.4000s/.seen-%llx-%llx", folder,
             (unsigned long long)mark[0], (unsigned long long)mark[1]);
    bool sees = exists(path);
    if (mark[1] == NO_FILE) /* a full disk: taken to be the machine's */
        sees = c->comm->rank == 0 || wefti_elastic_same_host(c->mesh, 0, c->comm->rank);
    WEFT_TRY(wefti_comm_all_gather(c->comm, c->n_messages++, &sees, 1, c->sees));
    if (c->comm->rank == 0) unlink(path);
    return WEFT_OK;
}

static weft_status send_bytes(weft_ctx *ctx, wefti_bootstrap *c, int fd, int64_t n_bytes,
                              int to, int64_t tag, char *piece, const char *path) {
    bool fine = true;
    for (int64_t done = 0; done < n_bytes;) {
        int64_t wanted = n_bytes - done < PIECE_BYTES ? n_bytes - done : PIECE_BYTES;
        ssize_t got = pread(fd, piece, (size_t)wanted, done);
        if (got < 0 && errno == EINTR) continue;
        if (got != wanted && fine) /* the receiver waits for all pieces */
            weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not read %s: %s", path,
                          got < 0 ? strerror(errno) : "it became shorter");
        fine = fine && got == wanted;
        tag += NEXT_PIECE;
        WEFT_TRY(wefti_comm_send(c->comm, to, tag, piece, wanted));
        WEFT_TRY(wefti_comm_await(c->comm, tag));
        done += wanted;
    }
    return fine ? WEFT_OK : WEFT_ERR_FILE;
}

/* Takes all pieces that are sent, even if the disk refuses one (fd -1: it has refused the
 * file). */
static weft_status receive_bytes(weft_ctx *ctx, wefti_bootstrap *c, int fd,
                                 int64_t n_bytes, int from, int64_t tag,
                                 const char *path) {
    weft_status kept = WEFT_OK;
    for (int64_t done = 0; done < n_bytes;) {
        int64_t wanted = n_bytes - done < PIECE_BYTES ? n_bytes - done : PIECE_BYTES;
        const void *view;
        tag += NEXT_PIECE;
        WEFT_TRY(wefti_comm_receive(c->comm, from, tag, wanted, &view));
        if (fd >= 0 && kept == WEFT_OK)
            kept = wefti_file_pwrite(ctx, fd, path, view, wanted, done);
        wefti_comm_release(c->comm, from, tag);
        done += wanted;
    }
    if (fd < 0 || kept != WEFT_OK || fsync(fd) == 0) return kept;
    return wefti_fail_errno(ctx, "sync", path);
}

static weft_status send_file(weft_ctx *ctx, wefti_bootstrap *c, int to, int64_t tag,
                             const char *path, char *piece) {
    struct stat info = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool fine = fd >= 0 && fstat(fd, &info) == 0;
    int error = errno;
    int64_t n_bytes = fine ? (int64_t)info.st_size : NO_FILE;
    weft_status status = wefti_comm_send(c->comm, to, tag, &n_bytes, sizeof n_bytes);
    if (status == WEFT_OK) status = wefti_comm_await(c->comm, tag);
    if (status == WEFT_OK && fine)
        status = send_bytes(ctx, c, fd, n_bytes, to, tag, piece, path);
    if (fd >= 0) close(fd);
    if (fine || status != WEFT_OK) return status;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not open %s: %s", path,
                         strerror(error));
}

static weft_status receive_file(weft_ctx *ctx, wefti_bootstrap *c, int from, int64_t tag,
                                const char *path) {
    const void *view;
    int64_t n_bytes;
    WEFT_TRY(wefti_comm_receive(c->comm, from, tag, sizeof n_bytes, &view));
    memcpy(&n_bytes, view, sizeof n_bytes);
    wefti_comm_release(c->comm, from, tag);
    if (n_bytes == NO_FILE)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "rank %d could not read %s", from, path);
    if (n_bytes < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                             "rank %d announced %lld bytes for %s, expected at least 0",
                             from, (long long)n_bytes, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    weft_status made = WEFT_OK;
    if (fd < 0) made = wefti_fail_errno(ctx, "create", path);
    weft_status status = receive_bytes(ctx, c, fd, n_bytes, from, tag, path);
    if (status == WEFT_OK) status = made;
    if (fd >= 0 && close(fd) != 0 && status == WEFT_OK)
        status = wefti_fail_errno(ctx, "close", path);
    return status;
}

weft_status wefti_bootstrap_send_file(weft_ctx *ctx, wefti_bootstrap *c, int from, int to,
                                      const char *path) {
    int64_t tag = c->n_messages++;
    if (!c->comm || from == to) return WEFT_OK;
    if (c->comm->rank == to) return receive_file(ctx, c, from, tag, path);
    if (c->comm->rank != from) return WEFT_OK;
    char *piece;
    WEFT_TRY(wefti_alloc(ctx, PIECE_BYTES, "a file's pieces", &piece));
    weft_status status = send_file(ctx, c, to, tag, path, piece);
    wefti_comm_settle(c->comm);
    wefti_free(ctx, piece);
    return status;
}

/* Names of a folder's files, one after another, each with a terminating zero. */
static weft_status list_files(weft_ctx *ctx, const char *folder, char *names,
                              int64_t size, int64_t *n_bytes) {
    DIR *d = opendir(folder);
    *n_bytes = 0;
    if (!d) return wefti_fail_errno(ctx, "open", folder);
    for (struct dirent *entry; (entry = readdir(d));) {
        int64_t n = (int64_t)strlen(entry->d_name) + 1;
        if (entry->d_name[0] == '.') continue;
        if (*n_bytes + n > size) {
            closedir(d);
            return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                                 "%s holds more names of files than fit into %lld bytes",
                                 folder, (long long)size);
        }
        memcpy(names + *n_bytes, entry->d_name, (size_t)n);
        *n_bytes += n;
    }
    closedir(d);
    return WEFT_OK;
}

/* Whether this is the name of a file in the folder itself: the list of rank 0 is not
 * trusted. */
static bool is_plain_name(const char *name) {
    return name[0] && name[0] != '.' && strlen(name) <= NAME_MAX && !strchr(name, '/');
}

static weft_status check_names(weft_ctx *ctx, const char *names, int64_t n_bytes) {
    bool fine = n_bytes == 0 || names[n_bytes - 1] == 0;
    for (int64_t i = 0; i < n_bytes && fine; i += (int64_t)strlen(names + i) + 1)
        fine = is_plain_name(names + i);
    if (fine) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                         "rank 0 sent a list of files with a name that is none inside "
                         "one folder");
}

/* Sends rank 0's list to all ranks. */
static weft_status tell_names(weft_ctx *ctx, wefti_bootstrap *c, char *names,
                              int64_t size, int64_t *n_bytes) {
    WEFT_TRY(wefti_bootstrap_tell(c, n_bytes, sizeof *n_bytes));
    if (*n_bytes < 0 || *n_bytes > size)
        return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                             "rank 0 announced %lld bytes of names of files, expected at "
                             "most %lld",
                             (long long)*n_bytes, (long long)size);
    WEFT_TRY(wefti_bootstrap_tell(c, names, *n_bytes));
    return check_names(ctx, names, *n_bytes);
}

static weft_status copy_file(weft_ctx *ctx, wefti_bootstrap *c, const char *from,
                             const char *to, const char *name) {
    char here[PATH_MAX], there[PATH_MAX];
    snprintf(here, sizeof here, "%.3000s/%.255s", from, name);
    snprintf(there, sizeof there, "%.3000s/%.255s", to, name);
    for (int r = 1; r < c->comm->size; r++) {
        if (!is_addressee(c, r)) continue;
        const char *path = c->comm->rank == 0 ? here : there;
        WEFT_TRY(wefti_bootstrap_send_file(ctx, c, 0, r, path));
    }
    return WEFT_OK;
}

weft_status wefti_bootstrap_copy_folder(weft_ctx *ctx, wefti_bootstrap *c,
                                        const char *from, const char *to) {
    enum { SIZE = MAX_FILES * 32 };
    char *names;
    int64_t n_bytes = 0;
    if (!c->comm) return WEFT_OK;
    int me = c->comm->rank;
    bool makes = is_addressee(c, me);
    WEFT_TRY(wefti_alloc(ctx, SIZE, "names of files", &names));
    weft_status status = WEFT_OK;
    if (me == 0) status = list_files(ctx, from, names, SIZE, &n_bytes);
    if (makes) status = wefti_file_remove_tree(ctx, to);
    if (makes && status == WEFT_OK) status = wefti_file_mkdirs(ctx, to);
    if (status == WEFT_OK) status = tell_names(ctx, c, names, SIZE, &n_bytes);
    for (int64_t i = 0; i < n_bytes && status == WEFT_OK;
         i += (int64_t)strlen(names + i) + 1)
        status = copy_file(ctx, c, from, to, names + i);
    wefti_comm_settle(c->comm);
    wefti_free(ctx, names);
    if (status != WEFT_OK) return status;
    return wefti_comm_barrier(c->comm, c->n_messages++);
}
