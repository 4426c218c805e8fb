/* SPDX-License-Identifier: MIT */
/* The single table of configuration keys. Reading, overrides, errors, help,
 * documentation, completion and the man page are all generated from it. Each row:
 *
 *     AT(section.key)   its name, and its place in weft_config by offsetof
 *     type              INT BYTES NUMBER BOOL AUTO_BOOL TEXT CHOICE LINK TEXTS NUMBERS;
 *                       PATH, PATHS: a text, or texts, that name files or folders
 *     unit              as the documentation shows it; numbers in files have no unit
 *     default           as text, read by the same parser as a user's value
 *     bounds            ANY, FROM(min), WITHIN(min, max), BELOW(min, max), ONE_OF(choices):
 *                       smallest and largest value, whether the largest is excluded, choices;
 *                       for a text they bound its length
 *     meaning           one line, 11 to 79 characters, in docs and help
 *
 * A key is found by a linear search: there are fewer than two hundred, and they are read
 * only when a run is configured, never in a step. The choices of kinds that other folders
 * implement come from one list per folder (the .def files), so a new kind is a choice as
 * soon as it is listed. AUTO_BOOL is -1 where the kind of model decides. */
#include "config/schema.h"

#include <string.h>

#include "base/text.h"

static const weft_choice tokenizers[] = {
    {"bytes", "each byte is a token: 256 ids, nothing to train"},
    {"bpe", "byte-level BPE with data.vocab ids, trained on data.path before the run"},
    {"ids", "no tokenizer, no text: data.path holds shards of ids below data.vocab"},
    {NULL, NULL}};
static const weft_choice splits[] = {
    {"gpt2", "as GPT-2: words with their leading space, numbers, punctuation"},
    {"llama3", "as Llama 3: numbers in groups of up to three digits"},
    {NULL, NULL}};
static const weft_choice rows_of_text[] = {
    {"windows", "data.length tokens of one long text; all of them count in the loss"},
    {"prompts", "one example of a .jsonl file; only its answers count in the loss"},
    {NULL, NULL}};
static const weft_choice models[] = {
    {"gpt2", "learned positions, LayerNorm, GELU"},
    {"llama", "rotary positions, RMSNorm, SwiGLU, grouped queries"},
    {"mistral", "llama with a sliding window"},
    {"qwen2", "llama with biases of queries, keys and values; Qwen 2.5 too"},
    {"qwen3", "llama with norms on each head's query and key"},
    {"olmo2", "llama with norms after the layers and on queries and keys"},
    {"olmo3", "olmo2 with a sliding window in most layers"},
    {"gemma", "llama with GeGLU, and gains of 1 + weight"},
    {"gemma2",
     "norms before and after the layers, GeGLU, soft-capped scores, sliding windows"},
    {"gemma3", "gemma2 with norms on each head's query and key instead of caps"},
    {"phi3", "llama with fused tensors in its files"},
    {"gpt_neox", "LayerNorm, rotary positions, attention and feed-forward in parallel"},
    {"opt", "learned positions, LayerNorm, ReLU"},
    {"seed_oss", "llama with biases of queries, keys and values, and wide heads"},
    {"smollm3", "llama with layers without rotary positions (model.rope_period)"},
    {"starcoder2", "llama with LayerNorm, GELU and biases"},
    {"ernie4_5", "llama, tied; turned columns are neighbours in its files"},
    {"helium", "llama; turned columns are neighbours in its files"},
    {"granite", "llama with multipliers (model.residual_multiplier and the like)"},
    {"olmo", "llama with LayerNorm without parameters (OLMo 1)"},
    {"arcee", "llama with a plain feed-forward and the square of ReLU"},
    {"t5", "encoder and decoder for pairs of texts, relative positions (T5 v1.1)"},
    {"vit", "image classification from patches"},
    {NULL, NULL}};
static const weft_choice losses[] = {
    {"go_on", "the other nodes continue if they can (docs/membership.md)"},
    {"end", "the run ends; it can be resumed from its last checkpoint"},
    {NULL, NULL}};
static const weft_choice robusts[] = {
    {"off", "the mean of what all nodes sent"},
    {"clip", "each node's part is scaled down to the median of their sizes first"},
    {"trim", "of each number the least and greatest quarter of the nodes is left out"},
    {NULL, NULL}};
static const weft_choice partitions[] = {
    {"pause", "the part with more than half continues; the others wait for it, then end"},
    {"split", "each part continues on its own: two runs, which are never merged"},
    {NULL, NULL}};
static const weft_choice elastic_batches[] = {
    {"shrink", "each rank keeps its number of rows: steps take as long, with fewer rows"},
    {"keep", "the remaining ranks share all rows: steps stay as large, and take longer"},
    {NULL, NULL}};
