/* SPDX-License-Identifier: MIT */
/* The one table of configuration keys. Reading, overrides, errors, help, documentation,
 * completion and the man page are all made from it. Each row: key and place, type, unit,
 * default, smallest and largest value, whether the largest is excluded, choices, meaning.
 */
#include "config/schema.h"

#include <string.h>

#include "base/text.h"

static const weft_choice tokenizers[] = {
    {"bytes", "each byte is a token: 256 ids, nothing to train"},
    {"bpe", "byte-level BPE with data.vocab ids, trained on data.path before the run"},
    {NULL, NULL}};
static const weft_choice splits[] = {
    {"gpt2", "words with their leading space, numbers, punctuation, as GPT-2"},
    {"llama3", "as Llama 3: numbers in groups of up to three digits"},
    {NULL, NULL}};
static const weft_choice models[] = {
    {"gpt2", "learned positions, LayerNorm, GELU"},
    {"llama", "rotary positions, RMSNorm, SwiGLU, grouped queries"},
    {"olmo2", "llama with norms after the layers and on queries and keys"},
    {NULL, NULL}};
static const weft_choice kernels[] = {
    {"auto", "the fastest set that this processor runs"},
    {"reference", "plain loops with double sums: slow, for comparison"},
    {"base", "any processor of this architecture"},
    {"avx2", "x86-64 with AVX2 and FMA"},
    {"avx512", "x86-64 with AVX-512"},
    {NULL, NULL}};
static const weft_choice replicators[] = {
    {"full", "mean of all gradients, all numbers sent"},
    {"demo", "the largest DCT coefficients of a momentum, chunk by chunk"},
    {"none", "nothing is sent between nodes"},
    {NULL, NULL}};
static const weft_choice optimizers[] = {
    {"adamw", "Adam with decoupled weight decay"},
    {"sgd", "a plain step along the agreed direction (signs with replicator.sign)"},
    {NULL, NULL}};
static const weft_choice schedules[] = {
    {"cosine", "after the warm-up half a cosine down to schedule.final"},
    {"linear", "after the warm-up a straight line down to schedule.final"},
    {"inverse_sqrt", "after the warm-up lr * sqrt(warmup / step)"},
    {"constant", "after the warm-up lr to the end"},
    {NULL, NULL}};

#define AT(key) #key, offsetof(weft_config, key)
#define ANY 0, WEFT_KEY_NO_LIMIT, false, NULL
#define FROM(min) min, WEFT_KEY_NO_LIMIT, false, NULL
#define WITHIN(min, max) min, max, false, NULL
#define BELOW(min, max) min, max, true, NULL
#define ONE_OF(choices) 1, WEFT_KEY_NO_LIMIT, false, choices
#define INT WEFT_KEY_INT
#define BYTES WEFT_KEY_BYTES
#define NUMBER WEFT_KEY_NUMBER
#define BOOL WEFT_KEY_BOOL
#define AUTO_BOOL WEFT_KEY_AUTO_BOOL
#define TEXT WEFT_KEY_TEXT
#define CHOICE WEFT_KEY_CHOICE
#define LINK WEFT_KEY_LINK
#define TEXTS WEFT_KEY_TEXTS
#define NUMBERS WEFT_KEY_NUMBERS

