/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>
#include <weft/ctx.h>
#include <weft/mesh.h>

#include "args.h"
#include "say.h"

/* A context whose log goes to stderr; NULL after saying why there is none. */
weft_ctx *program_context(void);

/* CODE_USAGE for what the user got wrong, CODE_FAILED for what went wrong. */
int code_of(weft_status status);

/* Says the context's sentence on stderr and returns the status's exit code. */
int program_fail(const weft_ctx *ctx, weft_status status);

/* The configuration of a command line: run files, a later one over an earlier one, key=value
 * operands, and the flags that are short for a key; finished. [out] *out owned by the caller
 * (weft_config_destroy). */
weft_status config_of_args(weft_ctx *ctx, const args *a, weft_config **out) WEFT_CHECKED;

/* The key, or certificate, that the operands or WEFT_KEY_FILE name. [out] *config: who owns the
 * names; owned by the caller, NULL if there was no memory. */
weft_status security_of_args(weft_ctx *ctx, const args *a, weft_config **config,
                             weft_mesh_security *out) WEFT_CHECKED;

/* Opens the mesh with the key that the operands, or WEFT_KEY_FILE, name. */
weft_status mesh_of_args(weft_ctx *ctx, const args *a, weft_mesh **out) WEFT_CHECKED;

/* As config_of_args, fitted to the processes of a mesh; NULL: there is none. */
weft_status config_on_mesh(weft_ctx *ctx, const args *a, const weft_mesh *mesh,
                           weft_config **out) WEFT_CHECKED;

/* Ends a program that may be one of several (mesh NULL: it is not): a failure is told to
 * the others, and one of them says it. Returns the exit code, `code` if all is well. */
int leave_mesh(weft_ctx *ctx, weft_mesh *mesh, weft_status status, int code);

/* Reads whole files one after another. [out] *text for free(); *n its bytes. */
weft_status read_files(weft_ctx *ctx, char *const *paths, int n_paths, char **text,
                       int64_t *n) WEFT_CHECKED;

/* The configuration key of that name, or NULL. */
const weft_config_key *key_of(const char *name);

/* The i-th word that the first operand of a command can be, NULL past the last. */
const char *command_word(const command *c, int i);
