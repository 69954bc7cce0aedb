/* One table is the parser and the documentation: a test compares docs/ork.md with it. */
#include "plugin_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_kind { OPTION_TEXT, OPTION_NUMBER, OPTION_SWITCH };

/* What is in `lines` and `places` at one index belongs together. `limit` is the greatest number, or
 * the bytes of a text with its end. */
struct option_place {
    enum option_kind kind;
    size_t offset;
    uint32_t limit;
    const char *among; /* the words a text may be, each between spaces; NULL = any */
};

static const struct plugin_option_line lines[] = {
    {"ORK_TRANSPORT", "vendor, mainline or sim", "which way to the NPU; sim is the simulator"},
    {"ORK_SIM", "key=value,...", "options of the simulator, with ORK_TRANSPORT=sim"},
    {"ORK_CORES", "0 to 3", "use at most so many cores; 0 is all"},
    {"ORK_TIMEOUT_MS", "0 to 600000", "time limit of one job; 0 is 3000"},
    {"ORK_VERIFY", "0 or 1", "wait until every output line has arrived"},
    {"ORK_QUANT", "w8a8, w4a4 or w4a4-channel",
     "codes of weights and activations; w8a8 unless set"},
    {"ORK_GROUP", "128, 64 or 32", "elements that share a scale in w4a4; 128 unless set"},
    {"ORK_ROTATE", "0 or 1", "rotate weights and activations (Walsh-Hadamard) before coding"},
    {"ORK_MIN_ROWS", "0 to 65536", "rows from which a dense product is the NPU's; 0 is by time"},
    {"ORK_SUBMIT_US", "0 to 100000",
     "what a submit costs, for that; 0 is as measured at the start"},
    {"ORK_THREADS", "0 to 64", "threads that code rows and pack weights; 0 is one per processor"},
    {"ORK_MOVE", "0 or 1", "also multiply weights that are not resident, where packing them pays"},
    {"ORK_PACK", "a path",
     "keep packed weights in this file, and take them from it at the next start"},
    {"ORK_TRACE", "0 or 1", "say of every product where it was computed and why"},
    {"ORK_STATS", "0 or 1", "say what was counted when the last stream is closed"},
};

#define PLACE(member) offsetof(struct plugin_options, member)
static const struct option_place places[] = {
    {OPTION_TEXT, PLACE(transport), 16, " vendor mainline sim "},
    {OPTION_TEXT, PLACE(sim), 128, NULL},
    {OPTION_NUMBER, PLACE(cores), 3, NULL},
    {OPTION_NUMBER, PLACE(timeout_ms), 600000, NULL},
    {OPTION_SWITCH, PLACE(verify), 1, NULL},
    {OPTION_TEXT, PLACE(quant), 16, " w8a8 w4a4 w4a4-channel "},
    {OPTION_TEXT, PLACE(group), 8, " 128 64 32 "},
    {OPTION_SWITCH, PLACE(rotate), 1, NULL},
    {OPTION_NUMBER, PLACE(min_rows), 65536, NULL},
    {OPTION_NUMBER, PLACE(submit_us), 100000, NULL},
    {OPTION_NUMBER, PLACE(threads), 64, NULL},
    {OPTION_SWITCH, PLACE(move), 1, NULL},
    {OPTION_TEXT, PLACE(pack), 1024, NULL},
    {OPTION_SWITCH, PLACE(trace), 1, NULL},
    {OPTION_SWITCH, PLACE(stats), 1, NULL},
};
_Static_assert(sizeof(lines) / sizeof(*lines) == sizeof(places) / sizeof(*places),
               "every option has a line and a place");

static bool is_among(const char *words, const char *value)
{
    char padded[24];

    snprintf(padded, sizeof(padded), " %s ", value);
    return !strchr(value, ' ') && strstr(words, padded);
}

static bool store(const struct option_place *place, const char *value, struct plugin_options *out)
{
    char *at = (char *)out + place->offset;
    unsigned long number;
    uint32_t narrow;
    char *end;

    if (place->kind == OPTION_TEXT) {
        if (strlen(value) >= place->limit || (place->among && !is_among(place->among, value)))
            return false;
        memcpy(at, value, strlen(value) + 1);
        return true;
    }
    errno = 0;
    number = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno || number > place->limit)
        return false;
    narrow = (uint32_t)number;
    if (place->kind == OPTION_SWITCH)
        *(bool *)at = narrow;
    else
        memcpy(at, &narrow, sizeof(narrow));
    return true;
}

int plugin_options_read(plugin_lookup *lookup, struct plugin_options *out, char *sentence,
                        size_t sentence_bytes)
{
    struct plugin_options read = {0};

    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        const char *value = lookup(lines[i].name);

        if (!value || !*value || store(&places[i], value, &read))
            continue;
        snprintf(sentence, sentence_bytes, "%s=%.64s is not what it takes: %s.", lines[i].name,
                 value, lines[i].takes);
        return -EINVAL;
    }
    *out = read;
    return 0;
}

const struct plugin_option_line *plugin_options_lines(size_t *n)
{
    *n = sizeof(lines) / sizeof(*lines);
    return lines;
}
