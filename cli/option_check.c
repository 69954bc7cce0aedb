/*
 * What single options cannot know: missing parts and contradictions between options. Each rule is
 * one sentence that says the way out.
 */
#include "cli_error.h"
#include "options.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Two options that contradict each other when both are typed. */
struct pair {
    enum option_id a, b;
    const char *why;
};

static const struct pair excluded[] = {
    {OPT_PROMPT, OPT_FILE, "both give the prompt"},
    {OPT_SESSION, OPT_PROMPT, "the requests bring the prompts"},
    {OPT_SESSION, OPT_FILE, "the requests bring the prompts"},
    {OPT_SESSION, OPT_PPL, "a session answers requests"},
    {OPT_SESSION, OPT_PPL_LIST, "a session answers requests"},
    {OPT_PPL, OPT_PPL_LIST, "both name the texts"},
    {OPT_PPL_CHUNK, OPT_PPL_SKIP, "a window's first half is not scored"},
    {OPT_PPL_CHUNK, OPT_PPL_CHOICES, "choices follow a whole text"},
    {OPT_PPL_LIST, OPT_PROMPT, "the texts to score are the files'"},
    {OPT_PPL_LIST, OPT_FILE, "the texts to score are the files'"},
    {OPT_PPL_LIST, OPT_CHATML, "a text is scored as it is"},
    {OPT_MOE_STREAM, OPT_NO_MOE_STREAM, "one turns on what the other turns off"},
    {OPT_NO_MOE_STREAM, OPT_CACHE_MB, "experts kept in memory have no budget"},
    {OPT_NO_MOE_STREAM, OPT_CACHE_CEIL_MB, "experts kept in memory have no budget"},
    {OPT_NO_MOE_STREAM, OPT_LOAD_ALL, "experts kept in memory are not read again"},
    {OPT_PPL, OPT_PROMPT, "the text to score is the file's"},
    {OPT_PPL, OPT_FILE, "the text to score is the file's"},
    {OPT_PPL, OPT_CHATML, "the text is scored as it is"},
    {OPT_PPL, OPT_CHAT_FORMAT, "the text is scored as it is"},
    {OPT_PPL, OPT_NO_THINK, "the text is scored as it is"},
    {OPT_PPL, OPT_GRAMMAR_FILE, "nothing is generated"},
    {OPT_PPL, OPT_N_PREDICT, "nothing is generated"},
};

static int check_pairs(const struct cli_options *o, struct bmoe_error *err)
{
    for (size_t i = 0; i < sizeof(excluded) / sizeof(excluded[0]); i++) {
        const struct pair *p = &excluded[i];

        if (o->typed[p->a] && o->typed[p->b])
            return cli_error_set(err, BMOE_E_MISUSE, "%s and %s exclude each other: %s",
                                 option_table[p->a].name, option_table[p->b].name, p->why);
    }
    return 0;
}

static int check_budget(const struct cli_options *o, struct bmoe_error *err)
{
    bool bounds = o->typed[OPT_CACHE_FLOOR_MB] || o->typed[OPT_CACHE_CEIL_MB];

    if (o->cache_mb != BMOE_CACHE_AUTO && bounds)
        return cli_error_set(err, BMOE_E_MISUSE,
                             "--cache-floor-mb and --cache-ceil-mb bound --cache-mb auto and have "
                             "no part in --cache-mb %llu; leave one of the two out",
                             (unsigned long long)o->cache_mb);
    if (o->dense == OPTION_DENSE_AHWB)
        return cli_error_set(err, BMOE_E_MISUSE,
                             "--dense-weights ahwb exists on Android only, and there is no Android "
                             "build yet; use anon");
    return 0;
}

