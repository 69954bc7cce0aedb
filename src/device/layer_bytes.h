/*
 * Bytes of a layer weight as the file has them, from wherever they are: memory in the file's
 * layout, memory in another one, the disk. Whoever fills a slot or converts a weight asks here.
 *
 * Threads: any, each with a buffer of its own.
 */
#ifndef BMOE_DEVICE_LAYER_BYTES_H
#define BMOE_DEVICE_LAYER_BYTES_H

#include "device/layers.h"

struct layer_bytes {
    const void *data;
    uint32_t lent; /* an extent of the pager, LAYERS_NONE: none */
    bool read;     /* they came from disk */
};

/* What is to be asked for at once: an expert, or so many of a dense weight's rows. */
uint64_t layer_piece_bytes(const struct layer_source *s);
/* What pager_direct_read wants for it; 0: the bytes lie in memory and no buffer is wanted. */
uint64_t layer_buffer_bytes(const struct layer_source *s);

/* Bytes `at` to `at + bytes`, a piece or the last of a weight. They lie in the buffer or in memory
 * that is lent until layer_bytes_put. Fails as a read does. */
int layer_bytes_get(struct layer_bytes *out, const struct layer_source *s, struct pager *pager,
                    uint64_t at, uint64_t bytes, char *buffer, struct bmoe_error *err);
void layer_bytes_put(const struct layer_bytes *b, struct pager *pager);

#endif
