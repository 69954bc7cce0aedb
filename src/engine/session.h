/*
 * The inside of a session, shared by the files of src/engine and by nobody else. One timeline: a
 * request at a time; `cancelled` is the only member that another thread writes.
 *
 * Invariants between requests: the context's memory holds exactly tokens[0..n_kv); no graph runs;
 * the pager's queue may still be reading ahead.
 */
#ifndef BMOE_ENGINE_SESSION_H
#define BMOE_ENGINE_SESSION_H

#include "base/host.h"
#include "base/log.h"
#include "device/device_open.h"
#include "device/prefill.h"
#include "engine/llama_log.h"
#include "engine/session_hooks.h"
#include "graph/graph_map.h"
#include "model/gguf_index.h"
#include "pager/pager.h"
#include "stream/repack.h"
#include "stream/stream.h"
#include "stream/weights.h"

#include <llama.h>
#include <stdatomic.h>

/* Memory as planned before any weight is read, in bytes. */
struct plan {
    uint64_t program; /* resident when the plan was made: code, vocabulary, cleared KV */
    uint64_t kv, states, compute, outputs; /* states: copies of the KV */
    uint64_t
        device; /* for a prefill device: copies, buffers, and its memory where that is the host's */
    uint64_t dense, budget, floor;
    uint64_t total;     /* what the process may grow to */
    uint64_t available; /* what the machine had left */
    char bound_by[128];
};

/* Buffers met while learning the graph: the context's memory and its scratch space. */
struct context_buffers {
    struct ggml_backend_buffer *seen[32];
    unsigned n_seen;
    uint64_t kv, compute;
};

/* While the graph is learned one node is computed all the same (docs/seam.md:
 * abort_asks_all_and_computes_one); its weights are replaced by zeros for that time. */
struct capture {
    void (*on_node)(void *user, struct ggml_tensor *node);
    void *user;
    bool met; /* that node */
    unsigned n;
    struct {
        struct ggml_tensor *tensor;
        void *data, *zeros;
        size_t bytes;
    } at[GGML_MAX_SRC];
};

/* Who is told how far the running graph has come; see progress.c. */
struct graph_progress {
    void (*tell)(void *user, uint32_t tokens); /* NULL: nobody */
    void *user;
    uint32_t n;                   /* tokens of the graph */
    uint32_t ordinal, stopped_at; /* nodes asked about; at the last one that was computed up to */
    int64_t told_us;
};

/* A copy of the context's memory when it held tokens[0..n). n 0: none. */
struct kv_state {
    llama_token *tokens;
    uint8_t *data;
    size_t bytes, room, tokens_room;
    uint32_t n;
    bool partial; /* only what cannot be cut; good as long as the rest is still in the memory */
};

struct bmoe_session {
    struct bmoe_options o; /* resolved: no zero that means a default; strings are ours */
    char *model_path, *backends_dir, *type_k_name, *type_v_name, *device_name;
    struct log log;
    struct llama_log llama_log;

    struct gguf_index *index;
    struct pager *pager;
    int *files; /* pager file number per shard */
    struct repack repack;
    struct graph_map *map;
    struct weights *weights;
    struct stream *stream;
    struct weights_sums sums;
    struct context_buffers buffers;
    struct plan plan;

    struct trial *trial; /* while the session opens */
    struct llama_model *model;
    struct llama_context *ctx;
    const struct llama_vocab *vocab;
    uint32_t n_outputs; /* logit rows one decode may ask for */
    uint32_t n_ctx, n_vocab, n_expert;
    uint32_t n_batch; /* tokens of the widest graph */
    bool streamed, repacked, load_read_file;
    char cpu_variant[64];
    char mode[1024];
    char model_desc[128];
    double load_s;

    /* The prefill device. prefill is NULL where there is none, or none any more. */
    struct device_opened device;
    struct prefill *prefill;
    struct prefill_counters device_before; /* of what is no more */
    struct kv_memory *memory;              /* the context's, where the device reaches it; or NULL */
    bool on_device;                        /* the running graph is bound to it */
    bool reserved_there;                   /* compute buffers were made for graphs on it */
    bool unchecked;                        /* it computed what no finite logits were seen of yet */
    struct ggml_tensor *stopped_at;        /* the node a stopped graph computes nothing for */
    enum ggml_op stopped_op;
    uint32_t last_width; /* tokens of the last graph; where it ran: */
    bool last_on_device;
    int64_t device_tokens;

    bool hollow;             /* the graph computes nothing */
    struct capture *capture; /* not NULL: the graph is only learned, not computed */
    atomic_bool cancelled;
    struct llama_batch batch; /* room for n_batch tokens, sequence 0 */
    llama_token *tokens;      /* n_ctx of them */
    uint32_t n_kv;

