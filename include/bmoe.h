/*
 * bmoe: Mixture-of-Experts models larger than RAM on an unmodified llama.cpp.
 *
 * Nouns. A *session* is one open model with its context, its weights' memory (the pager) and its
 * counters. A *request* is one generate, decide or perplexity on a session. The *run key* is what
 * the bits of an answer depend on; bmoe_session_describe gives it.
 *
 * Threads. A session is used by one thread at a time, except bmoe_session_cancel, which any thread
 * may call at any time between open and close. Different sessions are independent. Callbacks run on
 * the thread that called the request.
 *
 * Errors. Calls answer 0 or more when fine, else a negative enum bmoe_code; those that take a
 * struct bmoe_error also fill it (it may be NULL): the code, what is still usable afterwards (its
 * scope), and one sentence that names the thing and the way out. Outputs are set on success only.
 * The library never exits, aborts or prints; what a person may want to read goes to
 * bmoe_options.log.
 *
 * Ownership. Strings given in are copied or used during the call only; strings and structs given
 * out by pointer belong to the session and live until its next call.
 *
 * Options structs begin with their own size (set by bmoe_*_init), so that programs built against an
 * older header go on working. Zero means the default that the member's comment names.
 */
#ifndef BMOE_H
#define BMOE_H

#include "bmoe_counters.h"
#include "bmoe_trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BMOE_API __attribute__((visibility("default")))
#else
#define BMOE_API
#endif

/* What went wrong. */
enum bmoe_code {
    BMOE_OK = 0,
    BMOE_E_MISUSE = -1,    /* an argument or option is wrong */
    BMOE_E_MODEL = -2,     /* the model file is damaged, hostile or not supported */
    BMOE_E_IO = -3,        /* reading or writing failed */
    BMOE_E_MEMORY = -4,    /* not enough memory, or the budget is below the floor */
    BMOE_E_CONTEXT = -5,   /* the prompt does not fit the context, or is empty */
    BMOE_E_CANCELLED = -6, /* bmoe_session_cancel was called */
    BMOE_E_DEVICE = -7,    /* an accelerator failed */
    BMOE_E_SEAM = -8,      /* libllama behaves otherwise than this library relies on */
    BMOE_E_INTERNAL = -9   /* our own mistake */
};

/* What an error leaves usable: after a request error the session goes on; after a session error
 * only bmoe_session_close is left; a process error would meet every session. */
enum bmoe_scope { BMOE_SCOPE_REQUEST = 0, BMOE_SCOPE_SESSION = 1, BMOE_SCOPE_PROCESS = 2 };

struct bmoe_error {
    int code; /* enum bmoe_code */
    enum bmoe_scope scope;
    char text[512]; /* one sentence, UTF-8, no newline at its end */
};

enum bmoe_log_level { BMOE_LOG_DEBUG = 0, BMOE_LOG_INFO = 1, BMOE_LOG_WARN = 2 };

/* One line for people, without prefix or newline. May be called from any thread. */
typedef void bmoe_log_fn(void *user, enum bmoe_log_level level, const char *line);

/* How experts reach the memory they are used in. BMOE_PLACE_AUTO chooses by what the kernel offers
 * and by what placing a page costs on this machine, measured when the session opens. */
enum bmoe_place {
    BMOE_PLACE_AUTO = 0,
    BMOE_PLACE_MOVE = 1, /* userfaultfd, UFFDIO_MOVE */
    BMOE_PLACE_COPY = 2, /* userfaultfd, UFFDIO_COPY */
    BMOE_PLACE_NONE = 3  /* memory that stays mapped; each expert matmul waits for its reads */
};

enum bmoe_tristate { BMOE_AUTO = 0, BMOE_ON = 1, BMOE_OFF = 2 };

enum bmoe_dense { BMOE_DENSE_ANON = 0, BMOE_DENSE_MMAP = 1, BMOE_DENSE_WARM = 2 };

/* Dense layer weights on a prefill device: kept there, or copied through the layers' slots. */
enum bmoe_prefill_dense {
    BMOE_PREFILL_DENSE_AUTO = 0, /* kept where the device has memory of its own and room in it */
    BMOE_PREFILL_DENSE_RESIDENT = 1,
    BMOE_PREFILL_DENSE_SLOTS = 2
};

