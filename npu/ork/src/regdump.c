/* The disassembler: everything it knows comes from the register description. */
#include "regdump.h"

#include <stdarg.h>
#include <stdio.h>

#include "ork_regs.h"
#include "regs.h"

struct text {
    char *at;
    size_t left;
    size_t length;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(t->at, t->left, format, args);
    va_end(args);
    if (n < 0)
        return;
    t->length += (size_t)n;
    if ((size_t)n < t->left) {
        t->at += n;
        t->left -= (size_t)n;
    } else {
        t->at = NULL;
        t->left = 0;
    }
}

/* Fields that are zero are left out; the value before them says it all. */
static void add_fields(struct text *t, uint32_t offset, uint32_t value)
{
    size_t n;
    const struct ork_field_desc *fields = ork_reg_fields(offset, &n);

    for (size_t i = 0; i < n; i++) {
        const struct ork_field_desc *f = &fields[i];

        if (!ork_field_get(value, f->lo, f->bits))
            continue;
        if (f->is_signed)
            add(t, " %s=%d", f->name, ork_field_get_signed(value, f->lo, f->bits));
        else
            add(t, " %s=%u", f->name, ork_field_get(value, f->lo, f->bits));
    }
}

static void add_entry(struct text *t, uint64_t entry)
{
    const uint32_t target = ORK_ENTRY_TARGET(entry);
    const uint32_t offset = ORK_ENTRY_REG(entry);
    const uint32_t value = ORK_ENTRY_VALUE(entry);
    const struct ork_block_desc *block = ork_block_find(target);
    const struct ork_reg_desc *reg = ork_reg_find(offset);

    if (target == ORK_TARGET_FILLER) {
        add(t, "filler\n");
    } else if (target == ORK_TARGET_SYNC) {
        add(t, "sync\n");
    } else if (target == ORK_TARGET_ENABLE) {
        add(t, "ENABLE 0x%x", value);
        add_fields(t, ORK_REG_PC_OPERATION_ENABLE, value);
        add(t, "\n");
    } else if (!block || !reg || offset < block->first || offset > block->last) {
        add(t, "? target 0x%04x reg 0x%04x = 0x%x\n", target, offset, value);
    } else {
        add(t, "%s %04x %s = 0x%x", block->name, offset, reg->name, value);
        add_fields(t, offset, value);
        if (value & ~reg->mask)
            add(t, " UNKNOWN_BITS=0x%x", value & ~reg->mask);
        add(t, "\n");
    }
}

size_t ork_regdump(const uint64_t *entries, size_t n, char *text, size_t size)
{
    struct text t = {.at = text, .left = size};

    if (size)
        text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        add(&t, "%3zu ", i);
        add_entry(&t, entries[i]);
    }
    return t.length;
}
