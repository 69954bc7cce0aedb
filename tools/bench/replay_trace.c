/*
 * Reading a route trace: see replay.h. Columns are found by name.
 */
#include "replay.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 32, MAX_LAYERS = 4096, MAX_EXPERTS = 1 << 16 };

enum column { TURN, PHASE, STEP, LAYER, N_EXPERT, EXPERT, BYTES, N_COLUMNS };
static const char *const column_names[N_COLUMNS] = {"turn",     "phase",  "step",        "layer",
                                                    "n_expert", "expert", "expert_bytes"};

/* The routing that is being read, so that each of its experts counts once. */
struct routing {
    unsigned long long key[4]; /* turn, phase, step, layer */
    size_t from;               /* its first item */
};

static int wrong(const char *path, unsigned long line, const char *what)
{
    fprintf(stderr, "bmoe-bench: %s, line %lu: %s\n", path, line, what);
    return -1;
}

static int read_names(char *line, int at[N_COLUMNS])
{
    char *rest = NULL;
    int i = 0;
    for (int c = 0; c < N_COLUMNS; c++)
        at[c] = -1;
    for (char *name = strtok_r(line, ",\r\n", &rest); name; name = strtok_r(NULL, ",\r\n", &rest)) {
        for (int c = 0; c < N_COLUMNS; c++)
            if (strcmp(name, column_names[c]) == 0)
                at[c] = i;
        i++;
    }
    for (int c = 0; c < N_COLUMNS; c++)
        if (at[c] < 0)
            return -1;
    return i <= MAX_COLUMNS ? 0 : -1;
}

static int read_row(char *line, const int at[N_COLUMNS], unsigned long long value[N_COLUMNS])
{
    char *rest = NULL;
    int i = 0, found = 0;
    for (char *text = strtok_r(line, ",\r\n", &rest); text;
         text = strtok_r(NULL, ",\r\n", &rest), i++)
        for (int c = 0; c < N_COLUMNS; c++)
            if (at[c] == i) {
                char *end;
                value[c] = strtoull(text, &end, 10);
                found += *end == '\0' && end != text;
            }
    return found == N_COLUMNS ? 0 : -1;
}

static int grow(struct replay_trace *t)
{
    size_t room = t->room * 2 + 4096;
    uint32_t *items = realloc(t->items, room * sizeof *items);
    if (items)
        t->items = items;
    uint8_t *marks = realloc(t->marks, room * sizeof *marks);
    if (marks)
        t->marks = marks;
    if (!items || !marks)
        return -1;
    t->room = room;
    return 0;
}

int replay_trace_init(struct replay_trace *t)
{
    *t = (struct replay_trace){.layer_bytes = malloc(MAX_LAYERS * sizeof *t->layer_bytes)};
    for (int i = 0; t->layer_bytes && i < MAX_LAYERS; i++)
        t->layer_bytes[i] = 1;
    return t->layer_bytes ? 0 : -1;
}

int replay_trace_add(struct replay_trace *t, uint32_t layer, uint32_t n_expert, uint32_t expert,
                     uint64_t bytes, unsigned marks)
{
    if (layer >= MAX_LAYERS || n_expert == 0 || n_expert > MAX_EXPERTS || expert >= n_expert ||
        (t->n_expert && t->n_expert < n_expert))
        return -1;
    if (!t->n_expert)
        t->n_expert = n_expert;
    if (t->n_layers <= layer)
        t->n_layers = layer + 1;
    if (bytes)
        t->layer_bytes[layer] = bytes;
    if (t->n == t->room && grow(t) < 0)
        return -1;
    t->items[t->n] = layer * t->n_expert + expert;
    t->marks[t->n++] = (uint8_t)marks;
    return 0;
}

/* In a prompt all tokens of a graph are one routing of a layer; in decode each token is. */
static int take_row(struct replay_trace *t, struct routing *r, const unsigned long long *v)
{
    unsigned long long key[4] = {v[TURN], v[PHASE], v[PHASE] ? v[STEP] : 0, v[LAYER]};
    unsigned marks = v[PHASE] ? 0 : REPLAY_PROMPT;
    if (v[LAYER] >= MAX_LAYERS || v[N_EXPERT] > MAX_EXPERTS || v[EXPERT] >= v[N_EXPERT])
        return -1;
    if (memcmp(key, r->key, sizeof key) != 0) {
        marks |= REPLAY_ROUTING;
        if (memcmp(key, r->key, 3 * sizeof *key) != 0)
            marks |= REPLAY_GRAPH;
        memcpy(r->key, key, sizeof key);
        r->from = t->n;
    }
    uint32_t item = (uint32_t)(v[LAYER] * (t->n_expert ? t->n_expert : v[N_EXPERT]) + v[EXPERT]);
    for (size_t i = r->from; i < t->n; i++)
        if (t->items[i] == item)
            return 0;
    return replay_trace_add(t, (uint32_t)v[LAYER], (uint32_t)v[N_EXPERT], (uint32_t)v[EXPERT],
                            v[BYTES], marks);
}

/* From the end: when each item is used again, and which occur at all. */
int replay_trace_finish(struct replay_trace *t)
{
    size_t n_items = (size_t)t->n_layers * t->n_expert;
    uint32_t *last = malloc(n_items * sizeof *last);
    t->next = malloc((t->n + 1) * sizeof *t->next);
    if (!last || !t->next) {
        free(last);
        return -1;
    }
    memset(last, 0xff, n_items * sizeof *last);
    for (size_t i = t->n; i-- > 0;) {
        t->next[i] = last[t->items[i]];
        last[t->items[i]] = (uint32_t)i;
    }
    for (size_t i = 0; i < n_items; i++)
        if (last[i] != UINT32_MAX)
            t->total_bytes += t->layer_bytes[i / t->n_expert];
    free(last);
    return 0;
}

static int read_lines(struct replay_trace *t, FILE *file, const char *path)
{
    char line[1024];
    int at[N_COLUMNS];
    bool named = false;
    unsigned long n = 0;
    struct routing r = {.key = {~0ULL}};
    while (fgets(line, sizeof line, file)) {
        unsigned long long value[N_COLUMNS] = {0};
        n++;
        if (line[0] == '#')
            continue;
        if (!named && read_names(line, at) < 0)
            return wrong(path, n, "these are not the columns of a route trace");
        if (named && (read_row(line, at, value) < 0 || take_row(t, &r, value) < 0))
            return wrong(path, n, "this is no row of a route trace");
        named = true;
    }
    return t->n && t->n < UINT32_MAX ? 0 : wrong(path, n, "the trace has no rows");
}

int replay_trace_read(struct replay_trace *t, const char *path)
{
    bool ready = replay_trace_init(t) == 0;
    FILE *file = fopen(path, "re");
    int rc = -1;
    if (!file) {
        perror(path);
    } else if (ready) {
        rc = read_lines(t, file, path);
    }
    if (file)
        fclose(file);
    if (rc == 0 && replay_trace_finish(t) < 0)
        rc = wrong(path, 0, "no memory");
    if (rc < 0)
        replay_trace_fini(t);
    return rc;
}

void replay_trace_fini(struct replay_trace *t)
{
    free(t->items);
    free(t->marks);
    free(t->next);
    free(t->layer_bytes);
    *t = (struct replay_trace){0};
}
