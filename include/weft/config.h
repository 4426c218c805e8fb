/* SPDX-License-Identifier: MIT */
#ifndef WEFT_CONFIG_H
#define WEFT_CONFIG_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a run is asked to do. A value comes from one of four layers; a later layer wins over an
 * earlier one, whatever the order of the calls: default < method preset < file <
 * weft_config_set.
 *
 *     weft_config_create -> weft_config_load, weft_config_set, ... -> weft_config_finish
 *
 * Texts and lists are owned by the configuration. A choice is one of the words that its key
 * allows (docs/configuration.md lists them all). For many keys 0 means "decide for me"; the
 * same page says for which. */

/** A list of texts, borrowed from its configuration. */
typedef struct weft_texts {
    const char *const *items;
    int n;
} weft_texts;

/** A list of numbers, borrowed from its configuration. */
typedef struct weft_numbers {
    const double *items;
    int n;
} weft_numbers;

/** The keys of a replicator section. */
typedef struct weft_replicator_keys {
    const char *kind; /* choice */
    int64_t compression_topk;
    int64_t compression_chunk;
    double compression_rate;
    double compression_decay;
    int64_t compression_dims;   /* 1 or 2 */
    const char *momentum_style; /* choice */
    double alpha;
    bool sign;
    const char *exchange; /* choice, like the next three */
    const char *values;
    const char *indices;
    const char *rounding;
    int64_t dense_below; /* elements */
    int64_t every;       /* steps */
    int64_t delay;       /* steps, 0 or 1 */
} weft_replicator_keys;

