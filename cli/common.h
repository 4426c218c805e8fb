/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include <weft/config.h>
#include <weft/ctx.h>
#include <weft/mesh.h>

#include "args.h"
#include "say.h"

/* Makes a context that logs to stderr. Prints the reason and returns NULL if that fails. */
weft_ctx *program_context(void);

/* From now on what the library logs is printed, as from the beginning; a process that is not
 * the first of its run is silent until it is. */
void program_speak(weft_ctx *ctx);

/* What is read now is read again, and its warnings are printed then; a wait is printed. */
void program_hush(weft_ctx *ctx);

/* The same of a process that is not the first of its run: for whom it waits for long. */
void program_waits(weft_ctx *ctx);

/* Called once, when the next weft train of this process has looked at everything and begins. */
void program_at_start(void (*tell)(void *user), void *user);
void program_starts(void);

/* The exit code of a status: CODE_USAGE for an error of the user, else CODE_FAILED. */
int code_of(weft_status status);

/* The exit code of a status, whose error message, if it is one, goes to stderr. */
int program_code(const weft_ctx *ctx, weft_status status);

/* Makes the finished configuration of a command line from its run files (a later file
 * overrides an earlier one), its key=value operands, and the flags that set a key. [out]
 * *out owned by the caller (weft_config_destroy). */
weft_status config_of_args(weft_ctx *ctx, const args *a, weft_config **out) WEFT_CHECKED;

/* The key or certificate that the operands or WEFT_KEY_FILE name. [out] *config owns the
 * strings of *out; it is owned by the caller, and NULL if there was no memory. */
weft_status security_of_args(weft_ctx *ctx, const args *a, weft_config **config,
                             weft_mesh_security *out) WEFT_CHECKED;

/* Opens the mesh, with the key that the operands or WEFT_KEY_FILE name. */
weft_status mesh_of_args(weft_ctx *ctx, const args *a, weft_mesh **out) WEFT_CHECKED;

/* As config_of_args, and adapts the configuration to the processes of the mesh. `mesh` is
 * NULL for a process without one. */
weft_status config_on_mesh(weft_ctx *ctx, const args *a, const weft_mesh *mesh,
                           weft_config **out) WEFT_CHECKED;

/* Before the configuration is finished: a folder that the command line does not name gets a
 * number, runs/weft, runs/weft-2, ... A new run takes the first one that is free, --resume the
 * last one that is not. */
weft_status number_folder(weft_ctx *ctx, const args *a, weft_config *config) WEFT_CHECKED;

/* Ends a program that may be one process of several (mesh NULL: it is alone). A failure
 * is sent to the others, and one process prints it. Returns the exit code, `code` if all
 * is well. */
int leave_mesh(weft_ctx *ctx, weft_mesh *mesh, weft_status status, int code);

/* Reads whole files one after another. [out] *text for free(); *n its bytes. */
weft_status read_files(weft_ctx *ctx, char *const *paths, int n_paths, char **text,
                       int64_t *n) WEFT_CHECKED;

/* Flushes stdout: the exit code, which is another one where something was not written, and a line
 * that says why. */
int finish_output(int code);

/* Prints an object or a list as one line and takes it; NULL is what memory was missing for. */
int say_json(json_t *value);

/* The configuration key of that name, or NULL. */
const weft_config_key *key_of(const char *name);

/* The i-th possible value of a command's first operand, NULL past the last. */
const char *command_word(const command *c, int i);

/* --- key.c --- */

enum { KEY_TEXT_BYTES = 66 };

/* Makes a new key as the line of its file: 64 hexadecimal digits. False with errno. */
bool key_make(char text[KEY_TEXT_BYTES]);

/* --- waiting.c --- */

/* Makes waiting threads sleep after a while instead of spinning. Must be called first in
 * main, with its arguments. Returns if there is nothing to do; otherwise the program
 * restarts itself. */
void threads_sleep(char **argv);

/* An OpenBLAS with threads of its own computes each product in the thread that calls it. */
void products_in_one_thread(void);