static const weft_choice stops[] = {
    {"auto", "self in a process that joined, else all"},
    {"all", "the run of all processes, which is saved"},
    {"self", "its copy of the model, and the others continue; if all are asked, all"},
    {NULL, NULL}};
static const weft_choice kernels[] = {
    {"auto", "the fastest set that this processor runs"},
    {"base", "any processor of this architecture"},
    {"exact", "x86-64, arm64: the same bits on all of them"},
    {"avx2", "x86-64 with AVX2 and FMA"},
    {"avx512", "x86-64 with AVX-512"},
    {"amx", "the same, and products of bf16 by AMX"},
    {NULL, NULL}};
/* The kinds that other folders implement: their lists, converted to choices. */
#define WEFTI_KIND(name, summary) {#name, summary},
static const weft_choice chats[] = {
    {"auto", "as the checkpoint was trained, if weft has written it"},
#include "config/chats.def"
    {"text", "prompts are a template's texts already: special tokens in them count"},
    {NULL, NULL}};
static const weft_choice precisions[] = {
    {"f32", "all numbers in 32 bits"},
    {"bf16", "operands of matrix products, attention's and Muon's too, and hidden layers "
             "of feed-forwards in bfloat16; all else in 32 bits"},
    {NULL, NULL}};
static const weft_choice replicators[] = {
#include "replicate/replicators.def"
    {NULL, NULL}};
static const weft_choice momentum_styles[] = {
    {"sum", "m <- decay m + lr g, as DeMo was published"},
    {"mean", "m <- decay m + (1 - decay) g, as in DeMo's newer form"},
    {NULL, NULL}};
static const weft_choice exchanges[] = {
    {"auto", "the faster one on mesh.link; without mesh.link, the one with fewer bytes"},
    {"all_gather",
     "each node sends its numbers to all others: bytes grow with the nodes"},
    {"sharded",
     "each node combines one range and sends the result to all: bytes stay constant"},
    {NULL, NULL}};
#define WEFTI_CODEC(constant, name, summary) {#name, summary},
static const weft_choice value_codecs[] = {
#include "wire/valuecodecs.def"
    {NULL, NULL}};
static const weft_choice index_codecs[] = {
#include "wire/indexcodecs.def"
    {NULL, NULL}};
#undef WEFTI_CODEC
static const weft_choice roundings[] = {
    {"nearest", "to the nearest value that the codec can represent"},
    {"stochastic", "up or down at random, exact on average; seeded by run.seed"},
    {NULL, NULL}};
static const weft_choice mixers[] = {
#include "mix/mixers.def"
    {NULL, NULL}};
static const weft_choice topologies[] = {
#include "topology/topologies.def"
    {NULL, NULL}};
static const weft_choice orders[] = {
    {"awc", "what is sent after a step is mixed in during the next one: hidden"},
    {"atc", "what is sent after a step is mixed in at once: fresher, not hidden"},
    {NULL, NULL}};
static const weft_choice optimizers[] = {
#include "optim/optimizers.def"
    {NULL, NULL}};
#undef WEFTI_KIND
static const weft_choice polynomials[] = {
    {"quintic", "the same polynomial five times (Jordan, torch.optim.Muon)"},
    {"polar_express",
     "a polynomial of its own for each of five iterations: more accurate"},
    {NULL, NULL}};
static const weft_choice adjusts[] = {
    {"match_rms_adamw",
     "steps as large as AdamW's, so AdamW's learning rate and decay fit"},
    {"original", "sqrt(max(1, outputs/inputs))"},
    {"spectral", "sqrt(outputs/inputs)"},
    {NULL, NULL}};
static const weft_choice keeps[] = {
    {"optimizer", "the optimizer and its rate: only the exchange is chosen"},
    {"exact", "also the steps: only what computes the same as one machine"},
    {"any", "nothing: other optimizers with their own rates are tried, too"},
    {NULL, NULL}};
static const weft_choice alones[] = {
    {"end", "the run ends with a sentence that says so"},
    {"together", "all train with the best method there is"},
    {NULL, NULL}};
static const weft_choice schedules[] = {
    {"cosine", "after the warm-up, half a cosine down to schedule.final"},
    {"linear", "after the warm-up, a straight line down to schedule.final"},
    {"inverse_sqrt", "after the warm-up, lr * sqrt(warmup / step)"},
    {"constant", "after the warm-up, lr until the end"},
    {NULL, NULL}};

