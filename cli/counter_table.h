/*
 * The list of counters (bmoe_counters.h) as a table: what walks over all counters reads it, and
 * nothing else lists them. Values leave it in the units of their keys.
 */
#ifndef BMOE_CLI_COUNTER_TABLE_H
#define BMOE_CLI_COUNTER_TABLE_H

#include "bmoe.h"

enum counter_kind { COUNTER_SUM, COUNTER_LEVEL, COUNTER_PEAK };
enum counter_unit { COUNTER_COUNT, COUNTER_BYTES, COUNTER_US };
enum counter_phases { COUNTER_WHOLE, COUNTER_SPLIT };

struct counter {
    const char *key;
    const char *prefill_key; /* SPLIT: of the prefill's part; else NULL */
    const char *meaning;
    const char *brief; /* for people, see bmoe_counters.h; NULL: not told them */
    enum counter_kind kind;
    enum counter_unit unit;
    enum counter_phases phases;
    size_t offset; /* of its int64_t in struct bmoe_stats */
};

extern const struct counter counter_table[];
extern const size_t counter_table_n;

/* The raw value, -1 when it is not measured. */
int64_t counter_raw(const struct counter *c, const struct bmoe_stats *stats);

/* What a SUM grew by from `before` to `after`; the value in `after` of the others. -1 when it is
 * not measured. In the member's unit. */
int64_t counter_part(const struct counter *c, const struct bmoe_stats *before,
                     const struct bmoe_stats *after);

/* A raw value in the key's unit: bytes to MiB, microseconds to seconds, counts as they are; -1
 * stays. */
double counter_in_key_unit(const struct counter *c, int64_t raw);

/* The key of a counter in BMOE_DECIDE, which is all prefill: of the part of a prefill, or one that
 * is about prefill anyway; NULL: it has none there. */
const char *counter_decide_key(const struct counter *c);

/* "count", "MiB" or "s": the unit of the key. */
const char *counter_unit_name(const struct counter *c);

#endif
