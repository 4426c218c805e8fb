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
