/* See weight_format.h. */
#include "weight_format.h"

uint32_t weight_format_code_max(const struct weight_format *format)
{
    return format->type == ORK_I4_I16 ? 7 : 127;
}

struct weight_format weight_format_for(const struct weight_format *format, uint32_t k)
{
    struct weight_format own = *format;

    while (own.group > 32 && k % own.group != 0)
        own.group /= 2;
    if (own.group && k / own.group > WEIGHT_FORMAT_SCALES)
        own.group = 0;
    return own;
}

uint32_t weight_format_n_scales(const struct weight_format *format, uint32_t k)
{
    return format->group ? k / format->group : 1;
}

struct ork_weight_options weight_format_options(const struct weight_format *format)
{
    return (struct ork_weight_options){
        .size = sizeof(struct ork_weight_options), .k_slice = format->group, .i4_absmax = 7};
}

struct ork_quantise weight_format_quantise(const struct weight_format *format)
{
    return (struct ork_quantise){.size = sizeof(struct ork_quantise),
                                 .rotate = format->rotate,
                                 .per_slice = format->group > 0};
}