const weft_config_key wefti_config_keys[] = {
    {AT(method), CHOICE, "", "none", ONE_OF(wefti_methods),
     "a named set of keys; what you set yourself goes over it"},

    {AT(run.folder), TEXT, "", "runs/weft", FROM(1),
     "where config, metrics, checkpoints and report go"},
    {AT(run.seed), INT, "", "1", ANY, "decides initial weights, data order and dropout"},
    {AT(run.steps), INT, "steps", "1000", FROM(1),
     "length of the run in optimizer steps"},
    {AT(run.log_every), INT, "steps", "1", FROM(1),
     "steps between two lines of metrics.jsonl"},
    {AT(run.eval_every), INT, "steps", "0", ANY,
     "steps between two validations; 0 = only at the end"},
    {AT(run.eval_tokens), INT, "tokens", "0", ANY,
     "tokens of one validation; 0 = all validation data"},
    {AT(run.save_every), INT, "steps", "0", ANY,
     "steps between two checkpoints; 0 = only at the end"},
    {AT(run.keep), INT, "checkpoints", "3", ANY, "newest checkpoints to keep; 0 = all"},
    {AT(run.tensorboard), BOOL, "", "true", ANY, "also write TensorBoard event files"},

    {AT(data.path), TEXTS, "", "", ANY,
     "training data: text files, token shards, or folders of them"},
    {AT(data.weights), NUMBERS, "", "", ANY,
     "share of each data.path in the batches; empty = by size"},
    {AT(data.validation_path), TEXTS, "", "", ANY,
     "validation data; empty = the end of the training data"},
    {AT(data.validation), NUMBER, "", "0.05", BELOW(0, 1),
     "fraction at the end of each data.path kept for validation"},
    {AT(data.length), INT, "tokens", "256", WITHIN(1, 1048576), "tokens in one sequence"},
    {AT(data.tokenizer), TEXT, "", "bytes", ONE_OF(tokenizers),
     "how text becomes tokens: bytes, bpe, or the path of a tokenizer.json"},
    {AT(data.vocab), INT, "tokens", "1024", WITHIN(257, 4194304),
     "vocabulary of a bpe tokenizer trained for the run"},
    {AT(data.split), CHOICE, "", "gpt2", ONE_OF(splits),
     "splitting rule of a bpe tokenizer trained for the run"},

    {AT(model.kind), CHOICE, "", "gpt2", ONE_OF(models), "the architecture"},
    {AT(model.layers), INT, "", "6", WITHIN(1, 4096), "number of blocks"},
    {AT(model.width), INT, "", "384", WITHIN(1, 1048576), "width of the residual stream"},
    {AT(model.heads), INT, "", "6", WITHIN(1, 4096),
     "query heads; they divide the width"},
    {AT(model.kv_heads), INT, "", "0", WITHIN(0, 4096),
     "key and value heads; they divide the heads; 0 = as many as heads"},
    {AT(model.ffn), INT, "", "0", WITHIN(0, 4194304),
     "hidden width of the feed-forward layers; 0 = the kind's own"},
    {AT(model.norm_eps), NUMBER, "", "0", WITHIN(0, 1),
     "added to the variance in norms; 0 = the kind's own"},
    {AT(model.rope_theta), NUMBER, "", "0", ANY,
     "base of the rotary positions; 0 = the kind's own"},
    {AT(model.dropout), NUMBER, "", "0", BELOW(0, 1),
     "probability of dropping an activation"},
    {AT(model.tied), AUTO_BOOL, "", "auto", ANY,
     "the head uses the token embedding; auto = as the kind does"},
    {AT(model.qk_norm), AUTO_BOOL, "", "auto", ANY,
     "norms on queries and keys; auto = as the kind does"},
    {AT(model.init_std), NUMBER, "", "0", WITHIN(0, 10),
     "spread of the initial weights; 0 = the kind's own"},
    {AT(model.vocab), INT, "tokens", "0", WITHIN(0, 4194304),
     "rows of the embedding; 0 = as many as the tokenizer needs"},
    {AT(model.context), INT, "tokens", "0", WITHIN(0, 1048576),
     "longest sequence the model can take; 0 = data.length"},
    {AT(model.recompute), BOOL, "", "false", ANY,
     "compute activations twice instead of keeping them: less memory, more time"},
    {AT(model.init), TEXT, "", "", ANY,
     "checkpoint folder to start from; empty = random"},

    {AT(batch.tokens_per_step), INT, "tokens", "16384", FROM(1),
     "tokens of all ranks together in one optimizer step"},
    {AT(batch.micro), INT, "sequences", "0", WITHIN(0, 1048576),
     "sequences per rank and forward pass; 0 = about 4096 tokens' worth"},

    {AT(mesh.nodes), INT, "", "1", WITHIN(1, 1024),
     "nodes: the slow links are between them"},
    {AT(mesh.ranks_per_node), INT, "ranks", "1", WITHIN(1, 1024),
     "ranks in a node; they share one sharded copy of the model"},
    {AT(mesh.threads), INT, "threads", "0", WITHIN(0, 4096),
     "threads of each rank; 0 = the cores divided by the ranks"},
    {AT(mesh.link), LINK, "", "none", ANY,
     "emulated wire between nodes when all ranks run in one process"},
    {AT(mesh.overlap), BOOL, "", "true", ANY,
     "exchange one unit while the next one computes; changes no number"},
    {AT(mesh.min_message), BYTES, "bytes", "64kB", WITHIN(0, 1073741824),
     "small units are merged on the wire up to this size"},
    {AT(mesh.kernels), CHOICE, "", "auto", ONE_OF(kernels),
     "which compute kernels to use"},
    {AT(mesh.memory_limit), BYTES, "bytes", "0", ANY,
     "refuse a run that needs more memory; 0 = what the machine has free"},

    {AT(replicator.kind), CHOICE, "", "full", ONE_OF(replicators),
     "what the nodes tell each other about their gradients"},
    {AT(replicator.compression_topk), INT, "", "4", WITHIN(1, 1048576),
     "demo: coefficients sent of each chunk"},
    {AT(replicator.compression_chunk), INT, "", "64", WITHIN(2, 1024),
     "demo: length of a chunk along an axis"},
    {AT(replicator.compression_decay), NUMBER, "", "0.999", WITHIN(0, 1),
     "demo: what remains of the momentum after a step"},
    {AT(replicator.compression_dims), INT, "", "1", WITHIN(1, 2),
     "demo: 1 = chunks of flattened tensors, 2 = square blocks of matrices"},
    {AT(replicator.sign), BOOL, "", "true", ANY,
     "demo: only the sign of the agreed direction goes to the optimizer"},
    {AT(replicator.every), INT, "steps", "1", FROM(1),
     "exchange only on steps divisible by this"},

    {AT(optimizer.kind), CHOICE, "", "adamw", ONE_OF(optimizers),
     "how the agreed direction changes the parameters"},
    {AT(optimizer.lr), NUMBER, "", "6e-4", WITHIN(0, 1000), "learning rate at its peak"},
    {AT(optimizer.beta1), NUMBER, "", "0.9", BELOW(0, 1),
     "adamw: decay of the first moment"},
    {AT(optimizer.beta2), NUMBER, "", "0.95", BELOW(0, 1),
     "adamw: decay of the second moment"},
    {AT(optimizer.eps), NUMBER, "", "1e-8", WITHIN(1e-30, 1),
     "adamw: added to the root of the second moment"},
    {AT(optimizer.weight_decay), NUMBER, "", "0.1", WITHIN(0, 1000),
     "decay of matrices per step, as a factor of the learning rate"},
    {AT(optimizer.clip), NUMBER, "", "1", ANY,
     "largest norm of the gradient of all parameters; 0 = no limit"},

    {AT(schedule.kind), CHOICE, "", "cosine", ONE_OF(schedules),
     "the learning rate over time"},
    {AT(schedule.warmup), INT, "steps", "100", ANY,
     "steps over which the learning rate rises to optimizer.lr"},
    {AT(schedule.final), NUMBER, "", "0.1", WITHIN(0, 1),
     "learning rate at the end, as a fraction of optimizer.lr"},
    {NULL, 0, INT, NULL, NULL, ANY, NULL}};

