/*
 * Everything the index refuses, by the sentence it refuses it with. Most cases are a good toy model
 * with one thing changed; the toy itself is accepted, so that each change is what is refused. One
 * table of cases, longer than other files because it is read by looking up a sentence in it.
 */
#include "gguf_build.h"
#include "model/gguf_index.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define TOY "refusal-toy.gguf"

enum { U16 = 2, I16 = 3, U32 = 4, I32 = 5, F32 = 6, STR = 8, ARR = 9, LEAVE_OUT = 99 };

/* One metadata value instead of the toy's, or beside them. */
struct change {
    const char *key;
    uint32_t type; /* ARR: an array of n times value, of type item */
    uint64_t value;
    const char *text;
    uint32_t item, n;
};

struct tensor {
    const char *name;
    uint32_t n_dims;
    int64_t ne[5];
    uint32_t type;
    uint64_t bytes;
};

struct refusal {
    const char *name;
    struct change changes[3];
    struct tensor tensor;                /* instead of the last one */
    void (*patch)(struct gguf_build *b); /* the header's bytes, before they are written */
    int64_t cut;                         /* bytes written; 0: all; negative: from the end */
    const char *says;                    /* NULL: accepted */
};

static const struct change toy_values[] = {
    {"general.architecture", STR, .text = "toy"},
    {"toy.block_count", U32, .value = 1},
    {"toy.embedding_length", U32, .value = 32},
    {"toy.expert_count", U32, .value = 4},
    {"toy.expert_used_count", U32, .value = 2},
    {"tokenizer.ggml.model", STR, .text = "gpt2"},
    {"tokenizer.ggml.tokens", ARR, .item = STR, .n = 16},
    {"tokenizer.ggml.token_type", ARR, .item = I32, .n = 16, .value = 1},
};
static const struct tensor toy_tensors[] = {
    {"token_embd.weight", 2, {32, 16}, 0, 2048},
    {"blk.0.ffn_up_exps.weight", 3, {32, 8, 4}, 0, 4096},
};

static void put_item(struct gguf_build *b, uint32_t type, uint64_t value, uint32_t i)
{
    char text[32];
    if (type == STR) { /* tokens a0, a1, ...: no two alike unless value says so */
        snprintf(text, sizeof text, "a%u", value ? 0 : i);
        gguf_build_text(b, text);
    } else if (type == U16 || type == I16) {
        uint16_t half = (uint16_t)value;
        gguf_build_raw(b, &half, 2);
    } else if (type == 10) {
        gguf_build_u64(b, value);
    } else {
        gguf_build_u32(b, (uint32_t)value);
    }
}

static void put_change(struct gguf_build *b, const struct change *c)
{
    if (c->type == LEAVE_OUT)
        return;
    if (c->type == ARR) {
        gguf_build_key_array(b, c->key, c->item, c->n);
        for (uint32_t i = 0; i < c->n; i++)
            put_item(b, c->item, c->value, i);
    } else if (c->text) {
        gguf_build_key_text(b, c->key, c->text);
    } else {
        gguf_build_key(b, c->key, c->type);
        put_item(b, c->type, c->value, 0);
    }
}

static const struct change *changed(const struct refusal *r, const char *key)
{
    for (int i = 0; i < 3; i++)
        if (r->changes[i].key && strcmp(r->changes[i].key, key) == 0)
            return &r->changes[i];
    return NULL;
}

static void write_toy(const struct refusal *r, const char *path)
{
    struct gguf_build b;
    gguf_build_begin(&b);
    for (size_t i = 0; i < sizeof toy_values / sizeof *toy_values; i++) {
        const struct change *c = changed(r, toy_values[i].key);
        put_change(&b, c ? c : &toy_values[i]);
    }
    for (int i = 0; i < 3; i++) {
        bool is_toys = false;
        for (size_t k = 0; k < sizeof toy_values / sizeof *toy_values; k++)
            is_toys |= r->changes[i].key && strcmp(r->changes[i].key, toy_values[k].key) == 0;
        if (r->changes[i].key && !is_toys)
            put_change(&b, &r->changes[i]);
    }
    for (int i = 0; i < 2; i++) {
        const struct tensor *t = i == 1 && r->tensor.name ? &r->tensor : &toy_tensors[i];
        gguf_build_tensor(&b, t->name, t->n_dims, t->ne, t->type, t->bytes);
    }
    if (r->patch)
        r->patch(&b);
    uint64_t all = gguf_build_bytes(&b);
    gguf_build_write_cut(&b, path, r->cut > 0 ? (uint64_t)r->cut : all - (uint64_t)-r->cut);
    gguf_build_free(&b);
}

