/*
 * The retention policies. Least recently used: an extent enters at the recent end when the graph
 * has passed it, so that the list is ordered by use and not by the time a read happened to end.
 */
#include "pager/pager_policy.h"

static void lru_insert(struct policy *p, uint32_t e)
{
    list_push_tail(p->table, &p->recent, e);
    p->n++;
}

static void lru_remove(struct policy *p, uint32_t e)
{
    list_remove(p->table, &p->recent, e);
    p->n--;
}

static void lru_touch(struct policy *p, uint32_t e)
{
    if (!(p->table->at[e].flags & EXTENT_IN_POLICY))
        return;
    list_remove(p->table, &p->recent, e);
    list_push_tail(p->table, &p->recent, e);
}

static uint32_t lru_victim(const struct policy *p)
{
    return p->recent.head;
}

const struct policy_ops policy_lru = {.name = "lru",
                                      .insert = lru_insert,
                                      .touch = lru_touch,
                                      .remove = lru_remove,
                                      .victim = lru_victim};

void policy_init(struct policy *p, const struct policy_ops *ops, struct extent_table *table)
{
    *p = (struct policy){.ops = ops, .table = table};
    list_init(&p->recent);
}
