/*
 * Split sets: PREFIX-00001-of-0000N.gguf. Any shard's path names the set; the paths are made from
 * the given one by its text alone, so a folder of symbolic links works as given. The keys split.no,
 * split.count and split.tensors.count have to agree with the names.
 */
#include "model/gguf_parts.h"

#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX_BYTES 20 /* "-00001-of-00002.gguf" */
#define MAX_SHARDS   4096

/* Five digits at s; -1 when they are not. */
static int number5(const char *s)
{
    int n = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        n = n * 10 + (s[i] - '0');
    }
    return n;
}

/* The shard's number (from 1) and their count out of a name; false when it is not a shard's. */
static bool parse_name(const char *path, int *number, int *count)
{
    size_t n = strlen(path);
    if (n < SUFFIX_BYTES)
        return false;
    const char *s = path + n - SUFFIX_BYTES;
    if (s[0] != '-' || memcmp(s + 6, "-of-", 4) != 0 || strcmp(s + 15, ".gguf") != 0)
        return false;
    *number = number5(s + 1);
    *count = number5(s + 10);
    return *number >= 1 && *count >= 1 && *number <= *count;
}

/* Writes the numbers of the missing shards as "2-5, 7". */
static void list_missing(const bool *missing, uint32_t n, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < n && used + 32 < bytes; i++) {
        uint32_t last = i;
        if (!missing[i])
            continue;
        while (last + 1 < n && missing[last + 1])
            last++;
        used += (size_t)snprintf(out + used, bytes - used, "%s%u", used ? ", " : "", i + 1);
        if (last > i)
            used += (size_t)snprintf(out + used, bytes - used, "-%u", last + 1);
        i = last;
    }
}

static int check_all_there(const struct gguf_index *x, struct bmoe_error *err)
{
    bool missing[MAX_SHARDS];
    uint32_t n_missing = 0, first = 0;
    for (uint32_t i = 0; i < x->n_shards; i++) {
        missing[i] = access(x->shards[i].path, F_OK) != 0;
        if (missing[i] && n_missing++ == 0)
            first = i;
    }
    if (n_missing == 0)
        return 0;
    char list[200];
    list_missing(missing, x->n_shards, list, sizeof list);
    return gguf_refuse(err, x->shards[first].path,
                       "shard%s %s of %u %s missing; all of them belong in one folder",
                       n_missing > 1 ? "s" : "", list, x->n_shards, n_missing > 1 ? "are" : "is");
}

int gguf_split_paths(struct gguf_index *x, const char *path, struct bmoe_error *err)
{
    int number = 1, count = 1;
    size_t n = strlen(path);
    bool is_split = parse_name(path, &number, &count) && count > 1;
    if (!is_split)
        count = 1;
    if (count > MAX_SHARDS)
        return gguf_refuse(err, path, "is one of %d shards, at most %d are possible", count,
                           MAX_SHARDS);
    x->shards = calloc((size_t)count, sizeof *x->shards);
    if (!x->shards)
        return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for %d shards", count);
    for (int i = 0; i < count; i++) {
        char *p = strings_alloc(&x->strings, n + 1);
        if (!p)
            return error_set(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, "no memory for a path");
        memcpy(p, path, n + 1);
        if (is_split) {
            char digits[16];
            snprintf(digits, sizeof digits, "%05d", i + 1);
            memcpy(p + n - SUFFIX_BYTES + 1, digits, 5);
        }
        x->shards[i].path = p;
        x->n_shards = (uint32_t)i + 1;
    }
    /* A single file that is not there is the open call's to name. */
    return is_split ? check_all_there(x, err) : 0;
}

/* A split.* key's value: def when absent; refused unless of the type libllama asks for. */
static int split_value(const struct gguf_meta *m, const char *path, const char *key, uint32_t type,
                       int64_t def, int64_t *out, struct bmoe_error *err)
{
    const struct gguf_value *v = gguf_meta_find(m, key);
    *out = def;
    if (!v)
        return 0;
    if (v->type != type || !gguf_value_i64(v, 0, out))
        return gguf_refuse(err, path, "%s is of type %s, %s is needed", key,
                           gguf_type_text(v->type), gguf_type_text(type));
    return 0;
}

int gguf_split_check(const struct gguf_index *x, uint32_t i, const struct gguf_meta *m,
                     struct bmoe_error *err)
{
    const char *path = x->shards[i].path;
    int64_t number, count;
    /* Only the first shard has to say how many there are. */
    int rc = split_value(m, path, "split.count", GGUF_U16, i == 0 ? 0 : x->n_shards, &count, err);
    if (rc < 0 || (rc = split_value(m, path, "split.no", GGUF_U16, 0, &number, err)) < 0)
        return rc;
    if (x->n_shards == 1) {
        if (count > 1)
            return gguf_refuse(err, path,
                               "is one of %" PRId64 " shards, whose names must end in "
                               "-00001-of-%05" PRId64 ".gguf",
                               count, count);
        return 0;
    }
    if (!gguf_meta_find(m, "split.no"))
        return gguf_refuse(err, path, "is named as a shard, but has no key split.no");
    if (count != x->n_shards)
        return gguf_refuse(err, path,
                           "is named as one of %u shards, but says it is one of %" PRId64,
                           x->n_shards, count);
    if (number != i)
        return gguf_refuse(err, path, "is named as shard %u, but says it is shard %" PRId64, i + 1,
                           number + 1);
    return 0;
}

int gguf_split_check_total(const struct gguf_index *x, struct bmoe_error *err)
{
    int64_t total;
    int rc = split_value(&x->meta, x->shards[0].path, "split.tensors.count", GGUF_I32, x->n_tensors,
                         &total, err);
    if (rc < 0 || x->n_shards == 1)
        return rc;
    if (total != x->n_tensors)
        return gguf_refuse(err, x->shards[0].path,
                           "the set should have %" PRId64 " tensors, its shards have %u", total,
                           x->n_tensors);
    return 0;
}