    bool keep_prefix;
    struct kv_state prefix;   /* of the last decision that kept one */
    struct kv_state boundary; /* of the last prompt, where the memory cannot be cut; partial */
    double *choice_logp;      /* of the last decision */

    struct graph_progress progress;
    struct lens *lens;   /* NULL: nobody asked */
    struct trace *trace; /* NULL: nobody asked */
    uint32_t n_requests;
    bool decoding; /* the graph's token is one of an answer */

    char *text; /* the last answer */
    size_t text_bytes, text_cap;
    int64_t prefill_tokens, prefill_us, decode_tokens, decode_us;

    struct session_hooks hooks;
};

/* The override by which libllama's model uses n_used experts a token, and the end of the list. */
void session_override_experts(const struct gguf_index *index, uint32_t n_used,
                              struct llama_model_kv_override kv[2]);

/* backend.c: makes sure that a CPU backend is registered: the best variant in dir. Writes its name.
 */
int backend_load_cpu(const char *dir, char *variant, size_t variant_bytes, struct bmoe_error *err);

/* context.c: (re)creates the context for n_outputs logit rows; forgets the KV. */
int context_create(struct bmoe_session *s, uint32_t n_outputs, struct bmoe_error *err);
/* Learns the graph: s->map and s->buffers. No weight is touched. */
int context_capture(struct bmoe_session *s, struct bmoe_error *err);
/* Runs tokens[from .. from + n) of the session, n <= n_ubatch, at positions from..; logits for the
 * last n_logits of them. On failure the memory holds what it held before, or nothing where it
 * cannot be cut: n_kv says. */
int context_decode(struct bmoe_session *s, uint32_t n, uint32_t n_logits, struct bmoe_error *err);
/* How many of `left` prompt tokens the next context_decode should take: a device's piece or the
 * CPU's. */
uint32_t context_piece(const struct bmoe_session *s, uint32_t left);
/* Learns how the wide graph's nodes suit a device: calls on_node for each, computing nothing. */
int context_observe(struct bmoe_session *s, uint32_t n_tokens,
                    void (*on_node)(void *user, struct ggml_tensor *node), void *user,
                    struct bmoe_error *err);
/* The next graph is not to be like the last, whatever its shape. */
void context_forget_graph(struct bmoe_session *s);
/* Puts n tokens into the memory by a decode that computes nothing. False: it could not. */
bool context_occupy(struct bmoe_session *s, uint32_t n);
/* Cuts the memory to its first n tokens, or forgets all of it where that is not possible; answers
 * what is left. */
uint32_t context_keep(struct bmoe_session *s, uint32_t n);

/* context_size.c: what a context of these parameters takes at least, found without making it. */
uint64_t context_least_bytes(struct bmoe_session *s, const struct llama_context_params *p);
/* The sentence about one that takes so much; answers its code. */
int context_refuse(const struct bmoe_session *s, uint64_t bytes, const struct host_memory *host,
                   struct bmoe_error *err);

/* prefill_setup.c: opens the device that the options name, before the load; without one the options
 * lose their device. */
void prefill_open(struct bmoe_session *s);
/* With the graph learned: whether it was all the CPU's. Else the device is closed, with a line. */
bool prefill_leaves_the_host_alone(struct bmoe_session *s);
/* With the weights placed: the device's slots, loaders and types. A device that will not do costs a
 * line. */
int prefill_setup(struct bmoe_session *s, struct bmoe_error *err);
/* After a failed context_decode: true when the prompt is to be run again from its first token,
 * because the device is given up or was taught better. The memory is forgotten then. */
bool prefill_fall_back(struct bmoe_session *s, const struct bmoe_error *err);

/* prefill_plan.c: host memory that the device will take, before it is known exactly: at most. */
uint64_t prefill_plan_bytes(const struct bmoe_session *s);
/* Whether the device can have what a wide graph needs beside its layers; else DEVICE. To be asked
 * before libllama makes it. */
bool prefill_has_scratch(const struct bmoe_session *s, struct bmoe_error *err);
/* The number in a weight's name; LAYERS_NONE: it is no layer's. */
uint32_t prefill_layer_of(const char *name);
/* Device memory of this kind is the host's own. */
bool prefill_shares_memory(const struct bmoe_session *s);
unsigned prefill_n_slots(const struct bmoe_session *s);
uint64_t prefill_convert_limit(const struct bmoe_session *s);

/* prefill_memory.c: with a prefill device and the memory clear: lets the device reach the context's
 * memory, moving it where that is needed and safe; s->memory says. move_back: what the memory holds
 * is gone. drop: after the context. */
void prefill_memory_move(struct bmoe_session *s);
void prefill_memory_move_back(struct bmoe_session *s);
void prefill_memory_drop(struct bmoe_session *s);

