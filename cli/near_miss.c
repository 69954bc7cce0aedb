/*
 * Suggestions for unknown options by edit distance (optimal string alignment): see near_miss.h.
 */
#include "near_miss.h"

#include "option_table.h"

#include <string.h>

enum { WORD_MAX_BYTES = 40, FAR_APART = 1000 };

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;

    return least < c ? least : c;
}

unsigned near_miss_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    unsigned cost[WORD_MAX_BYTES + 1][WORD_MAX_BYTES + 1];

    if (a_bytes > WORD_MAX_BYTES || b_bytes > WORD_MAX_BYTES)
        return FAR_APART;
    for (size_t i = 0; i <= a_bytes; i++)
        cost[i][0] = (unsigned)i;
    for (size_t j = 0; j <= b_bytes; j++)
        cost[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_bytes; i++) {
        for (size_t j = 1; j <= b_bytes; j++) {
            unsigned replace = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

            cost[i][j] = min3(cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                cost[i - 2][j - 2] + 1 < cost[i][j])
                cost[i][j] = cost[i - 2][j - 2] + 1;
        }
    }
    return cost[a_bytes][b_bytes];
}

static void skip_dashes(const char **text, size_t *bytes)
{
    while (*bytes > 0 && **text == '-') {
        (*text)++;
        (*bytes)--;
    }
}

const char *near_miss_find(const char *text, size_t bytes)
{
    const char *best = NULL;
    unsigned best_distance = FAR_APART;

    skip_dashes(&text, &bytes);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_table[i];
        const char *names[2] = {row->name, row->brief};

        for (size_t k = 0; row->kind != OPTION_REFUSED && k < 2 && names[k] != NULL; k++) {
            const char *name = names[k];
            size_t name_bytes = strlen(name);
            unsigned distance;

            skip_dashes(&name, &name_bytes);
            distance = near_miss_distance(text, bytes, name, name_bytes);
            if (distance < best_distance && distance * 3 <= name_bytes) {
                best = names[k];
                best_distance = distance;
            }
        }
    }
    return best;
}