/* ---- the header's bytes ---- */

static void set_version(struct gguf_build *b, uint32_t version)
{
    memcpy(b->bytes + 4, &version, 4);
}

static void bad_magic(struct gguf_build *b)
{
    memcpy(b->bytes, "GGML", 4);
}

static void version_0(struct gguf_build *b)
{
    set_version(b, 0);
}

static void version_1(struct gguf_build *b)
{
    set_version(b, 1);
}

static void version_2(struct gguf_build *b)
{
    set_version(b, 2);
}

static void version_4(struct gguf_build *b)
{
    set_version(b, 4);
}

static void big_endian(struct gguf_build *b)
{
    set_version(b, 0x03000000);
}

static void many_keys(struct gguf_build *b)
{
    b->n_values = 1ull << 63;
}

static void many_tensors(struct gguf_build *b)
{
    b->n_tensors = 1ull << 63;
}

static void some_more_tensors(struct gguf_build *b)
{
    b->n_tensors += 1;
}

/* The number before the end of the header: the last tensor's offset. */
static void set_last_offset(struct gguf_build *b, uint64_t offset)
{
    memcpy(b->bytes + b->n - 8, &offset, 8);
}

static void overlapping(struct gguf_build *b)
{
    set_last_offset(b, 1024);
}

static void with_a_gap(struct gguf_build *b)
{
    set_last_offset(b, 4096);
}

static void far_away(struct gguf_build *b)
{
    set_last_offset(b, UINT64_MAX - 31);
}

#define EXPS "blk.0.ffn_up_exps.weight"

