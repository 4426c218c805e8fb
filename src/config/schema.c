/* SPDX-License-Identifier: MIT */
/* The one table of configuration keys. Reading, overrides, errors, help, documentation,
 * completion and the man page are all made from it. Each row:
 *
 *     AT(section.key)   its name, and its place in weft_config by offsetof
 *     type              INT BYTES NUMBER BOOL AUTO_BOOL TEXT CHOICE LINK TEXTS NUMBERS
 *     unit              as the documentation shows it; numbers in files have no unit
 *     default           as text, read by the same parser as a user's value
 *     bounds            ANY, FROM(min), WITHIN(min, max), BELOW(min, max), ONE_OF(choices):
 *                       smallest and largest value, whether the largest is excluded, choices;
 *                       of a text its length
 *     meaning           one line, 11 to 79 characters, in docs and help
 *
 * A key is found by walking the table: there are fewer than two hundred, and it is read when a
 * run is configured, never in a step. Choices of kinds that live in other rooms come from one
 * list for each of them (the .def files), so a new kind is a choice as soon as it is listed.
 * AUTO_BOOL is -1 where the kind of model decides. */
#include "config/schema.h"

#include <string.h>

#include "base/text.h"

static const weft_choice tokenizers[] = {
    {"bytes", "each byte is a token: 256 ids, nothing to train"},
    {"bpe", "byte-level BPE with data.vocab ids, trained on data.path before the run"},
    {"ids", "none: data.path are shards of ids below data.vocab, which stand for no text"},
    {NULL, NULL}};
static const weft_choice splits[] = {
    {"gpt2", "words with their leading space, numbers, punctuation, as GPT-2"},
    {"llama3", "as Llama 3: numbers in groups of up to three digits"},
    {NULL, NULL}};
static const weft_choice rows_of_text[] = {
    {"windows", "data.length tokens of one long text, all of which count in the loss"},
    {"prompts", "an example of a .jsonl, of which only the answers count in the loss"},
    {NULL, NULL}};
static const weft_choice chats[] = {
    {"auto", "the one beside the tokenizer, or in the model's folder"},
    {"chatml", "<|im_start|>role, text, <|im_end|>: SmolLM, Yi and many more"},
    {"llama2", "[INST] text [/INST] with <<SYS>>: Llama 2 chat"},
    {"llama3", "<|start_header_id|>role<|end_header_id|>, <|eot_id|>: Llama 3"},
    {"mistral", "[INST] text [/INST], the beginning token once: Mistral"},
    {"gemma", "<start_of_turn>user, text, <end_of_turn>: Gemma"},
    {"phi3", "<|user|>, text, <|end|>: Phi-3"},
    {"qwen", "chatml with a system message if none is given: Qwen 2 and 2.5"},
    {NULL, NULL}};
static const weft_choice models[] = {
    {"gpt2", "learned positions, LayerNorm, GELU"},
    {"llama", "rotary positions, RMSNorm, SwiGLU, grouped queries"},
    {"mistral", "llama with a sliding window"},
    {"qwen2", "llama with biases of queries, keys and values; Qwen 2.5 too"},
    {"qwen3", "llama with norms on each head's query and key"},
    {"olmo2", "llama with norms after the layers and on queries and keys"},
    {"olmo3", "olmo2 with a sliding window in most layers"},
    {"gemma2", "norms on both sides of the layers, GeGLU, capped scores, windows"},
    {"gemma3", "gemma2 with norms on each head's query and key instead of caps"},
    {"phi3", "llama with fused tensors in its files"},
    {"gpt_neox", "LayerNorm, rotary positions, attention and feed-forward side by side"},
    {"opt", "learned positions, LayerNorm, ReLU"},
    {"t5", "encoder and decoder of pairs, relative positions (T5 v1.1)"},
    {"vit", "classes of images from patches"},
    {NULL, NULL}};
static const weft_choice losses[] = {
    {"go_on",
     "the other nodes go on where they can (docs/membership.md)"},
    {"end", "the run ends, and resumes from its last checkpoint"},
    {NULL, NULL}};
static const weft_choice partitions[] = {
    {"pause", "more than half go on; the others wait for them, and end"},
    {"split", "each part goes on by itself: two runs, which do not merge"},
    {NULL, NULL}};