static int check_sizes(const struct cli_options *o, struct bmoe_error *err)
{
    static const enum option_id of_texts[] = {OPT_PPL_CHUNK, OPT_PPL_SKIP, OPT_PPL_STEP,
                                              OPT_PPL_CHOICES};

    if (o->ubatch > o->ctx_size)
        return cli_error_set(err, BMOE_E_MISUSE,
                             "--ubatch %u is wider than the context of %u tokens; raise --ctx-size "
                             "or lower --ubatch",
                             o->ubatch, o->ctx_size);
    for (size_t i = 0;
         o->ppl_file == NULL && o->ppl_list == NULL && i < sizeof(of_texts) / sizeof(of_texts[0]);
         i++) {
        if (o->typed[of_texts[i]])
            return cli_error_set(err, BMOE_E_MISUSE, "%s needs --ppl FILE, the text it is about",
                                 option_table[of_texts[i]].name);
    }
    if ((o->ppl_chunk > 0 && o->ppl_chunk < 4) || o->ppl_chunk > o->ctx_size)
        return cli_error_set(err, BMOE_E_MISUSE,
                             "--ppl-chunk %u must be 4 or more and fit the context of %u tokens; "
                             "see --ctx-size",
                             o->ppl_chunk, o->ctx_size);
    return 0;
}

/* The loopback devices of the tests have names like RPC0[127.0.0.1:50052]. */
static int check_device(const struct cli_options *o, struct bmoe_error *err)
{
    static const enum option_id parts[] = {OPT_PREFILL_MIN_TOKENS,  OPT_PREFILL_UBATCH,
                                           OPT_PREFILL_LOADERS,     OPT_NO_PREFILL_ROUTED,
                                           OPT_PREFILL_ROUTED_FULL, OPT_PREFILL_DENSE};
    const char *name = o->prefill_device;

    for (size_t i = 0; name == NULL && i < sizeof(parts) / sizeof(parts[0]); i++)
        if (o->typed[parts[i]])
            return cli_error_set(err, BMOE_E_MISUSE,
                                 "%s needs --prefill-device NAME, the device it is about",
                                 option_table[parts[i]].name);
    if (name != NULL &&
        (name[0] == '\0' || strncasecmp(name, "RPC", 3) == 0 || strpbrk(name, ":/[") != NULL))
        return cli_error_set(err, BMOE_E_MISUSE,
                             "--prefill-device takes the name of a device of this machine, not "
                             "'%s'; --list-devices lists them",
                             name);
    if (o->prefill_ubatch > o->ctx_size)
        return cli_error_set(err, BMOE_E_MISUSE,
                             "--prefill-ubatch %u is wider than the context of %u tokens; raise "
                             "--ctx-size or lower --prefill-ubatch",
                             o->prefill_ubatch, o->ctx_size);
    return 0;
}

static int check_decide(const struct cli_options *o, struct bmoe_error *err)
{
    if (o->decide && !o->session)
        return cli_error_set(err, BMOE_E_MISUSE,
                             "--decide needs --session: decisions are requests of a session");
    if (o->typed[OPT_DECIDE_PREFIX_CACHE] && !o->decide)
        return cli_error_set(err, BMOE_E_MISUSE, "--decide-prefix-cache needs --decide");
    if (o->decide_probe != NULL && !o->decide)
        return cli_error_set(err, BMOE_E_MISUSE, "--decide-probe needs --decide");
    if (o->decide_cache == BMOE_ON && o->prefill_device != NULL)
        return cli_error_set(err, BMOE_E_MISUSE,
                             "--decide-prefix-cache on and --prefill-device exclude each other: "
                             "with a device no state is kept");
    return 0;
}

static int check_chat(const struct cli_options *o, struct bmoe_error *err)
{
    bool prompt = o->prompt != NULL || o->prompt_file != NULL;
    enum option_id id = o->no_think ? OPT_NO_THINK : OPT_CHAT_FORMAT;

    if (prompt && !o->chatml && (o->no_think || o->chat_format >= 0))
        return cli_error_set(err, BMOE_E_MISUSE,
                             "%s shapes a chat turn, and a prompt is given as it is; add --chatml",
                             option_table[id].name);
    return 0;
}