static const struct refusal refusals[] = {
    {.name = "the toy itself"},
    {.name = "version 2", .patch = version_2},
    {.name = "magic", .patch = bad_magic, .says = "is not a GGUF file"},
    {.name = "three bytes", .cut = 3, .says = "is not a GGUF file"},
    {.name = "version 0", .patch = version_0, .says = "version 0"},
    {.name = "version 1", .patch = version_1, .says = "version 1"},
    {.name = "version 4", .patch = version_4, .says = "version 4"},
    {.name = "big-endian", .patch = big_endian, .says = "big-endian"},
    {.name = "2^63 keys", .patch = many_keys, .says = "claims 9223372036854775808 metadata keys"},
    {.name = "2^63 tensors", .patch = many_tensors, .says = "claims 9223372036854775808 tensors"},
    {.name = "a tensor more", .patch = some_more_tensors, .says = ""},
    {.name = "cut in the preamble", .cut = 20, .says = "truncated"},
    {.name = "cut in the keys", .cut = 100, .says = "truncated"},
    {.name = "cut in the data", .cut = -1, .says = "reaches beyond the file's"},
    {.name = "cut at the first tensor's end", .cut = -4096, .says = "'" EXPS "' reaches beyond"},
    {.name = "cut at the data", .cut = -6144, .says = "'token_embd.weight' reaches beyond"},

    {.name = "a key twice",
     .changes = {{"x.y", U32, .value = 1}, {"x.y", U32, .value = 1}},
     .says = "key 'x.y' twice"},
    {.name = "an empty key", .changes = {{"", U32, .value = 1}}, .says = "key without a name"},
    {.name = "an unknown type", .changes = {{"x", 13, .value = 1}}, .says = "unknown type 13"},
    {.name = "an array of arrays",
     .changes = {{"x", ARR, .item = ARR, .n = 0}},
     .says = "array of arrays"},
    {.name = "an array of an unknown type",
     .changes = {{"x", ARR, .item = 77, .n = 0}},
     .says = "unknown type 77"},
    {.name = "control characters in a name",
     .changes = {{"x\n\x1b", 13, .value = 1}},
     .says = "key 'x?\?'"},
    {.name = "a name that is not UTF-8",
     .changes = {{"x\xff", 13, .value = 1}},
     .says = "key 'x?'"},

    {.name = "alignment 64 or none", .changes = {{"general.alignment", U32, .value = 32}}},
    {.name = "alignment 0",
     .changes = {{"general.alignment", U32, .value = 0}},
     .says = "alignment is 0"},
    {.name = "alignment 48",
     .changes = {{"general.alignment", U32, .value = 48}},
     .says = "power of two"},
    {.name = "alignment 8",
     .changes = {{"general.alignment", U32, .value = 8}},
     .says = "between 32 and"},
    {.name = "alignment 2^31",
     .changes = {{"general.alignment", U32, .value = 1u << 31}},
     .says = "power of two"},
    {.name = "alignment of another type",
     .changes = {{"general.alignment", I32, .value = 32}},
     .says = "is of type i32, u32 is needed"},

    {.name = "no dimension", .tensor = {EXPS, 0, {0}, 0, 4096}, .says = "has 0 dimensions"},
    {.name = "five dimensions",
     .tensor = {EXPS, 5, {32, 8, 4, 1, 1}, 0, 4096},
     .says = "has 5 dimensions"},
    {.name = "a dimension of 0",
     .tensor = {EXPS, 3, {32, 0, 4}, 0, 4096},
     .says = "impossible dimension, 0"},
    {.name = "a negative dimension",
     .tensor = {EXPS, 3, {32, -8, 4}, 0, 4096},
     .says = "impossible dimension"},
    {.name = "dimensions that overflow",
     .tensor = {EXPS, 3, {INT64_C(1) << 32, INT64_C(1) << 32, 4}, 0, 4096},
     .says = "impossible dimension"},
    {.name = "bytes that overflow",
     .tensor = {EXPS, 3, {INT64_C(1) << 60, 4, 1}, 0, 4096},
     .says = "larger than any file"},
    {.name = "an unknown tensor type",
     .tensor = {EXPS, 3, {32, 8, 4}, 4, 4096},
     .says = "unknown type 4"},
    {.name = "a tensor type of the future",
     .tensor = {EXPS, 3, {32, 8, 4}, 0x7fffffff, 4096},
     .says = "unknown type 2147483647"},
    {.name = "rows that are no whole blocks",
     .tensor = {EXPS, 3, {48, 8, 4}, 2, 4096},
     .says = "not a multiple of the block of 32"},
    {.name = "a tensor without a name",
     .tensor = {"", 3, {32, 8, 4}, 0, 4096},
     .says = "tensor without a name"},
    {.name = "a tensor name of 64 bytes",
     .tensor =
         {"0123456789012345678901234567890123456789012345678901234567890123", 1, {32}, 0, 128},
     .says = "a tensor name of 64 bytes is too long"},
    {.name = "a tensor twice",
     .tensor = {"token_embd.weight", 2, {32, 16}, 0, 2048},
     .says = "'token_embd.weight' twice"},
    {.name = "overlapping tensors", .patch = overlapping, .says = "begins at 1024 of the data"},
    {.name = "a gap between tensors", .patch = with_a_gap, .says = "begins at 4096 of the data"},
    {.name = "an offset that overflows", .patch = far_away, .says = "begins at 184467440737095"},

    {.name = "a bias in halves",
     .tensor = {"blk.0.ffn_up_exps.bias", 2, {32, 4}, 1, 256},
     .says = "'blk.0.ffn_up_exps.bias' is of type 1, where only F32"},
    {.name = "no layers",
     .changes = {{"toy.block_count", U32, .value = 0}},
     .says = "block_count is 0"},
    {.name = "513 layers",
     .changes = {{"toy.block_count", U32, .value = 513}},
     .says = "block_count is 513"},
    {.name = "2^63 layers",
     .changes = {{"toy.block_count", 10, .value = 1ull << 63}},
     .says = "block_count is"},
    {.name = "400 layers of one",
     .changes = {{"toy.block_count", U32, .value = 400}},
     .says = "the last layer there is 0"},
    {.name = "more prediction layers than layers",
     .changes = {{"toy.nextn_predict_layers", U32, .value = 2}},
     .says = "of only 1 layers"},
    {.name = "1025 experts",
     .changes = {{"toy.expert_count", U32, .value = 1025}},
     .says = "expert_count is 1025"},
    {.name = "other experts than there are",
     .changes = {{"toy.expert_count", U32, .value = 8}},
     .says = "holds 4 experts, toy.expert_count is 8"},
    {.name = "no expert used",
     .changes = {{"toy.expert_used_count", U32, .value = 0}},
     .says = "expert_used_count is 0"},
    {.name = "expert_used_count left out",
     .changes = {{"toy.expert_used_count", LEAVE_OUT}},
     .says = "expert_used_count is 0"},
    {.name = "more used than there are",
     .changes = {{"toy.expert_used_count", U32, .value = 5}},
     .says = "expert_used_count is 5"},
    {.name = "more used than there are, per layer",
     .changes = {{"toy.expert_used_count", ARR, 5, .item = U32, .n = 1}},
     .says = "expert_used_count is 5"},
    {.name = "experts used of none",
     .changes = {{"toy.expert_count", LEAVE_OUT}},
     .says = "while expert_count is 0"},
    {.name = "two groups of experts, one used",
     .changes = {{"toy.expert_group_count", U32, .value = 2},
                 {"toy.expert_group_used_count", U32, .value = 1}}},
    {.name = "three groups of four experts",
     .changes = {{"toy.expert_group_count", U32, .value = 3}},
     .says = "cannot be divided into 3 groups"},
    {.name = "no group used",
     .changes = {{"toy.expert_group_count", U32, .value = 2}},
     .says = "of which 0 are used"},
    {.name = "another width",
     .changes = {{"toy.embedding_length", U32, .value = 64}},
     .says = "token_embd.weight is 32 wide"},
    {.name = "a negative epsilon",
     .changes = {{"toy.attention.layer_norm_rms_epsilon", F32, .value = 0xbf800000}},
     .says = "epsilon is -1"},
    {.name = "an epsilon that is no number",
     .changes = {{"toy.attention.layer_norm_rms_epsilon", F32, .value = 0x7fc00000}},
     .says = "epsilon is nan"},
    {.name = "half a pair rotated",
     .changes = {{"toy.rope.dimension_count", U32, .value = 31}},
     .says = "rope.dimension_count is 31"},
    {.name = "more rotated than a head has",
     .changes = {{"toy.rope.dimension_count", U32, .value = 64},
                 {"toy.attention.key_length", U32, .value = 32}},
     .says = "rope.dimension_count is 64"},
    {.name = "nothing rotated",
     .changes = {{"toy.rope.dimension_count", U32, .value = 0}},
     .says = "rope.dimension_count is 0"},
    {.name = "more rotated than a head has by the number of heads",
     .changes = {{"toy.rope.dimension_count", U32, .value = 16},
                 {"toy.attention.head_count", U32, .value = 4}},
     .says = "up to the head's width of 8"},
    {.name = "more rotated than a window's heads have",
     .changes = {{"toy.rope.dimension_count", U32, .value = 16},
                 {"toy.attention.key_length", U32, .value = 32},
                 {"toy.attention.key_length_swa", U32, .value = 8}},
     .says = "rope.dimension_count_swa is 16 when left out"},
    {.name = "nothing of a window's heads rotated",
     .changes = {{"toy.rope.dimension_count_swa", U32, .value = 0}},
     .says = "rope.dimension_count_swa is 0"},
    {.name = "parts beyond the head",
     .changes = {{"toy.rope.dimension_sections", ARR, .item = I32, .n = 4, .value = 11},
                 {"toy.attention.key_length", U32, .value = 32}},
     .says = "parts of 44 together"},
    {.name = "a negative part",
     .changes = {{"toy.rope.dimension_sections", ARR, .item = I32, .n = 4, .value = 0xffffffff}},
     .says = "a part of -1"},
    {.name = "parts that fit",
     .changes = {{"toy.rope.dimension_sections", ARR, .item = I32, .n = 4, .value = 8},
                 {"toy.attention.key_length", U32, .value = 32}}},
    {.name = "an unknown rope scaling",
     .changes = {{"toy.rope.scaling.type", STR, .text = "curly"}},
     .says = "'curly'"},

    {.name = "no tokenizer",
     .changes = {{"tokenizer.ggml.model", STR, .text = "none"}},
     .says = "has no vocabulary"},
    {.name = "no tokens",
     .changes = {{"tokenizer.ggml.tokens", ARR, .item = STR, .n = 0},
                 {"tokenizer.ggml.token_type", LEAVE_OUT}},
     .says = "vocabulary of 0 tokens"},
    {.name = "tokens that are numbers",
     .changes = {{"tokenizer.ggml.tokens", ARR, .item = U32, .n = 16}},
     .says = "tokens is not an array of string"},
    {.name = "tokens that are one string",
     .changes = {{"tokenizer.ggml.tokens", STR, .text = "a"}},
     .says = "tokens is not an array of string"},
    {.name = "a token twice",
     .changes = {{"tokenizer.ggml.tokens", ARR, 1, .item = STR, .n = 16}},
     .says = "token 1, 'a0', is in the vocabulary twice"},
    {.name = "too few token types",
     .changes = {{"tokenizer.ggml.token_type", ARR, 1, .item = I32, .n = 15}},
     .says = "15 entries for a vocabulary of 16"},
    {.name = "token types of another type",
     .changes = {{"tokenizer.ggml.token_type", ARR, 1, .item = F32, .n = 16}},
     .says = "token_type is not an array of i32"},
    {.name = "too few scores",
     .changes = {{"tokenizer.ggml.scores", ARR, 0, .item = F32, .n = 3}},
     .says = "3 entries for a vocabulary of 16"},
    {.name = "merges that are numbers",
     .changes = {{"tokenizer.ggml.merges", ARR, 0, .item = F32, .n = 3}},
     .says = "merges is not an array of string"},
    {.name = "a byte without a token",
     .changes = {{"tokenizer.ggml.model", STR, .text = "llama"}},
     .says = "no token for the byte 0x00"},
    {.name = "a byte without rwkv's token",
     .changes = {{"tokenizer.ggml.model", STR, .text = "rwkv"}},
     .says = "no token for the byte 0x00"},
    {.name = "a tokenizer of models that do not write",
     .changes = {{"tokenizer.ggml.model", STR, .text = "bert"}},
     .says = "has bert's tokenizer"},

    {.name = "a shard under another name",
     .changes = {{"split.count", U16, .value = 3}},
     .says = "one of 3 shards, whose names must end in -00001-of-00003.gguf"},
    {.name = "split.count of another type",
     .changes = {{"split.count", I32, .value = 0}},
     .says = "split.count is of type i32, u16 is needed"},
};

