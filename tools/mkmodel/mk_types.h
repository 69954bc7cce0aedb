/*
 * Which type each tensor of a plan is stored in: one type for all matrices or a named mix, then the
 * --type-for rules, then the fall-back for rows that the type's block does not divide.
 */
#ifndef MK_TYPES_H
#define MK_TYPES_H

#include "mk_plan.h"

/* One --type-for rule; later rules win. pattern is for fnmatch, borrowed from the command line. */
struct mk_type_rule {
    const char *pattern;
    const char *type;
};

/*
 * Sets the type of every tensor of the plan. name is a type ggml writes (Q4_0, q4_k, BF16, ...) or
 * a mix (Q4_K_M, Q5_K_M, MXFP4_MOE). Every fall-back is told on stderr, one line for each pair of
 * types. BMOE_E_MISUSE: an unknown name, or a rule that matches no tensor whose type is free.
 */
int mk_types_assign(struct mk_plan *plan, const char *name, const struct mk_type_rule *rules,
                    size_t n_rules, struct bmoe_error *error);

#endif