#define AT(key) #key, offsetof(weft_config, key)
#define ANY 0, WEFT_KEY_NO_LIMIT, false, NULL
#define FROM(min) min, WEFT_KEY_NO_LIMIT, false, NULL
#define WITHIN(min, max) min, max, false, NULL
#define BELOW(min, max) min, max, true, NULL
#define ONE_OF(choices) 1, WEFT_KEY_NO_LIMIT, false, choices
#define INT WEFT_KEY_INT, false
#define BYTES WEFT_KEY_BYTES, false
#define NUMBER WEFT_KEY_NUMBER, false
#define BOOL WEFT_KEY_BOOL, false
#define AUTO_BOOL WEFT_KEY_AUTO_BOOL, false
#define TEXT WEFT_KEY_TEXT, false
#define CHOICE WEFT_KEY_CHOICE, false
#define LINK WEFT_KEY_LINK, false
#define TEXTS WEFT_KEY_TEXTS, false
#define NUMBERS WEFT_KEY_NUMBERS, false
#define PATH WEFT_KEY_TEXT, true
#define PATHS WEFT_KEY_TEXTS, true

/* A row as an argument of a macro, where braces would be laid out one word a line. */
#define KEY(key, type, unit, fallback, bounds, doc)                                      \
    { AT(key), type, unit, fallback, bounds, doc }

/* The keys of one replicator section; `first` is the description of its key kind. */
#define REPLICATOR(section, fallback, first)                                             \
    KEY(section.kind, CHOICE, "", fallback, ONE_OF(replicators), first),                 \
        KEY(section.compression_topk, INT, "", "4", WITHIN(1, 1048576),                  \
            "demo kinds, topk: numbers sent per chunk; powersgd: the rank"),             \
        KEY(section.compression_chunk, INT, "", "64", WITHIN(2, 1024),                   \
            "demo, topk: length of a chunk along an axis"),                              \
        KEY(section.compression_rate, NUMBER, "", "0.0625", WITHIN(1e-6, 1),             \
            "random, striding, slicing: share of the rows sent in a step"),              \
        KEY(section.compression_decay, NUMBER, "", "0.999", WITHIN(0, 1),                \
            "factor that the momentum is multiplied by in each step"),                   \
        KEY(section.compression_dims, INT, "", "1", WITHIN(1, 2),                        \
            "demo: 1 = chunks of flattened tensors, 2 = square blocks of matrices"),     \
        KEY(section.momentum_style, CHOICE, "", "sum", ONE_OF(momentum_styles),          \
            "how the gradient is added to the momentum"),                                \
        KEY(section.alpha, NUMBER, "", "1", WITHIN(1e-6, 1),                             \
            "share of what was sent that is subtracted from the momentum"),              \
        KEY(section.sign, BOOL, "", "true", ANY,                                         \
            "all kinds but full: only the sign of the agreed direction is used"),        \
        KEY(section.exchange, CHOICE, "", "auto", ONE_OF(exchanges),                     \
            "demo: how the nodes exchange coefficients; the results are the same"),      \
        KEY(section.values, CHOICE, "", "f32", ONE_OF(value_codecs),                     \
            "codec of the numbers on the wire; what coding loses is sent later"),        \
        KEY(section.indices, CHOICE, "", "auto", ONE_OF(index_codecs),                   \
            "demo, topk: codec of the indices of the numbers sent; lossless"),           \
        KEY(section.rounding, CHOICE, "", "nearest", ONE_OF(roundings),                  \
            "how the codecs int8 and int4 round"),                                       \
        KEY(section.dense_below, INT, "elements", "1024", ANY,                           \
            "demo: tensors with fewer elements than this are sent whole"),               \
        KEY(section.every, INT, "steps", "1", FROM(1),                                   \
            "exchange only in steps whose number is divisible by this"),                 \
        KEY(section.delay, INT, "steps", "0", WITHIN(0, 1),                              \
            "demo, topk: 1 = apply a step later; that step hides the exchange")