/* ---- files that are written ---- */

/* Whether two paths name one regular file, which may not be there yet. */
static bool same_file(const char *a, const char *b)
{
    struct stat first, second;
    bool here = stat(a, &first) == 0;

    if (here != (stat(b, &second) == 0))
        return false;
    return here ? S_ISREG(first.st_mode) && first.st_dev == second.st_dev &&
                      first.st_ino == second.st_ino
                : strcmp(a, b) == 0;
}

static bool is_model(const char *path)
{
    struct stat st;
    char magic[4] = "";
    FILE *file = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rbe") : NULL;

    if (file != NULL) {
        bool read = fread(magic, sizeof(magic), 1, file) == 1;

        fclose(file);
        return read && memcmp(magic, "GGUF", sizeof(magic)) == 0;
    }
    return false;
}

/* A table or trace empties its file, so that may be no model, nothing that is read, and no other
 * table's. */
static int check_written(const struct cli_options *o, struct bmoe_error *err)
{
    enum { N_WRITTEN = 5 };
    const struct {
        enum option_id id;
        const char *path;
    } files[] = {{OPT_CSV, o->csv},
                 {OPT_ROUTE_TRACE, o->route_trace},
                 {OPT_IO_TRACE, o->io_trace},
                 {OPT_GRAPH_TRACE, o->graph_trace},
                 {OPT_DECIDE_PROBE, o->decide_probe},
                 {OPT_MODEL, o->model},
                 {OPT_FILE, o->prompt_file},
                 {OPT_GRAMMAR_FILE, o->grammar_file},
                 {OPT_PPL, o->ppl_file},
                 {OPT_PPL_LIST, o->ppl_list}};

    for (size_t i = 0; i < N_WRITTEN; i++) {
        const char *path = files[i].path;

        if (path != NULL && is_model(path))
            return cli_error_set(err, BMOE_E_MISUSE,
                                 "%s would overwrite %s, which is a model; give another file",
                                 option_table[files[i].id].name, path);
        for (size_t j = i + 1; path != NULL && j < sizeof(files) / sizeof(files[0]); j++) {
            if (files[j].path != NULL && same_file(path, files[j].path))
                return cli_error_set(err, BMOE_E_MISUSE,
                                     "%s and %s name the same file, %s, and the first empties it; "
                                     "give each its own",
                                     option_table[files[i].id].name, option_table[files[j].id].name,
                                     path);
        }
    }
    return 0;
}

/* Sampling options at temperature 0 do nothing, and that is said. */
static void note_greedy(const struct cli_options *o, options_note_fn *note, void *user)
{
    static const enum option_id sampled[] = {OPT_TOP_K, OPT_TOP_P, OPT_MIN_P, OPT_SEED};
    char line[128];

    for (size_t i = 0; o->temp <= 0 && i < sizeof(sampled) / sizeof(sampled[0]); i++) {
        if (o->typed[sampled[i]]) {
            snprintf(line, sizeof(line), "%s has no effect at temperature 0 (see --temp)",
                     option_table[sampled[i]].name);
            note(user, line);
        }
    }
}

int options_check(const struct cli_options *o, options_note_fn *note, void *user,
                  struct bmoe_error *err)
{
    int rc;

    if (o->action != CLI_RUN)
        return 0;
    if (o->model == NULL || o->model[0] == '\0')
        return cli_error_set(err, BMOE_E_MISUSE,
                             "there is no model; give a GGUF file with -m FILE");
    rc = check_pairs(o, err);
    if (rc == 0)
        rc = check_budget(o, err);
    if (rc == 0)
        rc = check_sizes(o, err);
    if (rc == 0)
        rc = check_device(o, err);
    if (rc == 0)
        rc = check_decide(o, err);
    if (rc == 0)
        rc = check_chat(o, err);
    if (rc == 0)
        rc = check_written(o, err);
    if (rc == 0)
        note_greedy(o, note, user);
    return rc;
}