static const weft_choice elastic_batches[] = {
    {"shrink", "each rank goes on with its own rows: steps take as long, of fewer rows"},
    {"keep", "those who are left share all rows: steps are as large, and take longer"},
    {NULL, NULL}};
static const weft_choice kernels[] = {
    {"auto", "the fastest set that this processor runs"},
    {"reference", "plain loops with double sums: slow, for comparison"},
    {"base", "any processor of this architecture"},
    {"avx2", "x86-64 with AVX2 and FMA"},
    {"avx512", "x86-64 with AVX-512"},
    {NULL, NULL}};
/* The kinds that other folders have: their lists, made into choices. */
#define WEFTI_KIND(name, summary) {#name, summary},
static const weft_choice precisions[] = {
    {"f32", "all numbers in 32 bits"},
    {"bf16", "factors of products, attention's too, rounded to bfloat16, all else in 32 bits"},
    {NULL, NULL}};
static const weft_choice replicators[] = {
#include "replicate/replicators.def"
    {NULL, NULL}};
static const weft_choice momentum_styles[] = {
    {"sum", "m <- decay m + lr g, as DeMo was published"},
    {"mean", "m <- decay m + (1 - decay) g, as in its newer form"},
    {NULL, NULL}};
static const weft_choice exchanges[] = {
    {"auto", "the faster one on the wire of mesh.link; without one, the fewer bytes"},
    {"all_gather", "each node's numbers go to all others: grows with the nodes"},
    {"sharded", "each node combines a part and sends the signs: constant"},
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
    {"nearest", "to the nearest number that the codec has"},
    {"stochastic", "up or down by chance, right on average; seeded by run.seed"},
    {NULL, NULL}};
static const weft_choice mixers[] = {
#include "mix/mixers.def"
    {NULL, NULL}};
static const weft_choice topologies[] = {
#include "topology/topologies.def"
    {NULL, NULL}};
static const weft_choice orders[] = {
    {"awc", "what was sent after a step is mixed in the next one: hidden"},
    {"atc", "what was sent after a step is mixed at once: fresher, not hidden"},
    {NULL, NULL}};
static const weft_choice optimizers[] = {
#include "optim/optimizers.def"
    {NULL, NULL}};
#undef WEFTI_KIND
static const weft_choice polynomials[] = {
    {"quintic", "the same one five times (Jordan, torch.optim.Muon)"},
    {"polar_express", "a better one for each of five turns"},
    {NULL, NULL}};
