/*
 * The keys of the position encoding. The kernels that rotate a head's values assert that no more of
 * them are rotated than there are, and go round for ever where none are; the first graph that is
 * computed would be too late to find out.
 */
#include "model/gguf_parts.h"

#include <inttypes.h>
#include <string.h>

/* Widths as libllama makes them of the keys; 0: not known. */
struct widths {
    uint64_t head, head_swa;       /* a head's values; those of a sliding window's layers */
    uint64_t rotated, rotated_swa; /* of them rotated */
};

/* Element 0 of "<arch>.<suffix>", or `otherwise`. */
static uint64_t first_of(const struct gguf_index *x, const char *suffix, uint64_t otherwise)
{
    const struct gguf_value *v = gguf_meta_find_arch(&x->meta, x->arch, suffix);
    uint64_t value;
    return v && v->bits && v->n && gguf_value_u64(v, 0, &value) ? value : otherwise;
}

static void find_widths(const struct gguf_index *x, struct widths *w)
{
    uint64_t n_embd = first_of(x, "embedding_length", 0);
    uint64_t n_head = first_of(x, "attention.head_count", 0);
    w->head = first_of(x, "attention.key_length", n_head ? n_embd / n_head : 0);
    w->head_swa = first_of(x, "attention.key_length_swa", w->head);
    w->rotated = first_of(x, "rope.dimension_count", w->head);
    w->rotated_swa = first_of(x, "rope.dimension_count_swa", w->rotated);
}

/* Pairs are rotated: at least one, and no more of them than a head has. */
static int check_rotated(const struct gguf_index *x, const char *suffix, uint64_t n, uint64_t head,
                         struct bmoe_error *err)
{
    const struct gguf_value *v = gguf_meta_find_arch(&x->meta, x->arch, suffix);
    bool fits = head == 0 || n <= head;
    if (fits && (!v || (n > 0 && n % 2 == 0)))
        return 0;
    return gguf_refuse(err, x->shards[0].path,
                       "%s.%s is %" PRIu64 "%s, an even number up to the head's width of %" PRIu64
                       " is possible",
                       x->arch, suffix, n, v ? "" : " when left out", head);
}

/* The parts of a head that positions in several directions rotate. */
static int check_sections(const struct gguf_index *x, uint64_t head, struct bmoe_error *err)
{
    const struct gguf_value *v = gguf_meta_find_arch(&x->meta, x->arch, "rope.dimension_sections");
    uint64_t sum = 0;
    for (uint64_t i = 0; v && v->bits && i < v->n; i++) {
        int64_t value;
        if (!gguf_value_i64(v, i, &value))
            return 0;
        if (value < 0 || value > INT32_MAX)
            return gguf_refuse(err, x->shards[0].path, "%s has a part of %" PRId64, v->key, value);
        sum += (uint64_t)value;
    }
    if (head == 0 || sum <= head)
        return 0;
    return gguf_refuse(err, x->shards[0].path,
                       "%s has parts of %" PRIu64 " together, a head is %" PRIu64 " wide", v->key,
                       sum, head);
}

static int check_scaling(const struct gguf_index *x, struct bmoe_error *err)
{
    static const char *const kinds[] = {"none", "linear", "yarn", "longrope"};
    const struct gguf_value *v = gguf_meta_find_arch(&x->meta, x->arch, "rope.scaling.type");
    for (size_t i = 0; v && v->text && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(v->text, kinds[i]) == 0)
            return 0;
    if (!v || !v->text)
        return 0;
    return gguf_refuse(err, x->shards[0].path,
                       "%s is '%.40s'; none, linear, yarn and longrope are known", v->key, v->text);
}

int gguf_check_rope(const struct gguf_index *x, struct bmoe_error *err)
{
    struct widths w;
    find_widths(x, &w);
    int rc = check_rotated(x, "rope.dimension_count", w.rotated, w.head, err);
    if (rc == 0)
        rc = check_rotated(x, "rope.dimension_count_swa", w.rotated_swa, w.head_swa, err);
    if (rc == 0)
        rc = check_sections(x, w.head, err);
    return rc == 0 ? check_scaling(x, err) : rc;
}