/** All keys with their values, a section each; units are those of the table of keys. */
typedef struct weft_config {
    const char *method; /* choice: a named set of the keys below, or "none" */
    struct {
        const char *folder;
        int64_t seed;
        int64_t steps;
        int64_t log_every;     /* steps; 0: by the run's length */
        int64_t eval_every;    /* steps; 0 = only at the end */
        int64_t eval_tokens;   /* 0 = all validation windows */
        int64_t save_every;    /* steps; 0 = only at the end */
        int64_t keep;          /* checkpoints; 0 = all */
        int64_t compare_every; /* steps; 0 = never */
        bool audit;
        bool tensorboard;
        const char *prometheus; /* a file; "": none */
        double save_time;       /* seconds between two checkpoints; 0 = never by time */
        const char *upload; /* s3://BUCKET/PREFIX for copies of checkpoints; "": none */
    } run;
    struct {
        weft_texts path;
        weft_numbers weights; /* n = 0: by size */
        weft_texts validation_path;
        double validation;         /* fraction */
        int64_t length;            /* tokens per row; of pairs: of the target */
        int64_t source_length;     /* of pairs; 0: as length */
        const char *tokenizer;     /* "bytes", "bpe" or the path of a tokenizer.json */
        int64_t vocab;             /* of a "bpe" tokenizer trained for the run */
        const char *split;         /* choice */
        const char *field;         /* of .jsonl: name of the field with the text */
        const char *column;        /* of .csv and .tsv: name of the column */
        const char *rows;          /* choice */
        const char *chat_template; /* "auto" or a name */
    } data;
    struct {
        const char *kind; /* choice */
        int64_t layers;
        int64_t width;
        int64_t heads;
        int64_t kv_heads; /* 0 = heads */
        int64_t head_dim; /* 0 = width / heads */
        int64_t ffn;      /* 0 = the kind's own, as all zeros below */
        double norm_eps;
        double rope_theta;
        const char *rope_scaling; /* as in weft_model_config */
        double rope_local_theta;
        double rope_share;
        int64_t window;
        int64_t window_period;
        int64_t rope_period;
        double query_scale;
        double embedding_multiplier, attention_multiplier, residual_multiplier;
        double logits_scaling;
        double attention_cap, logit_cap;
        double dropout;
        int tied;           /* -1 = the kind's own, 0, 1 */
        int qk_norm;        /* -1 = the kind's own, 0, 1 */
        int attention_bias; /* -1 = the kind's own, 0, 1 */
        int mlp_bias;       /* -1 = the kind's own, 0, 1 */
        double init_std;
        int64_t decoder_layers, buckets, distance;
        int64_t image, patch, channels;
        int64_t vocab;         /* 0 = the tokenizer's */
        int64_t context;       /* 0 = data.length */
        const char *precision; /* choice */
        bool recompute;
        const char *init;  /* "" or a checkpoint folder */
        weft_texts frozen; /* patterns of tensors that are not trained */
    } model;
    struct {
        int64_t rank;       /* of LoRA's matrices; 0: no adapters */
        double alpha;       /* 0 = as rank */
        double dropout;     /* of the adapters' inputs, in training */
        weft_texts targets; /* modules with an adapter; n = 0: all matrices of blocks */
        weft_texts save;    /* modules that are trained whole beside them */
        const char *init;   /* "" or a folder in PEFT's format */
    } adapter;
    struct {
        int64_t rows_per_step; /* 0: follows from tokens_per_step */
        int64_t tokens_per_step;
        int64_t micro;      /* sequences per rank and forward pass; 0 = auto */
        const char *shares; /* "equal", or a whole number for each node: "3,1" */
    } batch;
    struct {
        int64_t nodes;
        int64_t ranks_per_node;
        int64_t shards; /* ranks that share one copy; 0 = all of a node */
        int64_t sites;
        int64_t threads;       /* per rank; 0 = cores / ranks */
        const char *link;      /* "none" or "100Mbit,10ms" */
        double bandwidth_Bps;  /* parsed from link; 0 = not emulated */
        double latency_s;      /* parsed from link */
        const char *site_link; /* "none" or as link */
        double site_bandwidth_Bps, site_latency_s; /* parsed from site_link */
        double compute_time;                       /* seconds */
        double straggler_time;                     /* seconds */
        bool keep_whole; /* gathered parameters, for the rest of the step */
        bool overlap;
        int64_t min_message; /* bytes */
        const char *kernels; /* choice */
        double timeout;      /* seconds; 0 = never */
        const char *on_loss; /* choice */
        int64_t
            join_steps;  /* steps over which a joining process gets the state; 0: at once,
                           -1: by the link */
        const char *key; /* file, or "" */
        const char *run; /* name, or "" */
        bool encrypt;    /* false: bytes may cross a network as they are */
        const char *cert, *cert_key, *ca; /* files, or "" */
        int64_t memory_limit;             /* bytes; 0 = the machine's free memory */
        const char *robust;               /* choice */
        int64_t streams;                  /* sockets of a pair; 0: by the wire */
    } mesh;
    struct {
        double silence;        /* seconds */
        double patience;       /* seconds; 0 = by the step's time */
        const char *partition; /* choice */
        double pause;          /* seconds */
        const char *witness;   /* HOST[:PORT], or "" */
        const char *batch;     /* choice */
        const char *stop;      /* choice */
        int64_t faults;        /* of a machine, before it is not taken in again */
    } elastic;
    weft_replicator_keys replicator;      /* between the nodes of a site */
    weft_replicator_keys site_replicator; /* between sites */
    struct {
        const char *kind;     /* choice */
        const char *topology; /* choice */
        const char *links;    /* "" or the path of a list of links */
        const char *order;    /* choice */
        double gamma;
        double gamma_power;     /* 0 = gamma stays */
        double gamma_start;     /* share of the run */
        int64_t average_every;  /* steps; 0 = never */
        double consensus_bound; /* 0 = off */
        double deadline;        /* seconds; 0 = off */
        int64_t outer_every;    /* steps */
        double outer_lr;
        double outer_momentum;
        int64_t fragments;
        int64_t delay; /* steps */
        double merge;
        double feedback;
        int64_t compression_topk;
        int64_t compression_chunk;
        const char *values;   /* choice */
        const char *rounding; /* choice */
    } mixer;
    struct {
        const char *kind; /* choice */
        double lr;
        double beta1;
        double beta2;
        double eps;
        int64_t accumulate; /* steps; 0 = half the replicas, at least 1 */
        double momentum;
        bool nesterov;
        const char *polynomial; /* choice */
        const char *adjust;     /* choice */
        double rows;            /* share */
        int64_t whole_every;    /* steps */
        weft_texts groups;
        double weight_decay;
        double clip; /* 0 = off */
    } optimizer;
    struct {
        const char *kind; /* choice */
        int64_t warmup;   /* steps */
        double final;     /* fraction of lr */
    } schedule;
    struct {               /* of method=auto */
        const char *keep;  /* choice */
        const char *alone; /* choice */
        double time;       /* seconds */
        double loss;
        int64_t bytes_per_day; /* that a node may send; 0 = no limit */
        const char *busy;      /* hours of each day, and what a node may send in them */
    } decide;
    const char *node_values; /* of the replicator: "", or codecs of nodes: "3=int4" */
} weft_config;

/** Creates a configuration of defaults. [out] *out owned by the caller
 * (weft_config_destroy); NULL on failure. Only objects of this function may be given to
 * the functions below. Errors: CONFIG. */
WEFT_API weft_status weft_config_create(weft_ctx *ctx, weft_config **out) WEFT_CHECKED;
WEFT_API void weft_config_destroy(weft_ctx *ctx, weft_config *config);

/** A configuration with the same values, each from the same layer; finished if `config`
 * is. [out] *out owned by the caller (weft_config_destroy); NULL on failure. Errors: CONFIG. */
WEFT_API weft_status weft_config_copy(weft_ctx *ctx, const weft_config *config,
                                      weft_config **out) WEFT_CHECKED;

/** Reads a YAML file of sections and keys. Anchors, aliases, tags, several documents and a key
 * given twice are rejected. Errors start with "path:line: ". After a failure the configuration
 * may hold some of the file's keys. Errors: CONFIG, FILE. */
WEFT_API weft_status weft_config_load(weft_ctx *ctx, weft_config *config,
                                      const char *path) WEFT_CHECKED;

