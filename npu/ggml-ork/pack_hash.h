/* A fast hash of 128 bits, against accidents and not against people. */
#ifndef GGML_ORK_PACK_HASH_H
#define GGML_ORK_PACK_HASH_H

#include <stddef.h>
#include <stdint.h>

/* out differs for any other seed, length or content but for a chance of about 2^-100. */
void pack_hash(const void *data, size_t bytes, uint64_t seed, uint64_t out[2]);

#endif
