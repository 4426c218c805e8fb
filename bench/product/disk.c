/* SPDX-License-Identifier: MIT */
/* The disks of the machines. What `disk/` names lies in `disk.H` of the folder in which the
 * program works, H being the machine, or 0 where all share one disk; the real file system keeps
 * names, bytes and locks, and these calls decide when one returns and what it says:
 *
 *     full    a call that needs room fails with ENOSPC; a write may be done in part before
 *     slow    a call takes up to 0.2 s
 *     doom    the process dies at its next calls; a write may be done in part
 *     power   what was not synced is lost: bytes of a file since its last fsync, entries of a
 *             folder since that of the folder; all of it, none, or some (drawn)
 *
 * A shared disk is another machine's, which keeps its power. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

#define WRAP(type, name, parameters)                                                     \
    type __real_##name parameters;                                                       \
    type __wrap_##name parameters;                                                       \
    type __wrap_##name parameters

static const char root[] = "disk";

/* An open file of a disk; the numbers are the system's. */
typedef struct opened {
    process *by;
    int disk;
} opened;
static opened files[FIRST_FILE];

int __real_close(int);
int __real_open(const char *, int, mode_t);
ssize_t __real_read(int, void *, size_t);
ssize_t __real_write(int, const void *, size_t);
int __real_fcntl(int, int, ...);
int __real_stat(const char *, struct stat *);
int __real_rename(const char *, const char *);
int __real_remove(const char *);

/* What the next power loss leaves of a file or folder. */
typedef struct entry {
    char name[256];
    ino_t of;
} entry;

typedef struct safe {
    ino_t number;
    bool folder;
    char *bytes; /* of a file */
    size_t n;
    entry *entries; /* [n] of a folder */
} safe;

typedef struct disk {
    int64_t full_ns, slow_ns;
    safe *safes;
    int n_safes;
} disk;
static disk disks[MAX_HOSTS + 1];

int disk_of(int h) { return the_plan.shared ? 0 : h; }

void disk_fills(int h, int64_t until_ns) {
    disks[disk_of(h)].full_ns = until_ns;
    kept_full(h);
}
void disk_slows(int h, int64_t until_ns) { disks[disk_of(h)].slow_ns = until_ns; }

static int fail_with(int error) {
    errno = error;
    return -1;
}

/* --- one call --- */

/* Where the path lies, and on which disk; -1: on none. */
static const char *place(const char *path, char out[PATH_MAX], int *at) {
    *at = -1;
    size_t n = sizeof root - 1;
    if (!w.current || strncmp(path, root, n) != 0) return path;
    *at = disk_of(w.current->owner->host);
    if (path[n] == '.') return path; /* from a walk through it */
    snprintf(out, PATH_MAX, "disk.%d%s", *at, path + n);
    return out;
}

static int disk_of_file(int fd) {
    bool known = w.current && fd >= 0 && fd < FIRST_FILE;
    return known && files[fd].by == w.current->owner ? files[fd].disk : -1;
}

static bool is_doomed(void) {
    process *p = w.current->owner;
    return p->doom > 0 && --p->doom == 0 && life_may_die(p->life);
}

static void die(void) {
    life_dies(w.current->owner->life);
    abort();
}

/* A call of a process to its disk: whether it is done. */
static bool visit(int at, bool grows) {
    if (at < 0) return true;
    point();
    if (is_doomed()) die();
    if (disks[at].slow_ns > w.now_ns) fiber_sleep(draw_between(0, 200) * MS);
    if (!grows || disks[at].full_ns <= w.now_ns) return true;
    errno = ENOSPC;
    return false;
}

/* --- what is safe --- */

static safe *find_safe(disk *d, ino_t number) {
    for (int i = 0; i < d->n_safes; i++)
        if (d->safes[i].number == number) return &d->safes[i];
    return NULL;
}

static safe *make_safe(disk *d, ino_t number, bool folder) {
    safe *s = find_safe(d, number);
    if (!s) {
        d->safes = realloc(d->safes, (size_t)(d->n_safes + 1) * sizeof *d->safes);
        s = &d->safes[d->n_safes++];
        *s = (safe){0};
    }
    free(s->bytes);
    free(s->entries);
    *s = (safe){.number = number, .folder = folder};
    return s;
}