static void expect(const char *name, const char *path, int code, const char *says)
{
    struct gguf_index *x = NULL;
    struct bmoe_error err = {0};
    int rc = gguf_index_open(&x, path, &err);
    if (!says) {
        if (rc != 0)
            fail_msg("%s: refused: %s", name, err.text);
        gguf_index_close(x);
        return;
    }
    if (rc != code || err.code != code || x)
        fail_msg("%s: answered %d (%s)", name, rc, err.text);
    if (!strstr(err.text, says) || !strstr(err.text, path) || strpbrk(err.text, "\n\r\x1b"))
        fail_msg("%s: says \"%s\"", name, err.text);
}

static void each_is_refused_by_its_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        write_toy(&refusals[i], TOY);
        expect(refusals[i].name, TOY, BMOE_E_MODEL, refusals[i].says);
    }
    unlink(TOY);
}

static void cut_anywhere_it_is_refused(void **state)
{
    (void)state;
    struct refusal whole = {0};
    struct stat st;
    write_toy(&whole, TOY);
    assert_int_equal(stat(TOY, &st), 0);
    for (off_t n = st.st_size - 1; n > 0; n = n > 2048 ? n - 64 : n - 1) {
        assert_int_equal(truncate(TOY, n), 0);
        expect("cut", TOY, BMOE_E_MODEL, "");
    }
    unlink(TOY);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    mkdir("refusal-folder", 0755);
    expect("a folder", "refusal-folder", BMOE_E_MODEL, "is a folder");
    rmdir("refusal-folder");
    fclose(fopen("refusal-empty.gguf", "w"));
    expect("empty", "refusal-empty.gguf", BMOE_E_MODEL, "is empty");
    unlink("refusal-empty.gguf");
    expect("missing", "refusal-none.gguf", BMOE_E_IO, "cannot be opened");
    assert_int_equal(mkfifo("refusal-fifo", 0600), 0);
    expect("a FIFO", "refusal-fifo", BMOE_E_MODEL, "not a regular file");
    unlink("refusal-fifo");
    expect("a device", "/dev/null", BMOE_E_MODEL, "not a regular file");
}