const weft_config_key wefti_config_keys[] = {
    {AT(method), CHOICE, "", "none", ONE_OF(wefti_methods),
     "a named set of values for keys; keys that you set yourself override it"},

    {AT(run.folder), PATH, "", "runs/weft", FROM(1),
     "where config, metrics, checkpoints and report go"},
    {AT(run.seed), INT, "", "1", ANY,
     "seed of the initial weights, data order and dropout"},
    {AT(run.steps), INT, "steps", "1000", FROM(1),
     "length of the run in optimizer steps"},
    {AT(run.log_every), INT, "steps", "0", FROM(0),
     "steps between two lines of metrics.jsonl; 0 = at most 20000 lines in all"},
    {AT(run.eval_every), INT, "steps", "0", ANY,
     "steps between two validations; 0 = only at the end"},
    {AT(run.eval_tokens), INT, "tokens", "0", ANY,
     "tokens of one validation; 0 = all validation data"},
    {AT(run.save_every), INT, "steps", "0", ANY,
     "steps between two checkpoints; 0 = only at the end"},
    {AT(run.save_time), NUMBER, "seconds", "600", ANY,
     "time between two checkpoints, also without run.save_every; 0 = not by time"},
    {AT(run.keep), INT, "checkpoints", "3", ANY, "newest checkpoints to keep; 0 = all"},
    {AT(run.compare_every), INT, "steps", "100", ANY,
     "steps between two checks that equal replicas are still equal; 0 = never"},
    {AT(run.audit), BOOL, "", "false", ANY,
     "also record digests of what each rank sends, for weft audit"},
    {AT(run.tensorboard), BOOL, "", "true", ANY, "also write TensorBoard event files"},
    {AT(run.prometheus), PATH, "", "", ANY,
     "file for the latest metrics in the Prometheus text format; empty = none"},
    {AT(run.upload), TEXT, "", "", ANY,
     "s3://BUCKET/PREFIX, to which checkpoints and metrics are copied; empty = none"},
    {AT(data.path), PATHS, "", "", ANY,
     "training data: texts, token shards, folders of them; - = standard input"},
    {AT(data.weights), NUMBERS, "", "", ANY,
     "weight of each data.path in the batches; empty = by size"},
    {AT(data.validation_path), PATHS, "", "", ANY,
     "validation data; empty = the end of the training data"},
    {AT(data.validation), NUMBER, "", "0.05", BELOW(0, 1),
     "fraction at the end of each data.path kept for validation"},
    {AT(data.length), INT, "tokens", "256", WITHIN(1, 1048576), "tokens in one sequence"},
    {AT(data.source_length), INT, "tokens", "0", WITHIN(0, 1048576),
     "tokens of a source sequence where rows are pairs; 0 = data.length"},
    {AT(data.tokenizer), PATH, "", "bytes", ONE_OF(tokenizers),
     "bytes, bpe, or the path of a tokenizer.json or of its folder"},
    {AT(data.vocab), INT, "tokens", "1024", WITHIN(2, 4194304),
     "how many ids: of bpe trained for the run (257 or more), or of ids in shards"},
    {AT(data.split), CHOICE, "", "gpt2", ONE_OF(splits),
     "splitting rule of a bpe tokenizer trained for the run"},
    {AT(data.field), TEXT, "", "text", ANY,
     "the field of each line of a .jsonl file that holds the text"},
    {AT(data.column), TEXT, "", "text", ANY,
     "the column of a .csv or .tsv file that holds the text"},
    {AT(data.rows), CHOICE, "", "windows", ONE_OF(rows_of_text),
     "what one row of a text model's batch is"},
    {AT(data.chat_template), CHOICE, "", "auto", ONE_OF(chats),
     "how prompts that are messages are written"},

    {AT(model.kind), CHOICE, "", "gpt2", ONE_OF(models), "the architecture"},
    {AT(model.layers), INT, "", "6", WITHIN(1, 4096), "number of blocks"},
    {AT(model.width), INT, "", "384", WITHIN(1, 1048576), "width of the residual stream"},
    {AT(model.heads), INT, "", "6", WITHIN(1, 4096),
     "query heads; a divisor of model.width unless model.head_dim is set"},
    {AT(model.kv_heads), INT, "", "0", WITHIN(0, 4096),
     "key and value heads, a divisor of model.heads; 0 = model.heads"},
    {AT(model.head_dim), INT, "", "0", WITHIN(0, 65536),
     "width of one head; 0 = model.width / model.heads"},
    {AT(model.ffn), INT, "", "0", WITHIN(0, 4194304),
     "hidden width of the feed-forward layers; 0 = the kind's default"},
    {AT(model.norm_eps), NUMBER, "", "0", WITHIN(0, 1),
     "epsilon added to the variance in norms; 0 = the kind's default"},
    {AT(model.rope_theta), NUMBER, "", "0", ANY,
     "base of the rotary positions; 0 = the kind's default"},
    {AT(model.rope_scaling), TEXT, "", "", WITHIN(0, 127),
     "how rotary frequencies change for longer texts, such as 'linear factor=2'"},
    {AT(model.rope_local_theta), NUMBER, "", "0", FROM(0),
     "rotary base in the layers with a sliding window; 0 = model.rope_theta"},
    {AT(model.rope_share), NUMBER, "", "0", WITHIN(0, 1),
     "share of a head's columns that are rotated; 0 = all"},
    {AT(model.window), INT, "tokens", "0", WITHIN(0, 16777216),
     "number of tokens a token attends to, itself included; 0 = all before it"},
    {AT(model.window_period), INT, "layers", "0", WITHIN(0, 4096),
     "every n-th layer ignores model.window; 0 = no layer does"},
    {AT(model.rope_period), INT, "layers", "0", WITHIN(0, 4096),
     "every n-th layer has no rotary positions; 0 = all have"},
    {AT(model.query_scale), NUMBER, "", "0", FROM(0),
     "attention scores are divided by its square root; 0 = the width of a head"},
    {AT(model.embedding_multiplier), NUMBER, "", "0", FROM(0),
     "granite: rows of the embedding are multiplied by it; 0 = 1"},
    {AT(model.attention_multiplier), NUMBER, "", "0", FROM(0),
     "granite: attention scores are multiplied by it; 0 = 1 / root of a head's width"},
    {AT(model.residual_multiplier), NUMBER, "", "0", FROM(0),
     "granite: what attention and feed-forward add is multiplied by it; 0 = 1"},
    {AT(model.logits_scaling), NUMBER, "", "0", FROM(0),
     "granite: logits are divided by it; 0 = 1"},
    {AT(model.attention_cap), NUMBER, "", "0", FROM(0),
     "attention scores are soft-capped at this value; 0 = no cap"},
    {AT(model.logit_cap), NUMBER, "", "0", FROM(0),
     "logits are soft-capped at this value; 0 = no cap"},
    {AT(model.dropout), NUMBER, "", "0", BELOW(0, 1),
     "probability of dropping an activation"},
    {AT(model.tied), AUTO_BOOL, "", "auto", ANY,
     "the output head shares the token embedding; auto = the kind's default"},
    {AT(model.qk_norm), AUTO_BOOL, "", "auto", ANY,
     "norms on queries and keys; auto = the kind's default"},
    {AT(model.attention_bias), AUTO_BOOL, "", "auto", ANY,
     "biases in the attention's projections; auto = the kind's default"},
    {AT(model.mlp_bias), AUTO_BOOL, "", "auto", ANY,
     "biases in the feed-forward layers; auto = the kind's default"},
    {AT(model.init_std), NUMBER, "", "0", WITHIN(0, 10),
     "standard deviation of initial weights (t5: a factor); 0 = the kind's default"},
    {AT(model.decoder_layers), INT, "", "0", WITHIN(0, 4096),
     "t5: blocks of the decoder; the encoder has model.layers; 0 = as many"},
    {AT(model.buckets), INT, "", "0", WITHIN(0, 4096),
     "t5: buckets of the relative positions; 0 = 32"},
    {AT(model.distance), INT, "tokens", "0", WITHIN(0, 1048576),
     "t5: distance from which all positions share the last bucket; 0 = 128"},
    {AT(model.image), INT, "pixels", "0", WITHIN(0, 2048),
     "vit: side that the images are scaled to; 0 = the side that they have"},
    {AT(model.patch), INT, "pixels", "0", WITHIN(0, 2048),
     "vit: side of a patch; a divisor of the image's side"},
    {AT(model.channels), INT, "", "0", WITHIN(0, 4),
     "vit: channels of the images: 1 = grey, 3 = colour; 0 = as many as they have"},
    {AT(model.vocab), INT, "tokens", "0", WITHIN(0, 4194304),
     "rows of the embedding; 0 = as many as the tokenizer needs"},
    {AT(model.context), INT, "tokens", "0", WITHIN(0, 1048576),
     "longest sequence the model can take; 0 = data.length"},
    {AT(model.precision), CHOICE, "", "f32", ONE_OF(precisions),
     "precision of the operands of matrix products"},
    {AT(model.recompute), BOOL, "", "false", ANY,
     "compute activations twice on this node: less memory, more time, same results"},
    {AT(model.init), PATH, "", "", ANY,
     "checkpoint folder to start from; empty = random"},
    {AT(model.frozen), TEXTS, "", "", ANY,
     "tensors that are not trained: patterns, @matrices, @tables or @vectors"},

    {AT(adapter.rank), INT, "", "0", WITHIN(0, 4096),
     "rank of the LoRA matrices; only they are trained; 0 = no adapters"},
    {AT(adapter.alpha), NUMBER, "", "0", WITHIN(0, 1e6),
     "an adapter's output is scaled by alpha / rank; 0 = the same as the rank"},
    {AT(adapter.dropout), NUMBER, "", "0", BELOW(0, 1),
     "probability of dropping an input of an adapter, as PEFT's lora_dropout"},
    {AT(adapter.targets), TEXTS, "", "", ANY,
     "modules with an adapter: names or patterns; empty = all those of the blocks"},
    {AT(adapter.save), TEXTS, "", "", ANY,
     "modules trained in full beside the adapters, as PEFT's modules_to_save"},
    {AT(adapter.init), PATH, "", "", ANY,
     "folder of an adapter in PEFT's format to start from; empty = a new one"},

    {AT(batch.tokens_per_step), INT, "tokens", "16384", FROM(1),
     "tokens of all ranks together in one optimizer step"},
    {AT(batch.rows_per_step), INT, "sequences", "0", WITHIN(0, 1073741824),
     "sequences, pairs or images per step; 0 = from batch.tokens_per_step"},
    {AT(batch.micro), INT, "sequences", "0", WITHIN(0, 1048576),
     "sequences per forward pass of this node's ranks; 0 = those of about 4096 tokens"},
    {AT(batch.shares), TEXT, "", "equal", ANY,
     "each node's sequences of a step: equal, by speed, speed and steps, or as in 3,1"},

    {AT(mesh.nodes), INT, "", "1", WITHIN(1, 1024),
     "number of nodes; the slow links are between nodes"},
    {AT(mesh.ranks_per_node), INT, "ranks", "1", WITHIN(1, 1024),
     "ranks per node; together they hold one sharded copy of the model"},
    {AT(mesh.shards), INT, "ranks", "0", WITHIN(0, 1024),
     "ranks that hold one sharded copy of the model; 0 = all ranks of a node"},
    {AT(mesh.keep_whole), BOOL, "", "false", ANY,
     "ranks gather each unit once per step and keep it; the results are the same"},
    {AT(mesh.sites), INT, "", "1", WITHIN(1, 1024),
     "groups of nodes with slower links between them; a divisor of mesh.nodes"},
    {AT(mesh.threads), INT, "threads", "0", WITHIN(0, 4096),
     "threads per rank; 0 = the cores divided by the ranks"},
    {AT(mesh.link), LINK, "", "none", ANY,
     "emulated wire between nodes when all ranks run in one process"},
    {AT(mesh.site_link), LINK, "", "none", ANY,
     "emulated wire between sites; the nodes of a site share it"},
    {AT(mesh.compute_time), NUMBER, "seconds", "0", WITHIN(0, 3600),
     "emulation: each rank computes at least this long in a step"},
    {AT(mesh.straggler_time), NUMBER, "seconds", "0", WITHIN(0, 3600),
     "emulation: one random rank stops for this long in each step"},
    {AT(mesh.overlap), BOOL, "", "true", ANY,
     "exchange one unit while the next one is computed; the results are the same"},
    {AT(mesh.min_message), BYTES, "bytes", "64kB", WITHIN(0, 1073741824),
     "units are merged into messages of at least this size; it affects rounding"},
    {AT(mesh.kernels), CHOICE, "", "auto", ONE_OF(kernels), "set of compute kernels"},
    {AT(mesh.timeout), NUMBER, "seconds", "60", WITHIN(0, 86400),
     "a process that shows no sign of life for this long is given up; 0 = never"},
    {AT(mesh.on_loss), CHOICE, "", "go_on", ONE_OF(losses),
     "what happens when a process is lost while the run trains"},
    {AT(mesh.robust), CHOICE, "", "off", ONE_OF(robusts),
     "how a node with wrong numbers is kept from ruining the mean"},
    {AT(mesh.join_steps), INT, "steps", "-1", WITHIN(-1, 4096),
     "a joiner gets its state over this many; 0 = others wait; -1 = by the link"},
    {AT(mesh.streams), INT, "sockets", "0", WITHIN(0, 16),
     "TCP sockets between two processes; 0 = as many as a long wire needs, else one"},
    {AT(mesh.key), PATH, "", "", ANY,
     "file with the run's key (weft key new); empty = WEFT_KEY_FILE, or no key"},
    {AT(mesh.run), TEXT, "", "", ANY,
     "keeps runs with one key apart, the same on all machines; empty = WEFT_RUN"},
    {AT(mesh.encrypt), BOOL, "", "true", ANY,
     "false or WEFT_ENCRYPT=off: without a key, machines connect unencrypted"},
    {AT(mesh.cert), PATH, "", "", ANY,
     "file with this process's certificate, instead of a key"},
    {AT(mesh.cert_key), PATH, "", "", ANY,
     "file with the private key of that certificate"},
    {AT(mesh.ca), PATH, "", "", ANY,
     "file with the certificate of the authority that signed all certificates"},
    {AT(mesh.memory_limit), BYTES, "bytes", "0", ANY,
     "most memory that this process may take; 0 = the machine's free memory"},

    {AT(elastic.silence), NUMBER, "seconds", "1", WITHIN(1, 3600),
     "the others continue without a process that none of them hears for this long"},
    {AT(elastic.patience), NUMBER, "seconds", "0", WITHIN(0, 86400),
     "wait for a process that lives but does not send; 0 = 5 steps, at least 30 s"},
    {AT(elastic.partition), CHOICE, "", "pause", ONE_OF(partitions),
     "what the parts of a run do when the network between them is cut"},
    {AT(elastic.pause), NUMBER, "seconds", "600", WITHIN(1, 604800),
     "time that a part without a quorum waits for the others before it ends"},
    {AT(elastic.witness), TEXT, "", "", ANY,
     "HOST[:PORT] of weft witness, which decides which half of a cut run continues"},
    {AT(elastic.faults), INT, "times", "3", WITHIN(1, 1000000),
     "a machine whose numbers were wrong this often is not taken in again"},
    {AT(elastic.batch), CHOICE, "", "shrink", ONE_OF(elastic_batches),
     "what happens to the rows of a step when processes leave or join"},
    {AT(elastic.stop), CHOICE, "", "auto", ONE_OF(stops),
     "what Ctrl-C or SIGTERM at a process ends"},

    REPLICATOR(replicator, "full", "what the nodes send each other of their gradients"),
    {"replicator.node_values", offsetof(weft_config, node_values), TEXT, "", "", ANY,
     "demo, topk: other codecs than replicator.values for what nodes send: 3=int4"},
    REPLICATOR(site_replicator, "none",
               "what the sites send each other, after the exchange inside each site"),

    {AT(mixer.kind), CHOICE, "", "none", ONE_OF(mixers),
     "how nodes (with several sites: sites) keep their parameters close"},
    {AT(mixer.topology), CHOICE, "", "aer", ONE_OF(topologies),
     "gossip: which nodes mix with which, and when; see weft topology"},
    {AT(mixer.links), PATH, "", "", ANY,
     "gossip: file with a list of links, for mixer.topology=measured"},
    {AT(mixer.order), CHOICE, "", "awc", ONE_OF(orders),
     "gossip: whether the exchange is hidden behind a step"},
    {AT(mixer.gamma), NUMBER, "", "1", WITHIN(0, 1),
     "gossip: share of the way to the neighbours' mean taken in each step"},
    {AT(mixer.gamma_power), NUMBER, "", "0", WITHIN(0, 100),
     "gossip: gamma falls as this power of the learning rate (DSGD-AC); 0 = constant"},
    {AT(mixer.gamma_start), NUMBER, "", "0.5", WITHIN(0, 1),
     "gossip: share of the run after which gamma falls"},
    {AT(mixer.average_every), INT, "steps", "0", ANY,
     "gossip: steps between two exact means over all nodes; 0 = never"},
    {AT(mixer.consensus_bound), NUMBER, "", "0", ANY,
     "gossip: mean over all nodes while replicas are further apart; 0 = off"},
    {AT(mixer.deadline), NUMBER, "seconds", "0", WITHIN(0, 3600),
     "gossip: neighbours later than this are left out; 0 = never"},
    {AT(mixer.outer_every), INT, "steps", "500", FROM(1),
     "outer kinds: steps between two outer steps (H); by a method <= 30 or steps / 32"},
    {AT(mixer.outer_lr), NUMBER, "", "0.7", WITHIN(0, 1000),
     "outer kinds: learning rate of the outer step"},
    {AT(mixer.outer_momentum), NUMBER, "", "0.9", BELOW(0, 1),
     "outer: Nesterov momentum of the outer step; by a method less in a short run"},
    {AT(mixer.fragments), INT, "", "1", WITHIN(1, 1024),
     "outer kinds: parts of the model, exchanged in turn; 1 = all at once"},
    {AT(mixer.delay), INT, "steps", "0", ANY,
     "outer: steps that an exchange may take while inner steps continue"},
    {AT(mixer.merge), NUMBER, "", "0", WITHIN(0, 1),
     "outer kinds: weight that a node's own parameters keep at an outer step"},
    {AT(mixer.feedback), NUMBER, "", "1", WITHIN(0, 1),
     "outer kinds: share of what was not sent that is kept for later (error feedback)"},
    {AT(mixer.compression_topk), INT, "", "64", WITHIN(1, 1048576),
     "sparse_outer: numbers sent per chunk"},
    {AT(mixer.compression_chunk), INT, "", "4096", WITHIN(2, 1048576),
     "sparse_outer: length of a chunk"},
    {AT(mixer.values), CHOICE, "", "f32", ONE_OF(value_codecs),
     "codec of parameter changes on the wire; what coding loses is sent later"},
    {AT(mixer.rounding), CHOICE, "", "nearest", ONE_OF(roundings),
     "how the codecs int8 and int4 round"},

    {AT(optimizer.kind), CHOICE, "", "adamw", ONE_OF(optimizers),
     "how the agreed direction changes the parameters"},
    {AT(optimizer.lr), NUMBER, "", "6e-4", WITHIN(0, 1000),
     "peak rate; unset: by method and width, adamw 5.6e-3 * min(1, 82.3/width)"},
    {AT(optimizer.beta1), NUMBER, "", "0.9", BELOW(0, 1),
     "all but sgd: decay of the first moment"},
    {AT(optimizer.beta2), NUMBER, "", "0.95", BELOW(0, 1),
     "all but sgd: decay of the second moment"},
    {AT(optimizer.eps), NUMBER, "", "1e-8", WITHIN(1e-30, 1),
     "all but sgd: added to the root of the second moment"},
    {AT(optimizer.accumulate), INT, "steps", "0", WITHIN(0, 1048576),
     "accum_*: steps between two updates of the moments; 0 = half the replicas"},
    {AT(optimizer.momentum), NUMBER, "", "0.95", BELOW(0, 1),
     "muon: decay of the momentum"},
    {AT(optimizer.nesterov), BOOL, "", "true", ANY, "muon: Nesterov's momentum"},
    {AT(optimizer.polynomial), CHOICE, "", "quintic", ONE_OF(polynomials),
     "muon: how matrices are made orthogonal"},
    {AT(optimizer.adjust), CHOICE, "", "match_rms_adamw", ONE_OF(adjusts),
     "muon: how a matrix's step is scaled by its shape"},
    {AT(optimizer.rows), NUMBER, "", "1", WITHIN(1e-6, 1),
     "muon: share of a matrix's rows updated in a step (Dion2); 1 = all"},
    {AT(optimizer.whole_every), INT, "steps", "1", FROM(1),
     "muon: each n-th step turns whole matrices, the others each rank's rows (MuonBP)"},
    {AT(optimizer.groups), TEXTS, "", "", ANY,
     "other settings for some tensors: 'PATTERN lr=0.5 decay=0 optimizer=adamw'"},
    {AT(optimizer.weight_decay), NUMBER, "", "0.1", WITHIN(0, 1000),
     "weight decay of matrices; a step multiplies it by the learning rate"},
    {AT(optimizer.clip), NUMBER, "", "1", ANY,
     "largest norm of the gradient over all parameters; 0 = no limit"},

    {AT(schedule.kind), CHOICE, "", "cosine", ONE_OF(schedules),
     "the learning rate over time"},
    {AT(schedule.warmup), INT, "steps", "100", ANY,
     "steps over which the learning rate rises to optimizer.lr"},
    {AT(schedule.final), NUMBER, "", "0.1", WITHIN(0, 1),
     "learning rate at the end, as a fraction of optimizer.lr"},

    {AT(decide.keep), CHOICE, "", "optimizer", ONE_OF(keeps),
     "what method=auto leaves as it is"},
    {AT(decide.alone), CHOICE, "", "end", ONE_OF(alones),
     "what happens if one process alone would be faster"},
    {AT(decide.loss), NUMBER, "share", "10", WITHIN(0, 10),
     "share of steps that the choice may need more to the same loss; 0.02 = 2 %"},
    {AT(decide.bytes_per_day), BYTES, "bytes", "0", ANY,
     "that a node may send in any 24 hours; 0 = no limit"},
    {AT(decide.busy), TEXT, "", "", ANY,
     "hours in which a node may send at most a rate: 18:00-23:30,2Mbit"},
    {AT(decide.time), NUMBER, "seconds", "10", WITHIN(1, 3600),
     "about how long measuring may take: before the first step, or by the first ones"},
    {NULL, 0, INT, NULL, NULL, ANY, NULL}};

