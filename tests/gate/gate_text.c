/* Letters of a fixed linear congruence, with blanks and points between them. */
#include "gate_text.h"

#include <stdint.h>

const char *gate_text(size_t n)
{
    static char text[1 << 16];
    uint32_t x = 12345;
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        x = x * 1664525u + 1013904223u;
        unsigned letter = (x >> 16) % 32;
        text[i] = letter < 26 ? (char)('a' + letter) : letter < 30 ? ' ' : '.';
    }
    return n < sizeof text ? text : NULL;
}