static void read_folder(safe *s, const char *path) {
    DIR *folder = opendir(path);
    struct dirent *e;
    while (folder && (e = readdir(folder))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        s->entries = realloc(s->entries, (s->n + 1) * sizeof *s->entries);
        snprintf(s->entries[s->n].name, sizeof s->entries->name, "%s", e->d_name);
        s->entries[s->n++].of = e->d_ino;
    }
    if (folder) closedir(folder);
}

static void read_file(safe *s, const char *path) {
    FILE *in = fopen(path, "r");
    char part[4096];
    for (size_t n; in && (n = fread(part, 1, sizeof part, in)) > 0; s->n += n) {
        s->bytes = realloc(s->bytes, s->n + n);
        memcpy(s->bytes + s->n, part, n);
    }
    if (in) fclose(in);
}

/* From now on a loss of power leaves what lies there. */
static void keep_safe(disk *d, const char *path) {
    struct stat info;
    if (__real_stat(path, &info) != 0) return;
    safe *s = make_safe(d, info.st_ino, S_ISDIR(info.st_mode));
    if (s->folder)
        read_folder(s, path);
    else
        read_file(s, path);
}

/* --- power --- */

/* Of 100 things that were not synced, so many are lost. */
static int loses;

static bool is_lost(void) { return (int)draw_between(1, 100) <= loses; }

static int find_name(const safe *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->entries[i].name, name) == 0) return (int)i;
    return -1;
}

/* Where the file or folder lies now; what has been removed is held by nobody. */
typedef struct found {
    ino_t number;
    char path[PATH_MAX];
} found;
static found *all_found;
static int n_found;

static int note_found(const char *path, const struct stat *info, int type,
                      struct FTW *walk) {
    (void)type, (void)walk;
    all_found = realloc(all_found, (size_t)(n_found + 1) * sizeof *all_found);
    all_found[n_found].number = info->st_ino;
    snprintf(all_found[n_found++].path, PATH_MAX, "%s", path);
    return 0;
}

static void put_bytes(const char *to, const char *bytes, size_t n) {
    FILE *out = fopen(to, "w");
    if (!out || fwrite(bytes, 1, n, out) != n) fail_world("could not restore %s", to);
    if (out) fclose(out);
}

static void restore(disk *d, ino_t number, const char *to);

static void restore_folder(disk *d, const safe *then, const safe *now, const char *to) {
    char path[PATH_MAX];
    mkdir(to, 0777);
    for (size_t i = 0; then && i < then->n; i++) {
        int at = now ? find_name(now, then->entries[i].name) : -1;
        bool same = at >= 0 && now->entries[at].of == then->entries[i].of;
        snprintf(path, sizeof path, "%s/%s", to, then->entries[i].name);
        if (same || is_lost())
            restore(d, then->entries[i].of, path); /* the change is lost */
        else if (at >= 0)
            restore(d, now->entries[at].of, path);
    }
    for (size_t i = 0; now && i < now->n; i++) {
        snprintf(path, sizeof path, "%s/%s", to, now->entries[i].name);
        if (then && find_name(then, now->entries[i].name) >= 0) continue;
        if (!is_lost()) restore(d, now->entries[i].of, path);
    }
}

/* Makes again what the number named: as it was synced last, or as it is. */
static void restore(disk *d, ino_t number, const char *to) {
    const char *path = NULL;
    const safe *then = find_safe(d, number);
    safe now = {.folder = then && then->folder};
    struct stat info;
    for (int i = 0; i < n_found; i++)
        if (all_found[i].number == number) path = all_found[i].path;
    if (path && __real_stat(path, &info) == 0) {
        now.folder = S_ISDIR(info.st_mode);
        if (now.folder)
            read_folder(&now, path);
        else
            read_file(&now, path);
    }
    if (now.folder)
        restore_folder(d, then, path ? &now : NULL, to);
    else {
        const safe *is = (then && !path) || is_lost() ? then : &now;
        put_bytes(to, is ? is->bytes : NULL, is ? is->n : 0);
    }
    free(now.bytes);
    free(now.entries);
}