#define BMOE_CACHE_AUTO      UINT64_MAX
#define BMOE_MIN_TOKENS_AUTO UINT32_MAX

struct bmoe_options {
    size_t size;
    const char *model;             /* path of a GGUF file, or of any shard of a split set */
    const char *backends_dir;      /* where ggml's CPU backends lie; NULL: beside libggml */
    uint32_t n_ctx;                /* context in tokens; 0: 2048 */
    uint32_t n_ubatch;             /* prompt tokens per graph; 0: 512 or the context if smaller */
    uint32_t n_threads;            /* decode; 0: the CPUs this process may use */
    uint32_t n_threads_batch;      /* prefill; 0: as n_threads */
    enum bmoe_tristate flash_attn; /* auto: as libllama decides */
    const char *cache_type_k;      /* "f16", "q8_0", ...; NULL: f16 */
    const char *cache_type_v;
    enum bmoe_tristate cpu_repack; /* ggml's faster CPU layouts; part of the run key */
    uint32_t n_expert_used;        /* 0: the model's own */

    enum bmoe_tristate stream;  /* auto: on when the model does not fit the memory */
    uint64_t cache_bytes;       /* budget of resident experts, staging included; 0 or
                                   BMOE_CACHE_AUTO: from the memory that is free */
    uint64_t cache_floor_bytes; /* memory left free by auto; 0: 1536 MiB */
    uint64_t cache_ceil_bytes;  /* upper bound of auto; 0: none */
    uint32_t n_readers;         /* reader threads, 1..16; 0: 4 */
    bool buffered;              /* read through the page cache, not O_DIRECT */
    enum bmoe_dense dense;
    bool load_all;         /* read every expert of a layer, not the routed ones */
    enum bmoe_place place; /* for tests and comparison */
    bool decide;           /* decisions will be asked for: room for a prefix's state is planned */
    enum bmoe_tristate prefix_cache; /* keep the state of the last decision's prefix; auto: on */

    /* Wide prompt graphs on a device. It is opened before the load; one that is not there or does
     * not open costs a line, and all is computed on the CPU. */
    const char *prefill_device;  /* name of a ggml device, "auto", or NULL: none */
    uint32_t prefill_min_tokens; /* narrower pieces stay on the CPU; at least 32; 0: 32;
                                    BMOE_MIN_TOKENS_AUTO: measured when the session opens */
    uint32_t prefill_ubatch;     /* prompt tokens per graph there; 0: as n_ubatch */
    uint32_t prefill_loaders;    /* threads that fill the device's memory, 1..64; 0: 8 */
    bool prefill_whole;          /* read every expert of a layer, not the routed ones */
    float prefill_routed_full;   /* part of a layer's experts above which the next one is read
                                    whole; 0: 0.85 */
    enum bmoe_prefill_dense prefill_dense;

    /* Traces; NULL: none. Called by the thread of the request, at the latest when a graph ends. */
    void (*on_route)(void *user, const struct bmoe_route *route);
    void (*on_read)(void *user, const struct bmoe_read *read);
    void (*on_node)(void *user, const struct bmoe_node *node);
    void *trace_user;

    bmoe_log_fn *log; /* NULL: nothing is said */
    void *log_user;
    /* Called now and then during a load with its part done, 0..1; NULL: none. */
    void (*progress)(void *user, float part);
    void *progress_user;
    /* A trace as those above: per layer of a decision, where the architecture lets it be had. */
    void (*on_lens)(void *user, const struct bmoe_lens *lens);
};

struct bmoe_session;

/* Fills *o with the defaults and its size. */
BMOE_API void bmoe_options_init(struct bmoe_options *o);

/* Opens a model. On success *out is a session that bmoe_session_close must end. */
BMOE_API int bmoe_session_open(struct bmoe_session **out, const struct bmoe_options *o,
                               struct bmoe_error *err);

/* Ends a session; NULL is fine. */
BMOE_API void bmoe_session_close(struct bmoe_session *s);

