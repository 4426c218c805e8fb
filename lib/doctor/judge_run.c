/* SPDX-License-Identifier: MIT */
/* The conditions of the run: the same configuration and text everywhere, room in its folder.
 *
 *     counts      the same number of ranks on each host: a mesh is nodes x ranks
 *     runs        the same configuration (by its hash) and the same text for all
 *     data        the files are there and can be read
 *     folder      can be written, has room for the checkpoints that will be kept, survives a
 *                 restart; shared between hosts, or not
 */
#include <string.h>

#include "base/text.h"
#include "doctor/judge.h"

static void compare_runs(wefti_judge *j) {
    const weft_rank_facts *a = &j->ranks[0];
    for (int64_t r = 1; r < j->n_ranks; r++) {
        const weft_rank_facts *b = &j->ranks[r];
        if (a->has_run == b->has_run && a->config_hash == b->config_hash) continue;
        wefti_find(j, WEFT_FINDING_ERROR, "config", r,
                   "give all ranks the same run file and the same keys; copy the file, "
                   "or keep it in a folder that all machines see",
                   "rank %lld (%s) has another configuration than rank 0 (%s)",
                   (long long)r, b->host, a->host);
        break;
    }
    for (int64_t r = 1; r < j->n_ranks; r++) {
        const weft_rank_facts *b = &j->ranks[r];
        bool equal = a->data_hash == b->data_hash && a->data_bytes == b->data_bytes &&
                     a->data_files == b->data_files;
        if (equal || a->data_missing > 0 || b->data_missing > 0) continue;
        wefti_find(
            j, WEFT_FINDING_ERROR, "data", r,
            "copy the text files anew (rsync --checksum), or keep them in a folder "
            "that all machines see",
            "rank %lld (%s) has other text than rank 0 (%s): %lld files of %lld bytes "
            "against %lld of %lld%s",
            (long long)r, b->host, a->host, (long long)b->data_files,
            (long long)b->data_bytes, (long long)a->data_files, (long long)a->data_bytes,
            a->data_bytes == b->data_bytes ? ", whose first bytes differ" : "");
        break;
    }
}

static void judge_data(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    char size[32];
    if (f->data_missing > 0)
        wefti_find(j, WEFT_FINDING_ERROR, "data", r,
                   "check data.path; paths count from the folder in which the rank was "
                   "started",
                   "%s: %s cannot be read (%lld of %lld text files)", wefti_place(j, r),
                   f->data_path, (long long)f->data_missing,
                   (long long)(f->data_missing + f->data_files));
    else if (f->data_files > 0)
        wefti_find(j, WEFT_FINDING_OK, "data", r, NULL, "%s: %lld text file%s, %s",
                   wefti_place(j, r), (long long)f->data_files,
                   f->data_files == 1 ? "" : "s",
                   wefti_format_bytes((double)f->data_bytes, size, sizeof size));
    else
        wefti_find(j, WEFT_FINDING_NOTE, "data", r, "set data.path",
                   "%s: the configuration names no text", wefti_place(j, r));
}

static void judge_folder(wefti_judge *j, int64_t r) {
    const weft_rank_facts *f = &j->ranks[r];
    char free[32], needed[32];
    wefti_format_bytes((double)f->disk_free_bytes, free, sizeof free);
    wefti_format_bytes((double)f->disk_needed_bytes, needed, sizeof needed);
    if (f->folder_error != 0)
        wefti_find(j, WEFT_FINDING_ERROR, "folder", r,
                   "name another run.folder, or change who may write there",
                   "%s: run.folder would lie in %s, where one cannot write: %s",
                   wefti_place(j, r), f->folder,
                   f->folder_error > 0 ? strerror((int)f->folder_error)
                                       : "not known why");
    else if (f->disk_free_bytes >= 0 && f->disk_free_bytes < f->disk_needed_bytes)
        wefti_find(
            j, WEFT_FINDING_ERROR, "folder", r,
            "make room, name another run.folder, or keep fewer checkpoints "
            "(run.keep, run.save_every)",
            "%s: %s (%s) has %s free, and the checkpoints of the run take about %s",
            wefti_place(j, r), f->folder, f->folder_type, free, needed);
    else
        wefti_find(j, WEFT_FINDING_OK, "folder", r, NULL,
                   "%s: %s (%s) has %s free, the run's checkpoints take about %s",
                   wefti_place(j, r), f->folder, f->folder_type, free, needed);
    if (wefti_is(f->folder_type, "tmpfs") || wefti_is(f->folder_type, "ramfs"))
        wefti_find(j, WEFT_FINDING_NOTE, "folder", r, "name a run.folder on a disk",
                   "%s: %s lies in memory, and is gone after a restart",
                   wefti_place(j, r), f->folder);
}

static void judge_sharing(wefti_judge *j) {
    for (int64_t r = 0; j->n_hosts > 1 && r < j->n_ranks; r++) {
        const weft_rank_facts *f = &j->ranks[r];
        if (f->folder_shared != 0) continue;
        wefti_find(j, WEFT_FINDING_NOTE, "folder", r,
                   "a run.folder that all machines see (NFS, a parallel file system) "
                   "saves the way over the network",
                   "run.folder lies on a disk of %s itself (%s): at each checkpoint the "
                   "ranks of other machines send their parts to the first one's",
                   f->host, f->folder_type);
        return;
    }
}

/* A mesh is nodes x ranks_per_node, with the same number of ranks on each node. */
static void judge_counts(wefti_judge *j) {
    int64_t first = 0;
    for (int64_t r = 0; r < j->n_ranks; r++) first += wefti_same_host(j, 0, r);
    for (int64_t r = 1; r < j->n_ranks; r++) {
        int64_t n = 0;
        for (int64_t q = 0; q < j->n_ranks; q++) n += wefti_same_host(j, r, q);
        if (n == first) continue;
        wefti_find(
            j, WEFT_FINDING_ERROR, "ranks", r,
            "start the same number of ranks on each machine: mpirun --host a:N,b:N",
            "%s has %lld rank%s and %s has %lld", j->ranks[0].host, (long long)first,
            first == 1 ? "" : "s", j->ranks[r].host, (long long)n);
        return;
    }
}

void wefti_judge_run(wefti_judge *j) {
    if (j->n_hosts > 1) judge_counts(j);
    compare_runs(j);
    for (int64_t r = 0; r < j->n_ranks; r++) {
        if (!wefti_first_of_host(j, r) || !j->ranks[r].has_run) continue;
        judge_data(j, r);
        judge_folder(j, r);
    }
    if (j->ranks[0].has_run) judge_sharing(j);
}