_Static_assert(sizeof wefti_config_keys / sizeof wefti_config_keys[0] <= WEFTI_MAX_KEYS,
               "raise WEFTI_MAX_KEYS");

static const struct {
    const char *name, *doc;
} sections[] = {
    {"run", "How long, how often, and where the results go."},
    {"data", "What the model learns from."},
    {"model", "What is trained."},
    {"adapter", "LoRA: small trained matrices beside frozen ones, in PEFT's format."},
    {"batch", "How much data goes into one step."},
    {"mesh", "Which ranks there are, and the links between them."},
    {"elastic", "What a run does when processes are lost or join (mesh.on_loss)."},
    {"replicator", "Gradient side: what crosses the wire between nodes."},
    {"site_replicator", "The same between sites, if mesh.sites is more than 1."},
    {"mixer", "Parameter side: how replicas that differ are kept close."},
    {"optimizer", "How parameters are updated."},
    {"schedule", "The learning rate over the steps."},
    {"decide", "What method=auto may choose, and how long it measures."},
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
        if (wefti_is(key->name, name)) return key;
    return NULL;
}

bool wefti_config_key_is_own(const weft_config_key *key) {
    static const char *const own[] = {"run.upload",
                                      "mesh.threads",
                                      "mesh.memory_limit",
                                      "mesh.streams",
                                      "batch.micro",
                                      "model.recompute",
                                      NULL};
    if (key->is_path) return !wefti_is(key->name, "mixer.links"); /* of the whole run */
    return wefti_named(own, key->name);
}

int wefti_config_key_index(const weft_config_key *key) {
    return (int)(key - wefti_config_keys);
}

bool wefti_config_section_find(const char *name, int *index) {
    for (int i = 0; i < N_SECTIONS; i++) {
        if (!wefti_is(sections[i].name, name)) continue;
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
        if (!wefti_is(last_part(key->name), last_part(name))) continue;
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
        if (wefti_is(choices->name, name)) return choices;
    return NULL;
}
