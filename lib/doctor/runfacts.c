/* SPDX-License-Identifier: MIT */
/* The needs of a configured run on this machine, and what is available. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#else
#include <sys/mount.h>
#include <sys/param.h>
#endif

#include "base/text.h"
#include "config/layers.h"
#include "config/named.h"
#include "doctor/examine.h"
#include "doctor/hash.h"
#include "job/engine.h"

enum { HEAD_BYTES = 1 << 20 };

#ifndef __APPLE__ /* which says it by name */
typedef struct file_system {
    long magic; /* as statfs returns it */
    const char *name;
    bool shared;
} file_system;

static const file_system file_systems[] = {
    {0x6969, "nfs", true},          {0x65735546, "fuse", true},
    {0xff534d42, "cifs", true},     {0xfe534d42, "smb2", true},
    {0x00c36400, "ceph", true},     {0x0bd00bd0, "lustre", true},
    {0x47504653, "gpfs", true},     {0x19830326, "beegfs", true},
    {0x20030528, "orangefs", true}, {0x01161970, "gfs2", true},
    {0x7461636f, "ocfs2", true},    {0x01021997, "9p", true},
    {0x6a656a63, "virtiofs", true}, {0xef53, "ext4", false},
    {0x58465342, "xfs", false},     {(long)0x9123683e, "btrfs", false},
    {0x01021994, "tmpfs", false},   {(long)0x858458f6, "ramfs", false},
    {0x794c7630, "overlay", false}, {(long)0xf2f52010, "f2fs", false},
    {0x2fc12fc1, "zfs", false},
};
#endif

/* The nearest existing parent folder of a path that may not exist yet. */
static void nearest_folder(const char *path, char *out) {
    struct stat info;
    wefti_set_text(out, PATH_MAX, path);
    while (stat(out, &info) != 0) {
        char *slash = strrchr(out, '/');
        if (!slash) {
            wefti_set_text(out, PATH_MAX, ".");
            return;
        }
        slash[slash == out ? 1 : 0] = '\0';
        if (slash == out && wefti_is(out, "/")) return;
    }
}

static void examine_folder(const char *path, weft_rank_facts *facts) {
    char folder[PATH_MAX];
    struct statfs info;
    nearest_folder(path, folder);
    wefti_set_text(facts->folder, sizeof facts->folder, folder);
    facts->folder_error = access(folder, W_OK | X_OK) == 0 ? 0 : errno;
    if (statfs(folder, &info) != 0) {
        facts->folder_error = errno;
        return;
    }
    facts->disk_free_bytes = (int64_t)info.f_bavail * (int64_t)info.f_bsize;
#ifdef __APPLE__
    wefti_set_text(facts->folder_type, sizeof facts->folder_type, info.f_fstypename);
    facts->folder_shared = !(info.f_flags & MNT_LOCAL);
#else
    snprintf(facts->folder_type, sizeof facts->folder_type, "0x%lx",
             (unsigned long)info.f_type);
    for (size_t i = 0; i < sizeof file_systems / sizeof file_systems[0]; i++) {
        if ((unsigned int)file_systems[i].magic != (unsigned int)info.f_type) continue;
        wefti_set_text(facts->folder_type, sizeof facts->folder_type,
                       file_systems[i].name);
        facts->folder_shared = file_systems[i].shared;
    }
#endif
}

/* Hashes the sizes and the beginnings of the texts in the order of the list; records the
 * first one that is missing. */
static void examine_texts(const weft_texts *paths, weft_rank_facts *facts) {
    for (int i = 0; i < paths->n; i++) {
        struct stat info;
        if (strstr(paths->items[i], "://")) continue; /* fetched when the run begins */
        bool there = stat(paths->items[i], &info) == 0 &&
                     access(paths->items[i], R_OK) == 0;
        if ((there && facts->data_files == 0 && facts->data_missing == 0) ||
            (!there && facts->data_missing == 0))
            wefti_set_text(facts->data_path, sizeof facts->data_path, paths->items[i]);
        facts->data_missing += !there;
        facts->data_files += there;
        if (!there) continue;
        uint64_t seed = facts->data_hash + (uint64_t)info.st_size;
        facts->data_bytes += S_ISREG(info.st_mode) ? (int64_t)info.st_size : 0;
        facts->data_hash = wefti_digest_file(paths->items[i], HEAD_BYTES, seed) ^ seed;
    }
}

/* The number of ids of the tokenizer, if it is known before the text is read. */
static int64_t vocabulary(weft_ctx *ctx, const weft_config *config) {
    int64_t n = wefti_tokenizer_ids(config->data.tokenizer, config->data.vocab), counted;
    if (!wefti_tokenizer_is_file(config->data.tokenizer)) return n;
    if (wefti_engine_here.count_ids(ctx, config->data.tokenizer, &counted) == WEFT_OK)
        return counted;
    weft_ctx_clear(ctx);
    return n;
}

/* The largest number of checkpoints in the folder at a time, including the one being written. */
static int64_t checkpoints(const weft_config *config) {
    int64_t every = config->run.save_every, keep = config->run.keep;
    int64_t all = every > 0 ? config->run.steps / every + 1 : 1;
    bool timed = config->run.save_time > 0 && config->run.steps > all;
    return keep > 0 && (timed || keep + 1 < all) ? keep + 1 : all + timed;
}

static weft_status measure_needs(weft_ctx *ctx, const wefti_job *job,
                                 weft_rank_facts *facts) {
    int64_t saved = 0, most = 0;
    for (int s = 0; s < job->S; s++) {
        wefti_arrangement *a;
        WEFT_TRY(wefti_arrangement_create(ctx, job, s, &a));
        wefti_footprint f = wefti_job_footprint(job, a);
        saved += wefti_job_saved_bytes(job, a);
        wefti_arrangement_destroy(ctx, a);
        if (f.total > most) most = f.total;
    }
    facts->memory_needed_bytes = most * facts->process_ranks;
    facts->disk_needed_bytes = saved * checkpoints(job->config);
    return WEFT_OK;
}

weft_status wefti_examine_run(weft_ctx *ctx, const weft_doctor_options *options,
                              weft_rank_facts *facts) {
    const weft_config *config = options->config;
    const char *text;
    wefti_job *job;
    WEFT_TRY(wefti_config_shared(ctx, options->config, true, &text));
    facts->config_hash = wefti_digest_text(text);
    facts->has_run = 1;
    facts->nodes = config->mesh.nodes;
    facts->ranks_per_node = config->mesh.ranks_per_node;
    facts->threads = config->mesh.threads;
    if (facts->size == 1) facts->process_ranks = facts->nodes * facts->ranks_per_node;
    facts->data_files = facts->data_bytes = facts->data_missing = 0;
    examine_texts(&config->data.path, facts);
    examine_texts(&config->data.validation_path, facts);
    examine_folder(config->run.folder, facts);
    WEFT_TRY(wefti_config_undecided(ctx, options->config));
    WEFT_TRY(wefti_job_create(ctx, config, NULL, vocabulary(ctx, config), &job));
    weft_status status = measure_needs(ctx, job, facts);
    wefti_job_destroy(ctx, job);
    return status;
}