static int keep_entry(const char *path, const struct stat *info, int type,
                      struct FTW *walk) {
    (void)info, (void)type, (void)walk;
    disk *d = NULL;
    for (int h = 0; h <= MAX_HOSTS; h++) {
        char name[16];
        int n = snprintf(name, sizeof name, "disk.%d", h);
        if (strncmp(path, name, (size_t)n) == 0) d = &disks[h];
    }
    if (d) keep_safe(d, path);
    return 0;
}

static int remove_entry(const char *path, const struct stat *info, int type,
                        struct FTW *walk) {
    (void)info, (void)type, (void)walk;
    return __real_remove(path);
}

void disk_loses_power(int h) {
    static const int shares[] = {100, 50, 0};
    char name[32], new[32];
    struct stat info;
    disk *d = &disks[h];
    snprintf(name, sizeof name, "disk.%d", h);
    snprintf(new, sizeof new, "new.%d", h);
    if (!the_plan.train || the_plan.shared || __real_stat(name, &info) != 0) return;
    loses = shares[draw() % 3];
    trace("the disk of host %d loses %d of 100 things that were not synced", h, loses);
    n_found = 0;
    nftw(name, note_found, 16, FTW_PHYS);
    restore(d, info.st_ino, new);
    nftw(name, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (__real_rename(new, name) != 0) fail_world("could not restore %s", name);
    d->n_safes = 0;
    nftw(name, keep_entry, 16, FTW_PHYS);
    kept_power(h);
}

void disk_begin(void) {
    char name[32];
    for (int h = 0; h <= MAX_HOSTS; h++) {
        snprintf(name, sizeof name, "disk.%d", h);
        mkdir(name, 0777);
    }
}

void disk_forget(const process *p) {
    for (int fd = 0; fd < FIRST_FILE; fd++)
        if (files[fd].by == p) {
            files[fd].by = NULL;
            __real_close(fd);
        }
}

/* --- calls with a path --- */

int disk_open(const char *path, int flags, mode_t mode) {
    char real[PATH_MAX];
    int at;
    path = place(path, real, &at);
    if (!visit(at, flags & O_CREAT)) return -1;
    int fd = __real_open(path, flags, mode);
    if (at < 0 || fd < 0) return fd;
    if (fd >= FIRST_FILE) fail_world("a file has the number %d", fd);
    files[fd] = (opened){w.current->owner, at};
    return fd;
}

WRAP(int, mkdir, (const char *path, mode_t mode)) {
    char real[PATH_MAX];
    int at;
    path = place(path, real, &at);
    struct stat info;
    bool is_new = at >= 0 && __real_stat(path, &info) != 0;
    return visit(at, is_new) ? __real_mkdir(path, mode) : -1;
}

#define ONE_PATH(type, name, bad, grows, parameters, call)                               \
    WRAP(type, name, parameters) {                                                       \
        char real[PATH_MAX];                                                             \
        int at;                                                                          \
        path = place(path, real, &at);                                                   \
        return visit(at, grows) ? __real_##name call : bad;                              \
    }

ONE_PATH(int, stat, -1, false, (const char *path, struct stat *out), (path, out))
ONE_PATH(int, lstat, -1, false, (const char *path, struct stat *out), (path, out))
ONE_PATH(int, access, -1, false, (const char *path, int how), (path, how))
ONE_PATH(int, unlink, -1, false, (const char *path), (path))
ONE_PATH(int, remove, -1, false, (const char *path), (path))
ONE_PATH(DIR *, opendir, NULL, false, (const char *path), (path))

WRAP(int, rename, (const char *from, const char *to)) {
    char real[2][PATH_MAX];
    int at;
    from = place(from, real[0], &at);
    to = place(to, real[1], &at);
    return visit(at, false) ? __real_rename(from, to) : -1;
}

WRAP(int, nftw, (const char *path, __nftw_func_t each, int most, int how)) {
    char real[PATH_MAX];
    int at;
    path = place(path, real, &at);
    return visit(at, false) ? __real_nftw(path, each, most, how) : -1;
}

WRAP(char *, __realpath_chk, (const char *path, char *out, size_t room)) {
    char real[PATH_MAX];
    int at;
    path = place(path, real, &at);
    (void)room;
    return visit(at, false) ? realpath(path, out) : NULL;
}

/* What a machine tells of its boot and of its processes. */
WRAP(FILE *, fopen, (const char *path, const char *how)) {
    int id;
    char text[200] = "";
    if (!w.current) return __real_fopen(path, how);
    const process *me = w.current->owner, *p = NULL;
    if (strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
        snprintf(text, sizeof text, "host%d-boot%d\n", me->host, hosts[me->host].epoch);
    else if (sscanf(path, "/proc/%d/stat", &id) == 1) {
        if (id >= 1000 && id < 1000 + w.n_processes) p = w.processes[id - 1000];
        if (!p || p->dead || p->host != me->host) return NULL;
        snprintf(text, sizeof text, "%d (weft) S 1%s %d 0 0\n", id,
                 " 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0", id);
    } else if (strncmp(path, "/proc/", 6) == 0)
        /* memory and load are no function of a seed */
        return NULL;
    else
        return __real_fopen(path, how);
    FILE *out = fmemopen(NULL, sizeof text, "w+");
    fputs(text, out);
    rewind(out);
    return out;
}

WRAP(time_t, time, (time_t * out)) {
    if (!w.current) return __real_time(out);
    return (time_t)(1800000000 + w.now_ns / SECOND);
}

/* --- calls with an open file --- */

int disk_close(int fd) {
    int at = disk_of_file(fd);
    (void)visit(at, false);
    if (at >= 0) files[fd].by = NULL;
    return __real_close(fd);
}

/* A part of what was to be written, where the process dies in it. */
static size_t part_of(size_t n) {
    process *p = w.current->owner;
    return p->doom == 1 && life_may_die(p->life) ? (size_t)draw_between(0, (int64_t)n)
                                                 : 0;
}

/* How much of so many bytes a write takes: less on a disk that is full, 0 in every second call. */
static size_t room_for(int at, size_t n) {
    bool full = at >= 0 && disks[at].full_ns > w.now_ns;
    if (!full) return n;
    return draw_one_in(2) ? 0 : (size_t)draw_between(0, (int64_t)n - 1);
}

ssize_t disk_write(int fd, const void *bytes, size_t n) {
    int at = disk_of_file(fd);
    size_t part = at >= 0 ? part_of(n) : 0;
    if (part > 0 && __real_write(fd, bytes, part) < 0) fail_world("a disk is full");
    size_t room = part == 0 && n > 0 ? room_for(at, n) : n;
    if (visit(at, room == 0 || room == n)) return __real_write(fd, bytes, room);
    return -1;
}

ssize_t disk_read(int fd, void *bytes, size_t n) {
    (void)visit(disk_of_file(fd), false);
    return __real_read(fd, bytes, n);
}

WRAP(ssize_t, pwrite, (int fd, const void *bytes, size_t n, off_t to)) {
    int at = disk_of_file(fd);
    size_t part = at >= 0 ? part_of(n) : 0;
    if (part > 0 && __real_pwrite(fd, bytes, part, to) < 0) fail_world("a disk is full");
    struct stat info;
    bool grows = at >= 0 && fstat(fd, &info) == 0 && to + (off_t)n > info.st_size;
    size_t room = grows && part == 0 ? room_for(at, n) : n;
    bool whole = room == 0 || room == n;
    return visit(at, grows && whole) ? __real_pwrite(fd, bytes, room, to) : -1;
}

WRAP(ssize_t, pread, (int fd, void *bytes, size_t n, off_t from)) {
    (void)visit(disk_of_file(fd), false);
    return __real_pread(fd, bytes, n, from);
}

WRAP(int, ftruncate, (int fd, off_t n)) {
    (void)visit(disk_of_file(fd), false);
    return __real_ftruncate(fd, n);
}

WRAP(int, posix_fallocate, (int fd, off_t from, off_t n)) {
    return visit(disk_of_file(fd), true) ? __real_posix_fallocate(fd, from, n) : ENOSPC;
}

WRAP(int, fsync, (int fd)) {
    char link[32];
    int at = disk_of_file(fd);
    if (at < 0) return __real_fsync(fd);
    if (!visit(at, false)) return -1;
    fiber_sleep(draw_between(20, 2000) * MS / 1000);
    if (is_doomed()) die();
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    keep_safe(&disks[at], link);
    return 0;
}

int disk_lock(int fd, int command, void *argument) {
    int at = disk_of_file(fd);
    (void)visit(at, false);
    if (at == 0 && the_plan.lockless) return fail_with(ENOLCK);
    return __real_fcntl(fd, command, argument);
}
