/* See tool.h. */
#include "tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum ork_type type;
    enum ork_i4_mode mode;
} types[] = {
    {"i8", ORK_I8_I32, ORK_I4_DENSE},           {"i4", ORK_I4_I16, ORK_I4_DENSE},
    {"f16", ORK_F16_F32, ORK_I4_DENSE},         {"f16h", ORK_F16_F16, ORK_I4_DENSE},
    {"i4:stride2", ORK_I4_I16, ORK_I4_STRIDE2}, {"i4:bchain", ORK_I4_I16, ORK_I4_BCHAIN},
    {"i4:rows", ORK_I4_I16, ORK_I4_ROWS},
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

bool tool_number(const char *text, uint32_t low, uint32_t high, uint32_t *out)
{
    unsigned long value;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    value = strtoul(text, &end, 10);
    if (errno || *end || value < low || value > high)
        return false;
    *out = (uint32_t)value;
    return true;
}

bool tool_type(const char *text, enum ork_type *type, enum ork_i4_mode *mode)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (strcmp(text, types[i].name) != 0)
            continue;
        *type = types[i].type;
        *mode = types[i].mode;
        return true;
    }
    return false;
}

const char *tool_type_name(enum ork_type type, enum ork_i4_mode mode)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].type == type && types[i].mode == mode)
            return types[i].name;
    return "?";
}

const char *tool_verdict(int verdict)
{
    return verdict < 0 ? "not tried" : verdict ? "right" : "wrong";
}

void tool_json_string(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

int tool_finish(const char *tool, int status)
{
    const bool lost = ferror(stdout);

    if (!fflush(stdout) && !lost)
        return status;
    fprintf(stderr, "%s: the output could not be written: %s\n", tool,
            errno ? strerror(errno) : "an earlier write failed");
    return status ? status : 1;
}
