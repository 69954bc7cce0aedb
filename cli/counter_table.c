/*
 * The table made of the list: see counter_table.h.
 */
#include "counter_table.h"

#include <string.h>

#define KEY_WHOLE(key) NULL
#define KEY_SPLIT(key) "prefill_" #key

#define ROW(member_, kind_, unit_, key_, phases_, meaning_, brief_)                                \
    {.key = #key_,                                                                                 \
     .prefill_key = KEY_##phases_(key_),                                                           \
     .meaning = meaning_,                                                                          \
     .brief = brief_,                                                                              \
     .kind = COUNTER_##kind_,                                                                      \
     .unit = COUNTER_##unit_,                                                                      \
     .phases = COUNTER_##phases_,                                                                  \
     .offset = offsetof(struct bmoe_stats, member_)},

const struct counter counter_table[] = {BMOE_COUNTERS(ROW)};
const size_t counter_table_n = sizeof(counter_table) / sizeof(counter_table[0]);

int64_t counter_raw(const struct counter *c, const struct bmoe_stats *stats)
{
    return *(const int64_t *)(const void *)((const char *)stats + c->offset);
}

int64_t counter_part(const struct counter *c, const struct bmoe_stats *before,
                     const struct bmoe_stats *after)
{
    int64_t was = counter_raw(c, before);
    int64_t is = counter_raw(c, after);

    if (is < 0 || c->kind != COUNTER_SUM)
        return is;
    return was < 0 || was > is ? -1 : is - was;
}

double counter_in_key_unit(const struct counter *c, int64_t raw)
{
    static const double per_unit[] = {
        [COUNTER_COUNT] = 1, [COUNTER_BYTES] = 1 << 20, [COUNTER_US] = 1e6};

    return raw < 0 ? -1 : (double)raw / per_unit[c->unit];
}

const char *counter_decide_key(const struct counter *c)
{
    static const char device[] = "prefill_dev_";

    if (c->prefill_key != NULL)
        return c->prefill_key;
    return strncmp(c->key, device, sizeof(device) - 1) == 0 ? c->key : NULL;
}

const char *counter_unit_name(const struct counter *c)
{
    static const char *const names[] = {
        [COUNTER_COUNT] = "count", [COUNTER_BYTES] = "MiB", [COUNTER_US] = "s"};

    return names[c->unit];
}
