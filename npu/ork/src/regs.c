/* Builds the tables of regs.h out of the generated lists. Both lists are in the order of the
 * description file, so a register's fields are neighbours; tables are searched linearly, nothing
 * here runs per matmul (the simulator builds an index of its own). */
#include "regs.h"

#include "ork_regs.h"

#define BLOCK(block, target, first, last)               {#block, target, first, last},
#define REG(block, reg, offset, mask)                   {#block, #reg, offset, mask},
#define FIELD(block, reg, name, offset, lo, bits, sign) {#name, offset, lo, bits, sign},
#define COUNT(array)                                    (sizeof(array) / sizeof((array)[0]))

static const struct ork_block_desc blocks[] = {ORK_BLOCK_LIST(BLOCK)};
static const struct ork_reg_desc regs[] = {ORK_REG_LIST(REG)};
static const struct ork_field_desc fields[] = {ORK_FIELD_LIST(FIELD)};

const struct ork_block_desc *ork_block_find(uint32_t target)
{
    for (size_t i = 0; i < COUNT(blocks); i++)
        if (blocks[i].target == target)
            return &blocks[i];
    return NULL;
}

const struct ork_reg_desc *ork_reg_find(uint32_t offset)
{
    for (size_t i = 0; i < COUNT(regs); i++)
        if (regs[i].offset == offset)
            return &regs[i];
    return NULL;
}

const struct ork_reg_desc *ork_reg_table(size_t *n)
{
    *n = COUNT(regs);
    return regs;
}

const struct ork_field_desc *ork_reg_fields(uint32_t offset, size_t *n)
{
    size_t first = 0;

    while (first < COUNT(fields) && fields[first].offset != offset)
        first++;
    *n = 0;
    while (first + *n < COUNT(fields) && fields[first + *n].offset == offset)
        ++*n;
    return *n ? &fields[first] : NULL;
}