static const weft_choice adjusts[] = {
    {"match_rms_adamw", "steps as large as AdamW's: its rate and decay fit"},
    {"original", "sqrt(max(1, outputs/inputs))"},
    {"spectral", "sqrt(outputs/inputs)"},
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

/* The keys of one replicator; `first` says between whom. */
#define REPLICATOR(section, fallback, first)                                             \
    {AT(section.kind), CHOICE, "", fallback, ONE_OF(replicators), first},                \
        {AT(section.compression_topk),           INT, "", "4", WITHIN(1, 1048576),       \
         "demo kinds, topk: numbers sent of each chunk; powersgd: the rank"},            \
        {AT(section.compression_chunk),          INT, "", "64", WITHIN(2, 1024),         \
         "demo, topk, public_demo: length of a chunk along an axis"},                       \
        {AT(section.compression_rate),                                                   \
         NUMBER,                                                                         \
         "",                                                                             \
         "0.0625",                                                                       \
         WITHIN(1e-6, 1),                                                                \
         "random, striding, slicing: share of the rows sent in a step"},                 \
        {AT(section.compression_decay),                                                  \
         NUMBER,                                                                         \
         "",                                                                             \
         "0.999",                                                                        \
         WITHIN(0, 1),                                                                   \
         "what remains of the momentum after a step"},                                   \
        {AT(section.compression_dims),                                                   \
         INT,                                                                            \
         "",                                                                             \
         "1",                                                                            \
         WITHIN(1, 2),                                                                   \
         "demo: 1 = chunks of flattened tensors, 2 = square blocks of matrices"},        \
        {AT(section.momentum_style),                                                     \
         CHOICE,                                                                         \
         "",                                                                             \
         "sum",                                                                          \
         ONE_OF(momentum_styles),                                                        \
         "how the momentum takes the gradient in"},                                      \
        {AT(section.alpha),                                                              \
         NUMBER,                                                                         \
         "",                                                                             \
         "1",                                                                            \
         WITHIN(1e-6, 1),                                                                \
         "share of what was sent that is taken out of the momentum"},                    \
        {AT(section.sign),                                                               \
         BOOL,                                                                           \
         "",                                                                             \
         "true",                                                                         \
         ANY,                                                                            \
         "all but full: only the sign of the agreed direction is used"},                 \
        {AT(section.exchange),                                                           \
         CHOICE,                                                                         \
         "",                                                                             \
         "auto",                                                                         \
         ONE_OF(exchanges),                                                              \
         "demo: which way the coefficients travel; changes no number"},                  \
        {AT(section.values),                                                             \
         CHOICE,                                                                         \
         "",                                                                             \
         "f32",                                                                          \
         ONE_OF(value_codecs),                                                           \
         "how numbers are coded on the wire; what is lost stays for later"},             \
        {AT(section.indices),                                                            \
         CHOICE,                                                                         \
         "",                                                                             \
         "auto",                                                                         \
         ONE_OF(index_codecs),                                                           \
         "demo, topk: how the places of numbers are coded; loses nothing"},              \
        {AT(section.rounding),     CHOICE, "", "nearest", ONE_OF(roundings),             \
         "how int8 and int4 round"},                                                     \
        {AT(section.dense_below),                                                        \
         INT,                                                                            \
         "elements",                                                                     \
         "1024",                                                                         \
         ANY,                                                                            \
         "demo: tensors with fewer elements than this are sent whole"},                  \
        {AT(section.every),        INT,    "steps", "1", FROM(1),                        \
         "exchange only on steps divisible by this"},                                    \
    {                                                                                    \
        AT(section.delay), INT, "steps", "0", WITHIN(0, 1),                              \
            "demo, topk: 1 = applied a step later, hidden behind that step"              \
    }

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
    {AT(run.compare_every), INT, "steps", "100", ANY,
     "steps between two checks that equal replicas are equal; 0 = never"},
    {AT(run.tensorboard), BOOL, "", "true", ANY, "also write TensorBoard event files"},
    {AT(run.prometheus), TEXT, "", "", ANY,
     "file for the newest numbers in Prometheus' text format; empty = none"},

    {AT(data.path), TEXTS, "", "", ANY,
     "training data: texts, token shards, folders of them; - = standard input"},
    {AT(data.weights), NUMBERS, "", "", ANY,
     "share of each data.path in the batches; empty = by size"},
    {AT(data.validation_path), TEXTS, "", "", ANY,
     "validation data; empty = the end of the training data"},
    {AT(data.validation), NUMBER, "", "0.05", BELOW(0, 1),
     "fraction at the end of each data.path kept for validation"},
    {AT(data.length), INT, "tokens", "256", WITHIN(1, 1048576), "tokens in one sequence"},
    {AT(data.source_length), INT, "tokens", "0", WITHIN(0, 1048576),
     "tokens of a source where rows are pairs; 0 = data.length"},
    {AT(data.tokenizer), TEXT, "", "bytes", ONE_OF(tokenizers),
     "bytes, bpe, or the path of a tokenizer.json or of its folder"},
    {AT(data.vocab), INT, "tokens", "1024", WITHIN(257, 4194304),
     "vocabulary of a bpe tokenizer trained for the run"},
    {AT(data.split), CHOICE, "", "gpt2", ONE_OF(splits),
     "splitting rule of a bpe tokenizer trained for the run"},
    {AT(data.field), TEXT, "", "text", ANY,
     "the field of each line of a .jsonl file that holds the text"},
    {AT(data.column), TEXT, "", "text", ANY,
     "the column of a .csv or .tsv file that holds the text"},
    {AT(data.rows), CHOICE, "", "windows", ONE_OF(rows_of_text),
     "what a row of a model of texts is"},
    {AT(data.chat_template), TEXT, "", "auto", ONE_OF(chats),
     "of prompts that are messages: a name or the path of a Jinja template"},

    {AT(model.kind), CHOICE, "", "gpt2", ONE_OF(models), "the architecture"},
    {AT(model.layers), INT, "", "6", WITHIN(1, 4096), "number of blocks"},
    {AT(model.width), INT, "", "384", WITHIN(1, 1048576), "width of the residual stream"},
    {AT(model.heads), INT, "", "6", WITHIN(1, 4096),
     "query heads; they divide the width"},
    {AT(model.kv_heads), INT, "", "0", WITHIN(0, 4096),
     "key and value heads; they divide the heads; 0 = as many as heads"},
    {AT(model.head_dim), INT, "", "0", WITHIN(0, 65536),
     "columns of a head; 0 = width / heads"},
    {AT(model.ffn), INT, "", "0", WITHIN(0, 4194304),
     "hidden width of the feed-forward layers; 0 = the kind's own"},
    {AT(model.norm_eps), NUMBER, "", "0", WITHIN(0, 1),
     "added to the variance in norms; 0 = the kind's own"},
    {AT(model.rope_theta), NUMBER, "", "0", ANY,
     "base of the rotary positions; 0 = the kind's own"},
    {AT(model.rope_scaling), TEXT, "", "", WITHIN(0, 127),
     "how rotary frequencies change for longer texts, such as 'linear factor=2'"},
    {AT(model.rope_local_theta), NUMBER, "", "0", FROM(0),
     "base of the rotary positions in layers with a window; 0 = as in the others"},
    {AT(model.rope_share), NUMBER, "", "0", WITHIN(0, 1),
     "share of a head's columns that is rotated; 0 = all"},
    {AT(model.window), INT, "tokens", "0", WITHIN(0, 16777216),
     "how many tokens a token attends to, itself included; 0 = all before it"},
    {AT(model.window_period), INT, "layers", "0", WITHIN(0, 4096),
     "distance between layers that ignore model.window; 0 = none"},
    {AT(model.query_scale), NUMBER, "", "0", FROM(0),
     "scores are divided by its root; 0 = the columns of a head"},
    {AT(model.attention_cap), NUMBER, "", "0", FROM(0),
     "scores are bounded smoothly to this size; 0 = not"},
    {AT(model.logit_cap), NUMBER, "", "0", FROM(0),
     "logits are bounded smoothly to this size; 0 = not"},
    {AT(model.dropout), NUMBER, "", "0", BELOW(0, 1),
     "probability of dropping an activation"},
    {AT(model.tied), AUTO_BOOL, "", "auto", ANY,
     "the head uses the token embedding; auto = as the kind does"},
    {AT(model.qk_norm), AUTO_BOOL, "", "auto", ANY,
     "norms on queries and keys; auto = as the kind does"},
    {AT(model.attention_bias), AUTO_BOOL, "", "auto", ANY,
     "biases of the attention's products; auto = as the kind does"},
    {AT(model.mlp_bias), AUTO_BOOL, "", "auto", ANY,
     "biases of the feed-forward's products; auto = as the kind does"},
    {AT(model.init_std), NUMBER, "", "0", WITHIN(0, 10),
     "spread of the initial weights; 0 = the kind's own"},
    {AT(model.decoder_layers), INT, "", "0", WITHIN(0, 4096),
     "blocks of a t5's decoder; model.layers counts its encoder's; 0 = as many"},
    {AT(model.buckets), INT, "", "0", WITHIN(0, 4096),
     "buckets of a t5's relative positions; 0 = 32"},
    {AT(model.distance), INT, "tokens", "0", WITHIN(0, 1048576),
     "distance from which on a t5's positions share a bucket; 0 = 128"},
    {AT(model.image), INT, "pixels", "0", WITHIN(0, 2048),
     "side of a vit's images, which are scaled to it; 0 = as they are"},
    {AT(model.patch), INT, "pixels", "0", WITHIN(0, 2048),
     "side of a vit's patches; it divides the image's side"},
    {AT(model.channels), INT, "", "0", WITHIN(0, 4),
     "channels of a vit's images: 1 grey, 3 colour; 0 = as they are"},
    {AT(model.vocab), INT, "tokens", "0", WITHIN(0, 4194304),
     "rows of the embedding; 0 = as many as the tokenizer needs"},
    {AT(model.context), INT, "tokens", "0", WITHIN(0, 1048576),
     "longest sequence the model can take; 0 = data.length"},
    {AT(model.precision), CHOICE, "", "f32", ONE_OF(precisions),
     "of the numbers that the matrix products multiply"},
    {AT(model.recompute), BOOL, "", "false", ANY,
     "compute activations twice instead of keeping them: less memory, more time"},
    {AT(model.init), TEXT, "", "", ANY,
     "checkpoint folder to start from; empty = random"},
    {AT(model.frozen), TEXTS, "", "", ANY,
     "tensors that are not trained: patterns, @matrices, @tables or @vectors"},

    {AT(adapter.rank), INT, "", "0", WITHIN(0, 4096),
     "rank of LoRA's matrices, which alone are trained; 0 = no adapters"},
    {AT(adapter.alpha), NUMBER, "", "0", WITHIN(0, 1e6),
     "an adapter's product is scaled by alpha / rank; 0 = alpha is the rank"},
    {AT(adapter.dropout), NUMBER, "", "0", BELOW(0, 1),
     "probability of dropping an input of an adapter, as PEFT's lora_dropout"},
    {AT(adapter.targets), TEXTS, "", "", ANY,
     "modules that get an adapter: names or patterns; empty = all of the blocks"},
    {AT(adapter.save), TEXTS, "", "", ANY,
     "modules trained whole beside the adapters, as PEFT's modules_to_save"},
    {AT(adapter.init), TEXT, "", "", ANY,
     "folder of an adapter in PEFT's format to go on from; empty = a new one"},

    {AT(batch.tokens_per_step), INT, "tokens", "16384", FROM(1),
     "tokens of all ranks together in one optimizer step"},
    {AT(batch.rows_per_step), INT, "sequences", "0", WITHIN(0, 1073741824),
     "sequences, pairs or images in a step; 0 = by batch.tokens_per_step"},
    {AT(batch.micro), INT, "sequences", "0", WITHIN(0, 1048576),
     "sequences per rank and forward pass; 0 = about 4096 tokens' worth"},

    {AT(mesh.nodes), INT, "", "1", WITHIN(1, 1024),
     "nodes: the slow links are between them"},
    {AT(mesh.ranks_per_node), INT, "ranks", "1", WITHIN(1, 1024),
     "ranks in a node; they share one sharded copy of the model"},
    {AT(mesh.shards), INT, "ranks", "0", WITHIN(0, 1024),
     "ranks that share one copy of the model; 0 = all of a node"},
    {AT(mesh.keep_whole), BOOL, "", "false", ANY,
     "ranks gather each unit once a step and keep it; changes no number"},
    {AT(mesh.sites), INT, "", "1", WITHIN(1, 1024),
     "groups of nodes with slower links between them; they divide the nodes"},
    {AT(mesh.threads), INT, "threads", "0", WITHIN(0, 4096),
     "threads of each rank; 0 = the cores divided by the ranks"},
    {AT(mesh.link), LINK, "", "none", ANY,
     "emulated wire between nodes when all ranks run in one process"},
    {AT(mesh.site_link), LINK, "", "none", ANY,
     "the same between sites; the nodes of a site share it"},
    {AT(mesh.compute_time), NUMBER, "seconds", "0", WITHIN(0, 3600),
     "emulation: computing a step takes each rank at least so long"},
    {AT(mesh.straggler_time), NUMBER, "seconds", "0", WITHIN(0, 3600),
     "emulation: in each step one rank, drawn by chance, stops for so long"},
    {AT(mesh.overlap), BOOL, "", "true", ANY,
     "exchange one unit while the next one computes; changes no number"},
    {AT(mesh.min_message), BYTES, "bytes", "64kB", WITHIN(0, 1073741824),
     "small units are merged on the wire up to this size; coded values round by it"},
    {AT(mesh.kernels), CHOICE, "", "auto", ONE_OF(kernels),
     "which compute kernels to use"},
    {AT(mesh.timeout), NUMBER, "seconds", "60", WITHIN(0, 86400),
     "a process that gives no sign of life for so long is given up; 0 = never"},
    {AT(mesh.on_loss), CHOICE, "", "go_on", ONE_OF(losses),
     "when a process is lost while the run trains"},
    {AT(mesh.join_steps), INT, "steps", "-1", WITHIN(-1, 4096),
     "in so many the state of who joins comes; 0: others wait; -1: by the link"},
    {AT(mesh.key), TEXT, "", "", ANY,
     "file of the run's key (weft key new); empty = WEFT_KEY_FILE, or none"},
    {AT(mesh.run), TEXT, "", "", ANY,
     "name of the run, the same on all machines; the key opens no other run"},
    {AT(mesh.encrypt), BOOL, "", "true", ANY,
     "false: without a key, bytes cross the network as they are"},
    {AT(mesh.cert), TEXT, "", "", ANY,
     "file of this process's certificate, in place of a key"},
    {AT(mesh.cert_key), TEXT, "", "", ANY, "file of that certificate's own key"},
    {AT(mesh.ca), TEXT, "", "", ANY,
     "file of the authority that signed all certificates"},
    {AT(mesh.memory_limit), BYTES, "bytes", "0", ANY,
     "refuse a run that needs more memory; 0 = what the machine has free"},

    {AT(elastic.silence), NUMBER, "seconds", "1", WITHIN(1, 3600),
     "a process that nobody hears for so long is gone on without"},
    {AT(elastic.patience), NUMBER, "seconds", "0", WITHIN(0, 86400),
     "so long others wait for one that lives and does not send; 0 = 5 steps, >= 30 s"},
    {AT(elastic.partition), CHOICE, "", "pause", ONE_OF(partitions),
     "what the parts of a network do that do not hear each other"},
    {AT(elastic.pause), NUMBER, "seconds", "600", WITHIN(1, 604800),
     "so long processes that are too few wait for the others before they end"},
    {AT(elastic.witness), TEXT, "", "", ANY,
     "HOST[:PORT] of weft witness, which says which half of a cut run goes on"},
    {AT(elastic.batch), CHOICE, "", "shrink", ONE_OF(elastic_batches),
     "what becomes of the rows of a step when processes go or come"},

    REPLICATOR(replicator, "full",
               "what the nodes tell each other about their gradients"),
    REPLICATOR(site_replicator, "none", "what sites tell each other, after their nodes"),

    {AT(mixer.kind), CHOICE, "", "none", ONE_OF(mixers),
     "how nodes (with several sites: sites) pull their parameters together"},
    {AT(mixer.topology), CHOICE, "", "aer", ONE_OF(topologies),
     "gossip: who mixes with whom, and when; see weft topology"},
    {AT(mixer.links), TEXT, "", "", ANY,
     "gossip: file with the list of links for the topology measured"},
    {AT(mixer.order), CHOICE, "", "awc", ONE_OF(orders),
     "gossip: whether the exchange is hidden behind a step"},
    {AT(mixer.gamma), NUMBER, "", "1", WITHIN(0, 1),
     "gossip: share of the way to the neighbours' mean that is gone"},
    {AT(mixer.gamma_power), NUMBER, "", "0", WITHIN(0, 100),
     "gossip: gamma falls with this power of the rate (DSGD-AC); 0 = it stays"},
    {AT(mixer.gamma_start), NUMBER, "", "0.5", WITHIN(0, 1),
     "gossip: share of the run after which gamma falls"},
    {AT(mixer.average_every), INT, "steps", "0", ANY,
     "gossip: steps between two exact means of all nodes; 0 = never"},
    {AT(mixer.consensus_bound), NUMBER, "", "0", ANY,
     "gossip: while the replicas are further apart all nodes meet; 0 = off"},
    {AT(mixer.deadline), NUMBER, "seconds", "0", WITHIN(0, 3600),
     "gossip: neighbours that are so late are left out; 0 = never"},
    {AT(mixer.outer_every), INT, "steps", "500", FROM(1),
     "outer kinds: steps between two outer steps (H)"},
    {AT(mixer.outer_lr), NUMBER, "", "0.7", WITHIN(0, 1000),
     "outer kinds: learning rate of the outer step"},
    {AT(mixer.outer_momentum), NUMBER, "", "0.9", BELOW(0, 1),
     "outer: Nesterov momentum of the outer step"},
    {AT(mixer.fragments), INT, "", "1", WITHIN(1, 1024),
     "outer kinds: parts of the model that take turns; 1 = all at once"},
    {AT(mixer.delay), INT, "steps", "0", ANY,
     "outer: steps that an exchange may take, hidden behind the inner steps"},
    {AT(mixer.merge), NUMBER, "", "0", WITHIN(0, 1),
     "outer kinds: share of a node's own parameters that stays at an outer step"},
    {AT(mixer.feedback), NUMBER, "", "1", WITHIN(0, 1),
     "outer kinds: share of what was not sent that is sent later (feedback)"},
    {AT(mixer.compression_topk), INT, "", "64", WITHIN(1, 1048576),
     "sparse_outer: numbers sent of each run"},
    {AT(mixer.compression_chunk), INT, "", "4096", WITHIN(2, 1048576),
     "sparse_outer: length of a run"},
    {AT(mixer.values), CHOICE, "", "f32", ONE_OF(value_codecs),
     "how changes of parameters are coded on the wire; the loss is kept"},
    {AT(mixer.rounding), CHOICE, "", "nearest", ONE_OF(roundings),
     "how int8 and int4 round"},

    {AT(optimizer.kind), CHOICE, "", "adamw", ONE_OF(optimizers),
     "how the agreed direction changes the parameters"},
    {AT(optimizer.lr), NUMBER, "", "6e-4", WITHIN(0, 1000),
     "peak learning rate; unset: 6e-4 * 768 / width, at most 4e-3 (muon: times 4)"},
    {AT(optimizer.beta1), NUMBER, "", "0.9", BELOW(0, 1),
     "all but sgd: decay of the first moment"},
    {AT(optimizer.beta2), NUMBER, "", "0.95", BELOW(0, 1),
     "all but sgd: decay of the second moment"},
    {AT(optimizer.eps), NUMBER, "", "1e-8", WITHIN(1e-30, 1),
     "all but sgd: added to the root of the second moment"},
    {AT(optimizer.accumulate), INT, "steps", "0", WITHIN(0, 1048576),
     "accum_*: steps between two changes of the moments; 0 = half the replicas"},
    {AT(optimizer.momentum), NUMBER, "", "0.95", BELOW(0, 1),
     "muon: decay of the momentum"},
    {AT(optimizer.nesterov), BOOL, "", "true", ANY, "muon: Nesterov's momentum"},
    {AT(optimizer.polynomial), CHOICE, "", "quintic", ONE_OF(polynomials),
     "muon: how matrices are made orthogonal"},
    {AT(optimizer.adjust), CHOICE, "", "match_rms_adamw", ONE_OF(adjusts),
     "muon: scale of a matrix's step by its shape"},
    {AT(optimizer.rows), NUMBER, "", "1", WITHIN(1e-6, 1),
     "muon: share of a matrix's rows that moves in a step (Dion2); 1 = all"},
    {AT(optimizer.whole_every), INT, "steps", "1", FROM(1),
     "muon: ranks turn their own rows alone in all but every n-th step (MuonBP)"},
    {AT(optimizer.groups), TEXTS, "", "", ANY,
     "tensors moved otherwise: 'PATTERN lr=0.5 decay=0 optimizer=adamw', a list"},
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
    {"adapter", "LoRA: small matrices beside frozen ones; PEFT reads what is saved."},
    {"batch", "How much data goes into one step."},
    {"mesh", "Which ranks there are and what lies between them."},
    {"elastic", "What a run does whose processes are lost or come (mesh.on_loss)."},
    {"replicator", "Gradient side: what crosses the wire between nodes."},
    {"site_replicator", "The same between sites, if mesh.sites is more than 1."},
    {"mixer", "Parameter side: how differing replicas are pulled together."},
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
        if (wefti_is(key->name, name)) return key;
    return NULL;
}

bool wefti_config_key_is_own(const char *name) {
    static const char *const own[] = {
        "run.folder",     "run.prometheus", "data.path",     "data.validation_path",
        "data.tokenizer", "model.init",     "adapter.init",  "mesh.threads",
        "mesh.key",       "mesh.cert",      "mesh.cert_key", "mesh.ca",
        "mesh.memory_limit", NULL};
    return wefti_named(own, name);
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