/* Facts of an open session. Strings belong to the session. */
struct bmoe_info {
    size_t size;
    const char *arch;          /* "qwen3moe" */
    const char *model_desc;    /* libllama's one-line description */
    const char *mode;          /* the mode line: what is in force, and the run key */
    const char *chat_template; /* the model's own template, or NULL */
    uint32_t n_ctx, n_ubatch, n_threads, n_threads_batch;
    uint32_t n_layer, n_expert, n_expert_used; /* n_expert 0: no experts */
    uint32_t n_vocab;
    bool streamed;
    enum bmoe_place place; /* the one in force when streamed */
    uint64_t expert_bytes, dense_bytes, budget_bytes, floor_bytes, planned_bytes;
    double load_s;
};
BMOE_API void bmoe_session_describe(struct bmoe_session *s, struct bmoe_info *out);

/* What is measured, since the session opened: one int64_t per row of the list, -1 where it is not
 * measured. Also allowed within the callbacks of a request. */
struct bmoe_stats {
    size_t size;
#define BMOE_COUNTER_MEMBER(member, kind, unit, key, phases, meaning, brief) int64_t member;
    BMOE_COUNTERS(BMOE_COUNTER_MEMBER)
#undef BMOE_COUNTER_MEMBER
};
BMOE_API void bmoe_session_stats(struct bmoe_session *s, struct bmoe_stats *out);

struct bmoe_sampling {
    float temp;           /* 0, or below 1e-5: greedy */
    int32_t top_k;        /* 0: off */
    float top_p;          /* 1: off */
    float min_p;          /* 0: off */
    float repeat_penalty; /* 1: off */
    uint32_t seed;        /* UINT32_MAX: from the system's entropy */
    const char *grammar;  /* GBNF, NULL: none */
};

/* The bytes of a text from begin up to, and without, end. */
struct bmoe_span {
    size_t begin, end;
};

struct bmoe_generate {
    size_t size;
    const char *prompt; /* UTF-8; special tokens in it are recognised, but not in `words` */
    size_t prompt_bytes;
    const struct bmoe_span *words; /* n_words parts of the prompt, in order, that somebody wrote: */
    size_t n_words;                /* they cannot imitate the marks of a chat format */
    const int32_t *tokens;         /* n_tokens of the model's own instead of a prompt, or NULL */
    size_t n_tokens;
    uint32_t n_predict; /* tokens at most; 0: until the context is full */
    bool ignore_eos;
    bool no_bos; /* the prompt brings its own first token */
    struct bmoe_sampling sampling;
    const char *const *stop; /* n_stop strings that end the answer and are not part of it */
    size_t n_stop;
    bool keep_kv;        /* reuse the common prefix of what the memory holds, else start anew */
    size_t stable_bytes; /* the prompt's beginning that the next one will have too; models whose
                            memory cannot be cut keep a state there. 0: the whole prompt */
    bool special; /* control tokens appear in the answer's text: the marks of a chat format */

    /* Called with each piece of the answer, whole UTF-8 characters; false ends the request as if
     * cancelled. NULL: none. */
    bool (*on_text)(void *user, const char *text, size_t bytes);
    /* Called after each token's logits are there: n_vocab floats of the last position. */
    void (*on_logits)(void *user, const float *logits, uint32_t n_vocab, bool prompt);
    /* Called before the first piece of the prompt, after each, and now and then within one, whose
     * tokens count by the part of its graph that is computed. */
    void (*on_prefill)(void *user, uint32_t tokens_done, uint32_t tokens_total);
    void *user;
    /* Called after each token of the answer, when on_text has had what it brought. NULL: none. */
    void (*on_token)(void *user, int32_t token);
};

struct bmoe_result {
    size_t size;
    const char *text; /* the whole answer; belongs to the session */
    size_t text_bytes;
    uint32_t n_prompt, n_reused, n_predicted;
    double prefill_s, decode_s, first_token_s;
    bool stopped_by_limit, stopped_by_string, cancelled;
    uint32_t n_past; /* tokens that the context holds now */
};

BMOE_API void bmoe_generate_init(struct bmoe_generate *g);

