/* Eight lanes of multiply and rotate, which a compiler keeps in registers; folded twice, in two
 * orders, into the two halves. Little-endian words, as on every machine with this NPU. */
#include "pack_hash.h"

#include <string.h>

#define LANES 8

static const uint64_t odd_a = UINT64_C(0x9e3779b97f4a7c15);
static const uint64_t odd_b = UINT64_C(0xc2b2ae3d27d4eb4f);

static uint64_t turn(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static uint64_t step(uint64_t lane, uint64_t word)
{
    return turn(lane ^ (word * odd_b), 29) * odd_a;
}

static uint64_t finish(uint64_t x)
{
    x ^= x >> 32;
    x *= odd_b;
    x ^= x >> 29;
    x *= odd_a;
    return x ^ x >> 32;
}

void pack_hash(const void *data, size_t bytes, uint64_t seed, uint64_t out[2])
{
    const uint8_t *p = data;
    uint64_t lanes[LANES], words[LANES];

    for (int i = 0; i < LANES; i++)
        lanes[i] = finish(seed + odd_a * (uint64_t)(i + 1));
    for (size_t left = bytes;; left -= sizeof(words), p += sizeof(words)) {
        const size_t some = left < sizeof(words) ? left : sizeof(words);

        if (some < sizeof(words))
            memset(words, 0, sizeof(words));
        memcpy(words, p, some);
        for (int i = 0; i < LANES; i++)
            lanes[i] = step(lanes[i], words[i]);
        if (some < sizeof(words))
            break;
    }
    out[0] = finish(seed ^ bytes);
    out[1] = finish(seed + bytes);
    for (int i = 0; i < LANES; i++) {
        out[0] = step(out[0], finish(lanes[i]));
        out[1] = step(out[1], finish(lanes[LANES - 1 - i] + odd_a));
    }
    out[0] = finish(out[0]);
    out[1] = finish(out[1]);
}