_Static_assert(sizeof wefti_config_keys / sizeof wefti_config_keys[0] <= WEFTI_MAX_KEYS,
               "raise WEFTI_MAX_KEYS");

static const struct {
    const char *name, *doc;
} sections[] = {
    {"run", "How long, how often, and where the results go."},
    {"data", "What the model learns from."},
    {"model", "What is trained."},
    {"batch", "How much data goes into one step."},
    {"mesh", "Which ranks there are and what lies between them."},
    {"replicator", "Gradient side: what crosses the wire between nodes."},
    {"optimizer", "How parameters move."},
    {"schedule", "The learning rate over the steps."},
};
enum { N_SECTIONS = sizeof sections / sizeof sections[0] };

const weft_config_key *weft_config_key_at(int i) {
    int n = (int)(sizeof wefti_config_keys / sizeof wefti_config_keys[0]) - 1;
    return i >= 0 && i < n ? &wefti_config_keys[i] : NULL;
}

const char *weft_config_section(int i, const char **doc) {
    if (i < 0 || i >= N_SECTIONS) return NULL;
    if (doc) *doc = sections[i].doc;
    return sections[i].name;
}

const weft_config_key *wefti_config_key_find(const char *name) {
    for (const weft_config_key *key = wefti_config_keys; key->name; key++)
        if (strcmp(key->name, name) == 0) return key;
    return NULL;
}

int wefti_config_key_index(const weft_config_key *key) {
    return (int)(key - wefti_config_keys);
}

bool wefti_config_section_find(const char *name, int *index) {
    for (int i = 0; i < N_SECTIONS; i++) {
        if (strcmp(sections[i].name, name) != 0) continue;
        *index = i;
        return true;
    }
    return false;
}

static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

const char *wefti_config_key_guess(const char *name) {
    const char *names[WEFTI_MAX_KEYS];
    const char *same_last = NULL;
    int n_same_last = 0;
    size_t n = 0;
    for (const weft_config_key *key = wefti_config_keys; key->name; key++) {
        names[n++] = key->name;
        if (strcmp(last_part(key->name), last_part(name)) != 0) continue;
        same_last = key->name;
        n_same_last++;
    }
    return n_same_last == 1 ? same_last : wefti_nearest(name, names, n);
}

const char *wefti_config_section_guess(const char *name) {
    const char *names[N_SECTIONS];
    for (int i = 0; i < N_SECTIONS; i++) names[i] = sections[i].name;
    return wefti_nearest(name, names, N_SECTIONS);
}

const weft_choice *wefti_choice_find(const weft_choice *choices, const char *name) {
    for (; choices->name; choices++)
        if (strcmp(choices->name, name) == 0) return choices;
    return NULL;
}
