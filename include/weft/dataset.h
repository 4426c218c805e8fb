/* SPDX-License-Identifier: MIT */
#ifndef WEFT_DATASET_H
#define WEFT_DATASET_H

#include <weft/chat.h>
#include <weft/ctx.h>
#include <weft/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Tokens from files, and batches that are a pure function of (seed, step, row).
 *
 * A source is a file, or a folder whose files are read as one stream in the order of their
 * paths: *.bin, and *.txt, *.md, *.jsonl, *.ndjson, *.csv, *.tsv, each also compressed by
 * gzip or zstd (*.gz, *.zst). A file is a token shard if it is named *.bin (shard_file.h:
 * weft's own format, nanoGPT's, llm.c's) or begins like a shard of weft; otherwise it is
 * text, which is encoded when the file is opened. "-" is standard input, and pipes can be
 * read, too. A file that is neither is rejected by name. The documents of .jsonl (one in
 * each line), of .csv and .tsv (one in each record) and the files of a folder are each
 * followed by the tokenizer's end token, or by a newline if it has none; a single text file
 * is one sequence without such tokens.
 *
 * Each source is split into a training part and a validation part (the last `validation`
 * fraction, cut at a token). The training part is cut into windows of T tokens. The target
 * of a window's last token is the first token of the next window, so each token is a target
 * once per epoch; the rest at the end, which is shorter than a window, is not used. Without
 * weights the windows of all sources form one pool: epoch e visits them in the order of a
 * seeded permutation. With weights, rows come in cycles of 10000. In each cycle, source s
 * has exactly its share of rows (rounded to whole rows, at least one), at places shuffled
 * by the seed. These rows are the next windows of the source, in an order that is permuted
 * again in each of the source's own epochs. Row r is the same for any number of ranks. */
typedef struct weft_dataset weft_dataset;

/** What a row is: a window of text, or an example by itself: a pair of texts, an image with
 * its class, or a prompt with its answer, where only the answer counts in the loss
 * (docs/using.md says which files hold them). */
typedef enum weft_rows {
    WEFT_ROWS_TEXT,
    WEFT_ROWS_PAIRS,
    WEFT_ROWS_IMAGES,
    WEFT_ROWS_PROMPTS
} weft_rows;

/** Which files are read, and as what. */
typedef struct weft_dataset_config {
    size_t struct_size;
    const char *const *paths; /* files, folders, or "-" */
    const double *weights;    /* one per path, positive; or NULL: proportional to size */
    int n_paths;
    const char *const *validation_paths; /* files used whole for validation; or */
    int n_validation_paths;
    double validation; /* without such files, this fraction at each source's end; 0:
                          none */
    weft_rows rows;
    int64_t T;             /* tokens per row; of pairs: per target */
    int64_t source_length; /* of pairs: tokens per source */
    int64_t vocab;         /* of pairs: number of ids; 0: the tokenizer's plus two */
    int64_t image;         /* of images: side that they are scaled to; 0: not scaled */
    int64_t channels;      /* of images: 1 or 3; 0: as they are, with files 3 */
    uint64_t seed;
    int threads;             /* for encoding text; below 1: one */
    const char *field;       /* of .jsonl: name of the field with the text; NULL:
                                "text" */
    const char *column;      /* of .csv and .tsv: name of the column; the same */
    const char *room_folder; /* where the ids of large texts are stored, in a file
                                without a name; NULL: they stay in memory */
    int64_t room_bytes; /* ids of all texts that stay in memory, in bytes; 0: 256 MiB */
    const weft_chat *chat; /* for prompts that are messages; NULL: there are none */
} weft_dataset_config;

/** Opens the sources. Errors, one sentence each: missing or unreadable file, empty text,
 * text shorter than T + 1 tokens (training or validation part), corrupt or truncated shard,
 * shard written with another tokenizer, id outside the vocabulary. `tokenizer` is borrowed
 * for the call. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_dataset_open(weft_ctx *ctx, const weft_dataset_config *config,
                                       const weft_tokenizer *tokenizer,
                                       weft_dataset **out) WEFT_CHECKED;
WEFT_API void weft_dataset_close(weft_ctx *ctx, weft_dataset *dataset);

/** Targets per epoch: T times the number of training windows of all sources. */
WEFT_API int64_t weft_dataset_train_tokens(const weft_dataset *dataset);

/** A hash that two datasets share only if all of their tokens are equal. */
WEFT_API uint64_t weft_dataset_hash(const weft_dataset *dataset);

/** Validation windows of T; 0 if there is no validation part. */
WEFT_API int64_t weft_dataset_validation_rows(const weft_dataset *dataset);

/** Number of targets in training rows [row, row + n_rows) that count in the loss. A row of
 * text has T of them; of pairs count the targets up to the end of the target text, of
 * prompts those of the answers, of images one. */
WEFT_API int64_t weft_dataset_train_targets(const weft_dataset *dataset, int64_t row,
                                            int64_t n_rows);
/** The same for validation rows. */
WEFT_API int64_t weft_dataset_validation_targets(const weft_dataset *dataset, int64_t row,
                                                 int64_t n_rows);

/** For pairs: tokens of a source; 0 for other rows. */
WEFT_API int64_t weft_dataset_source_length(const weft_dataset *dataset);
WEFT_API weft_rows weft_dataset_rows(const weft_dataset *dataset);

/** For images: their side, channels and classes; 0 for other rows. */
WEFT_API int64_t weft_dataset_image(const weft_dataset *dataset);
WEFT_API int64_t weft_dataset_channels(const weft_dataset *dataset);
WEFT_API int64_t weft_dataset_classes(const weft_dataset *dataset);

/** One line for people: the sources, their kinds, tokens. Writes at most `size` bytes with
 * the NUL to out and returns out. */
WEFT_API const char *weft_dataset_describe(const weft_dataset *dataset, char *out,
                                           size_t size);

/** Rows [row, row + n_rows) of the endless sequence of training rows (global row of step s =
 * s * rows_per_step + index); row >= 0. tokens and targets: [n_rows, T]. Only reads the
 * dataset, so ranks (threads) may share it. O(log sources) per row, no allocation. */
WEFT_API void weft_dataset_train_rows(const weft_dataset *dataset, int64_t row,
                                      int64_t n_rows, int32_t *tokens, int32_t *targets);

/** Validation windows in file order; the first one follows the last. Writes nothing if there
 * is no validation part. */
WEFT_API void weft_dataset_validation_batch(const weft_dataset *dataset, int64_t row,
                                            int64_t n_rows, int32_t *tokens,
                                            int32_t *targets);

/** Cross-entropy in nats per token, on the validation part, of a bigram model counted on the
 * training part, with add-one smoothing over the vocabulary that occurs: the baseline that
 * a network has to beat. (Jurafsky & Martin, ch. 3) Ids must be below `vocab`. Reads the
 * whole training part once, and needs memory for its distinct pairs. Errors: FILE. */
WEFT_API weft_status weft_dataset_bigram_loss(weft_ctx *ctx, const weft_dataset *dataset,
                                              int64_t vocab, double *nats) WEFT_CHECKED;

/** Mean number of text bytes per validation target (special tokens count as no bytes):
 * converts nats per token into bits per byte. Without a validation part it is the mean over
 * the training targets, at most the first 2^20 of each source. */
WEFT_API double weft_dataset_bytes_per_token(const weft_dataset *dataset);

#ifdef __cplusplus
}
#endif
#endif
