/* The register description as tables, for whoever reads programs: the disassembler, the checks
 * in the tests and the simulator. Built from the generated lists; constant data. */
#ifndef ORK_REGS_TABLE_H
#define ORK_REGS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ork_block_desc {
    const char *name;
    uint32_t target; /* upper 16 bits of an entry that writes the block */
    uint32_t first;  /* offsets, inclusive */
    uint32_t last;
};

struct ork_field_desc {
    const char *name;
    uint32_t offset; /* of its register */
    uint8_t lo;
    uint8_t bits;
    bool is_signed;
};

struct ork_reg_desc {
    const char *block;
    const char *name;
    uint32_t offset;
    uint32_t mask; /* bits that mean something */
};

const struct ork_block_desc *ork_block_find(uint32_t target);
/* NULL when the description has no such register. */
const struct ork_reg_desc *ork_reg_find(uint32_t offset);
const struct ork_reg_desc *ork_reg_table(size_t *n);
/* The fields of a register, *n of them next to each other; 0 = one 32-bit value. */
const struct ork_field_desc *ork_reg_fields(uint32_t offset, size_t *n);

#endif
