/* SPDX-License-Identifier: MIT */
/* What a folder is, by the files in it:
 *
 *     config.yaml      of a run       what `weft train` began there
 *     config.json      of a model     also of one without weights, which weft plan reads
 *     neither          anything else: texts, or the folder in which runs lie */
#define _GNU_SOURCE
#include "checkpoint/runfolder.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"

enum { MOST_NAMED = 4 }; /* runs, in a message */

weft_folder weft_folder_look(const char *folder) {
    char at[PATH_MAX];
    if (wefti_file_there(folder, "config.yaml", at)) return WEFT_FOLDER_RUN;
    return wefti_file_there(folder, "config.json", at) ? WEFT_FOLDER_MODEL
                                                       : WEFT_FOLDER_OTHER;
}

bool wefti_runs_in(const char *folder, char *out, size_t size) {
    struct dirent **names;
    char path[PATH_MAX];
    size_t n = 0;
    int found = 0, n_names = scandir(folder, &names, NULL, alphasort);
    out[0] = '\0';
    for (int i = 0; i < n_names; free(names[i++])) {
        const char *name = names[i]->d_name;
        bool runs = name[0] != '.' &&
                    snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX &&
                    weft_folder_look(path) == WEFT_FOLDER_RUN;
        if (runs && ++found <= MOST_NAMED && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", path);
    }
    if (n_names >= 0) free(names);
    if (found > MOST_NAMED && n < size)
        snprintf(out + n, size - n, " and %d more", found - MOST_NAMED);
    wefti_text_plain(out);
    return found > 0;
}

weft_status weft_run_look(weft_ctx *ctx, const char *folder) {
    char runs[400], at[PATH_MAX];
    struct stat info;
    if (strstr(folder, "://"))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s is an address, expected a run folder of this "
                             "machine%s",
                             folder,
                             strncmp(folder, "s3://", 5) == 0
                                 ? "; weft train ADDRESS --resume brings the run and "
                                   "compares its bytes"
                                 : "");
    if (stat(folder, &info) != 0)
        return wefti_fail_errno(ctx, "open the run folder", folder);
    if (!S_ISDIR(info.st_mode))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s is a file, expected a run folder",
                             folder);
    weft_folder kind = weft_folder_look(folder);
    if (kind == WEFT_FOLDER_RUN || wefti_file_there(folder, "metrics.jsonl", at))
        return WEFT_OK;
    if (kind == WEFT_FOLDER_MODEL)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s is the folder of a model, expected that of a run",
                             folder);
    if (!wefti_runs_in(folder, runs, sizeof runs)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s holds runs, expected one of them: %s",
                         folder, runs);
}