/* plan.c: measures the machine and decides whether the session streams; refuses a resident one that
 * does not fit. Wants s->sums of a paged plan. */
int plan_decide(struct bmoe_session *s, struct bmoe_error *err);
/* With the weights added to the pager: the budget, the sum; says the plan; refuses below the floor.
 */
int plan_settle(struct bmoe_session *s, struct bmoe_error *err);
/* The mode line, after everything is in force. */
void plan_describe(struct bmoe_session *s);

/* options.c: checks *o and fills s->o with every default resolved. */
int options_resolve(struct bmoe_session *s, const struct bmoe_options *o, struct bmoe_error *err);
/* "f16" and so on; -1 when it is no KV type. */
int options_kv_type(const char *name);

/* A text to be tokenized. */
struct prompt_text {
    const char *text;
    size_t bytes;
    const struct bmoe_span *words; /* no special token is recognised in them */
    size_t n_words;
    bool add_special; /* the tokens that begin and end a text, where the model wants them */
};

/* prompt_words.c: the text's tokens in *out (the caller frees it); answers how many. MISUSE when
 * the words are not in order, or the text is longer than libllama takes. */
int prompt_words_tokenize(const struct bmoe_session *s, const struct prompt_text *p,
                          llama_token **out, struct bmoe_error *err);
/* prompt.c: the same for a text without words. */
int prompt_tokenize(struct bmoe_session *s, const char *text, size_t bytes, bool add_special,
                    llama_token **out, struct bmoe_error *err);
/* Makes the memory hold all but the last of the n prompt tokens' work: reuses the common prefix
 * when `reuse`, runs the rest in pieces of a ubatch, with logits for the last token. CONTEXT when n
 * is 0 or does not fit. */
int prompt_run(struct bmoe_session *s, const llama_token *tokens, uint32_t n, bool reuse,
               uint32_t stable, const struct bmoe_generate *g, struct bmoe_result *out,
               struct bmoe_error *err);

/* lens.c: scores of a decision's choices after each layer, for who asked. begin, the prompt's
 * graphs, tell when the logits are there, end. */
int lens_open(struct bmoe_session *s, struct bmoe_error *err);
void lens_close(struct bmoe_session *s);
void lens_begin(struct bmoe_session *s, uint32_t n_choices);
bool lens_node(struct bmoe_session *s, struct ggml_tensor *node, bool ask);
void lens_tell(struct bmoe_session *s, const llama_token *firsts);
void lens_end(struct bmoe_session *s);

/* trace.c: events for who asked. node: as the scheduler's callback; true: compute up to here. */
int trace_open(struct bmoe_session *s, struct bmoe_error *err);
void trace_close(struct bmoe_session *s);
void trace_graph_begin(struct bmoe_session *s, uint32_t n);
bool trace_node(struct bmoe_session *s, struct ggml_tensor *node, bool ask);
void trace_graph_end(struct bmoe_session *s);

/* progress.c: from now on, or with NULL no more, tell is called now and then while a wide graph
 * runs, with the part of its tokens that is done. node: as the scheduler's callback. */
void progress_tell_to(struct bmoe_session *s, void (*tell)(void *user, uint32_t tokens),
                      void *user);
void progress_graph_begin(struct bmoe_session *s, uint32_t n);
bool progress_node(struct bmoe_session *s, bool ask);

/* state.c: whether the memory can be cut at any token, and whether a copy can be: of a sliding
 * window's layers it has the window only. */
bool state_cuttable(const struct bmoe_session *s);
bool state_copy_cuttable(const struct bmoe_session *s);
/* Whether what a cut to n tokens leaves is whole: after a copy came back, windows may begin late.
 */
bool state_may_cut(const struct bmoe_session *s, uint32_t n);
/* Copies what the memory holds. False: it could not, and k is empty. */
bool state_save(struct bmoe_session *s, struct kv_state *k);
/* Makes the memory hold what k has. False: it could not; then memory and k are empty. */
bool state_restore(struct bmoe_session *s, struct kv_state *k);
void state_fini(struct kv_state *k);

/* perplexity.c: -log softmax(logits)[token]. */
double logits_surprise(const float *logits, uint32_t n_vocab, int32_t token);

/* grammar.c: MISUSE with the parser's reason when libllama cannot take the grammar. */
int grammar_check(const struct llama_vocab *vocab, const char *text, struct bmoe_error *err);
/* sampler.c: a chain for the request, or NULL with *err set. The caller frees it with
 * llama_sampler_free. */
struct llama_sampler *sampler_create(const struct bmoe_session *s, const struct bmoe_sampling *p,
                                     struct bmoe_error *err);

#endif