/** Sets one key from "section.key=value"; the items of a list are separated by commas.
 * Errors: CONFIG. */
WEFT_API weft_status weft_config_set(weft_ctx *ctx, weft_config *config,
                                     const char *assignment) WEFT_CHECKED;

/** Sets one key ("model.init") or all keys of a section ("mixer.") back to the default. Needed
 * before another kind is chosen than the one whose keys were set. Errors: CONFIG. */
WEFT_API weft_status weft_config_reset(weft_ctx *ctx, weft_config *config,
                                       const char *name) WEFT_CHECKED;

/** Applies the preset named by `method` below the explicitly set values, then checks the keys
 * against each other. A key is rejected if it was set but the chosen kinds do not read it; a
 * key that a file sets to its default is not. May be called again after more loading and
 * setting. Errors: CONFIG. */
WEFT_API weft_status weft_config_finish(weft_ctx *ctx, weft_config *config) WEFT_CHECKED;

/** What follows each value in the text of a configuration, as a YAML comment. */
typedef enum weft_config_notes {
    WEFT_CONFIG_BARE,   /* nothing */
    WEFT_CONFIG_DOCS,   /* what the key means */
    WEFT_CONFIG_ORIGINS /* where the value came from */
} weft_config_notes;

/** All keys and values as YAML that weft_config_load reads back, without what signs addresses.
 * [out] *text borrowed until the next call of this function or weft_config_destroy. */
WEFT_API weft_status weft_config_text(weft_ctx *ctx, weft_config *config,
                                      weft_config_notes notes,
                                      const char **text) WEFT_CHECKED;

/** Writes that text (bare) to a file: the old file or the whole new one, never a part.
 * Errors: FILE. */
WEFT_API weft_status weft_config_write(weft_ctx *ctx, weft_config *config,
                                       const char *path) WEFT_CHECKED;

/* The table behind all keys: help, documentation and completion are generated from it. */

/** Types of a key's value in weft_config. */
typedef enum weft_key_type {
    WEFT_KEY_INT,       /* int64_t; "16k" is 16000 */
    WEFT_KEY_BYTES,     /* int64_t; "64kB" */
    WEFT_KEY_NUMBER,    /* double */
    WEFT_KEY_BOOL,      /* bool; true/false, yes/no, on/off */
    WEFT_KEY_AUTO_BOOL, /* int; the same or "auto" (-1) */
    WEFT_KEY_TEXT,      /* const char * */
    WEFT_KEY_CHOICE,    /* const char *, one of the key's choices */
    WEFT_KEY_LINK,      /* const char *, "none" or "RATE,LATENCY" */
    WEFT_KEY_TEXTS,     /* weft_texts */
    WEFT_KEY_NUMBERS    /* weft_numbers, each inside the bounds */
} weft_key_type;

/** A value that a key can have, and one line about it. */
typedef struct weft_choice {
    const char *name; /* NULL ends a list of choices */
    const char *doc;
} weft_choice;

/** A row of the table of keys: where its value lies, what it may be, what it means. */
typedef struct weft_config_key {
    const char *name; /* "section.key" */
    size_t offset;    /* of its value in weft_config */
    weft_key_type type;
    bool is_path;         /* its texts name files or folders */
    const char *unit;     /* "tokens", "steps", ... or "" */
    const char *fallback; /* the default, as it would be typed */
    double min, max;      /* of numbers, or of the length of a text */
    bool max_excluded;
    const weft_choice
        *choices;    /* of a choice; of a text: words with a meaning; or NULL */
    const char *doc; /* one line */
} weft_config_key;

/** The i-th key in the order of the file, or NULL past the last. */
WEFT_API const weft_config_key *weft_config_key_at(int i);

/** Which layer gave a key its value, the lowest first. */
typedef enum weft_config_origin {
    WEFT_ORIGIN_DEFAULT,
    WEFT_ORIGIN_METHOD, /* the method's preset */
    WEFT_ORIGIN_MODEL,  /* the checkpoint that model.init names */
    WEFT_ORIGIN_FILE,   /* weft_config_load */
    WEFT_ORIGIN_COMMAND /* weft_config_set */
} weft_config_origin;

/** Where the value of a key (of weft_config_key_at) comes from. The layers between the default
 * and a file are known once the configuration is finished. */
WEFT_API weft_config_origin weft_config_origin_of(const weft_config *config,
                                                  const weft_config_key *key);

/** The largest `max`: it stands for "no upper limit". */
#define WEFT_KEY_NO_LIMIT 1e15

/** Says which values a key takes, "a whole number from 1 to 1024 (ranks)"; returns out. */
WEFT_API const char *weft_config_key_values(const weft_config_key *key, char *out,
                                            size_t out_size);

/** Name and one-line description of the i-th section, or NULL past the last. */
WEFT_API const char *weft_config_section(int i, const char **doc);

/** The j-th key that the method sets, or NULL past the last; [out] its value. */
WEFT_API const char *weft_config_method_key(const char *method, int j,
                                            const char **value);

#ifdef __cplusplus
}
#endif
#endif