/* Runs one request. A cancelled one answers BMOE_E_CANCELLED with *out filled as far as it came. */
BMOE_API int bmoe_session_generate(struct bmoe_session *s, const struct bmoe_generate *g,
                                   struct bmoe_result *out, struct bmoe_error *err);

/* How many tokens the prompt of a request makes; it fits when that is less than n_ctx. */
BMOE_API int64_t bmoe_session_count_tokens(struct bmoe_session *s, const struct bmoe_generate *g,
                                           struct bmoe_error *err);

/* A decision: which of several texts the prompt goes on with, by the probability of their first
 * tokens. Choices whose first tokens coincide are refused, as are a prompt over the context and an
 * empty list, before anything is computed. */
struct bmoe_decide {
    size_t size;
    const char *prefix; /* what decisions have in common; its state is kept and used again */
    size_t prefix_bytes;
    const char *suffix;
    size_t suffix_bytes;
    const char *const *choices; /* n_choices of them, NUL-terminated */
    size_t n_choices;
    bool reuse_prefix; /* where the session keeps prefixes; the answer's bits are the same */
    /* As in bmoe_generate. */
    void (*on_prefill)(void *user, uint32_t tokens_done, uint32_t tokens_total);
    void *user;
};

struct bmoe_decide_result {
    size_t size;
    uint32_t best;             /* index of the likeliest choice */
    uint32_t n_choices;        /* 0 when it was cancelled */
    const double *choice_logp; /* log-probabilities, natural; -infinity is possible */
    uint32_t n_tokens, n_reused, n_prefilled;
    double restore_s, store_s, prefill_s;
    uint64_t prefix_state_bytes; /* kept now */
    bool cancelled;
};

BMOE_API void bmoe_decide_init(struct bmoe_decide *d);

/* Runs one decision. A cancelled one answers BMOE_E_CANCELLED with *out filled as far as it came.
 */
BMOE_API int bmoe_session_decide(struct bmoe_session *s, const struct bmoe_decide *d,
                                 struct bmoe_decide_result *out, struct bmoe_error *err);

struct bmoe_perplexity {
    size_t size;
    const char *text;
    size_t text_bytes;
    uint32_t chunk; /* windows of this many tokens, the second half of each scored, as
                       llama-perplexity does; 0: the whole text in one window, scored after skip */
    uint32_t skip;  /* leading tokens not scored when chunk is 0; 0: 8 */
    /* Called after each window, with the estimate so far. */
    void (*on_window)(void *user, uint32_t done, uint32_t total, double ppl);
    void *user;
    bool step; /* one graph per token, as in decode: other bits, and what decode costs */
    /* Called after each graph and now and then within one, with the tokens computed and the
     * estimate so far (0: none yet). */
    void (*on_progress)(void *user, uint32_t tokens_done, uint32_t tokens_total, double ppl);
};
struct bmoe_perplexity_result {
    size_t size;
    double ppl, nll;
    uint32_t n_scored, n_windows;
    double seconds;
};
BMOE_API int bmoe_session_perplexity(struct bmoe_session *s, const struct bmoe_perplexity *p,
                                     struct bmoe_perplexity_result *out, struct bmoe_error *err);

/* Ends the running request, within one layer; the next request is not touched. Any thread. */
BMOE_API void bmoe_session_cancel(struct bmoe_session *s);

/* Forgets what the context holds. */
BMOE_API void bmoe_session_clear(struct bmoe_session *s);

/* A device ggml finds on this machine. Strings live during the callback only. */
struct bmoe_device {
    size_t size;
    const char *name;        /* "CPU", "Vulkan0" */
    const char *kind;        /* "cpu", "gpu", "igpu" or "accel" */
    const char *description; /* its maker's words */
    uint64_t total_bytes, free_bytes;
};
/* Calls on_device for each; backends_dir as in bmoe_options. Needs no session, and must not run
 * while another thread opens one. */
BMOE_API int bmoe_devices_visit(const char *backends_dir,
                                void (*on_device)(void *user, const struct bmoe_device *device),
                                void *user, struct bmoe_error *err);

BMOE_API const char *bmoe_version(void);

#ifdef __cplusplus
}
#endif
#endif
