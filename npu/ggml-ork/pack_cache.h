/* A file of packed weights (ORK_PACK): what was packed once is mapped at the next start. An entry
 * is one matrix, found by a hash of the bytes it was packed from and of how; so it does not matter
 * which model, tensor or path they came from. Appended to by the process that holds the file's
 * lock, read by any. A file that is damaged or of another version is made anew, with one sentence
 * in the log.
 *
 * Any thread. */
#ifndef GGML_ORK_PACK_CACHE_H
#define GGML_ORK_PACK_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack_cache;

struct pack_key {
    uint64_t half[2];
};

/* Sentences for people; the plug-in's log, or a test's. */
typedef void pack_cache_say(const char *sentence);

/* 0 or a negative errno, with a sentence said. */
int pack_cache_open(const char *path, pack_cache_say *speak, struct pack_cache **out);
/* NULL is fine. */
void pack_cache_close(struct pack_cache *cache);

/* Of `bytes` bytes, and `how` (of n words). */
struct pack_key pack_cache_key(const void *source, size_t bytes, const uint64_t *how, size_t n);
/* An entry of exactly these two sizes, checked against its sum. Valid until close. */
bool pack_cache_find(struct pack_cache *cache, const struct pack_key *key, size_t image_bytes,
                     size_t scale_bytes, const void **image, const void **scales);
void pack_cache_counts(struct pack_cache *cache, uint64_t *n_found, uint64_t *n_added);
/* Nothing where the file may not be written; what goes wrong is said once and ends the writing. */
void pack_cache_add(struct pack_cache *cache, const struct pack_key *key, const void *image,
                    size_t image_bytes, const void *scales, size_t scale_bytes);

#endif