static void an_unreadable_file_is_refused(void **state)
{
    (void)state;
    struct refusal whole = {0};
    write_toy(&whole, TOY);
    assert_int_equal(chmod(TOY, 0), 0);
    if (geteuid() == 0 && seteuid(65534) != 0)
        skip();
    expect("unreadable", TOY, BMOE_E_IO, "cannot be opened");
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
    unlink(TOY);
}

/* ---- split sets ---- */

static void write_shard(const char *path, const struct refusal *r)
{
    struct gguf_build b;
    const int64_t ne[] = {32};
    gguf_build_begin(&b);
    for (int i = 0; i < 3; i++)
        if (r->changes[i].key)
            put_change(&b, &r->changes[i]);
    gguf_build_tensor(&b, r->tensor.name, 1, ne, 0, 128);
    gguf_build_write(&b, path);
    gguf_build_free(&b);
}

#define SHARD(i) "refusal-0000" #i "-of-00002.gguf"

static void split_sets_that_do_not_agree(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct change second[3];
        const char *tensor, *says;
    } sets[] = {
        {"good", {{"split.no", U16, .value = 1}, {"split.count", U16, .value = 2}}, "b", NULL},
        {"no number", {{"split.count", U16, .value = 2}}, "b", "no key split.no"},
        {"another number", {{"split.no", U16, .value = 0}}, "b", "says it is shard 1"},
        {"another count",
         {{"split.no", U16, .value = 1}, {"split.count", U16, .value = 3}},
         "b",
         "says it is one of 3"},
        {"a number of another type",
         {{"split.no", I32, .value = 1}},
         "b",
         "split.no is of type i32"},
        {"a tensor in both", {{"split.no", U16, .value = 1}}, "a", "'a' twice"},
    };
    const struct refusal first = {.changes = {{"split.no", U16, .value = 0},
                                              {"split.count", U16, .value = 2},
                                              {"split.tensors.count", I32, .value = 2}},
                                  .tensor = {.name = "a"}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct refusal second = {.tensor = {.name = sets[i].tensor}};
        memcpy(second.changes, sets[i].second, sizeof second.changes);
        write_shard(SHARD(1), &first);
        write_shard(SHARD(2), &second);
        struct gguf_index *x = NULL;
        struct bmoe_error err = {0};
        int rc = gguf_index_open(&x, SHARD(2), &err);
        if (sets[i].says ? rc != BMOE_E_MODEL || !strstr(err.text, sets[i].says) : rc != 0)
            fail_msg("%s: %d %s", sets[i].name, rc, err.text);
        gguf_index_close(x);
    }
    struct refusal short_of = first;
    short_of.changes[2].value = 5;
    write_shard(SHARD(1), &short_of);
    write_shard(SHARD(2), &(struct refusal){.changes = {{"split.no", U16, .value = 1}},
                                            .tensor = {.name = "b"}});
    expect("total", SHARD(1), BMOE_E_MODEL, "should have 5 tensors, its shards have 2");
    unlink(SHARD(1));
    unlink(SHARD(2));
}

static void all_missing_shards_are_named_at_once(void **state)
{
    (void)state;
    const struct refusal any = {.changes = {{"split.no", U16, .value = 3}},
                                .tensor = {.name = "a"}};
    write_shard("refusal-00004-of-00007.gguf", &any);
    struct bmoe_error err = {0};
    struct gguf_index *x = NULL;
    assert_int_equal(gguf_index_open(&x, "refusal-00004-of-00007.gguf", &err), BMOE_E_MODEL);
    assert_non_null(strstr(err.text, "shards 1-3, 5-7 of 7 are missing"));
    unlink("refusal-00004-of-00007.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_refused_by_its_sentence),
        cmocka_unit_test(cut_anywhere_it_is_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(an_unreadable_file_is_refused),
        cmocka_unit_test(split_sets_that_do_not_agree),
        cmocka_unit_test(all_missing_shards_are_named_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
