/*
 * Giving libllama its mapped file from the pager. libllama maps a model with MAP_POPULATE, which
 * would read all of it. It imports mmap as an ordinary symbol: for the time of one load the import
 * slots of the named library (dl_iterate_phdr, the relocations of type JUMP_SLOT or GLOB_DAT) are
 * pointed at our function, which answers for the model's descriptors, known by device and inode,
 * and passes everything else on. Nothing is exported, no symbol is interposed, so it works alike
 * from a program, a static or shared library and dlopen(RTLD_LOCAL).
 *
 * The one piece of mutable global state of this library lives here: the slots changed for the load
 * in progress, guarded by a mutex; loads in several threads take turns. Only the thread that began
 * is answered: a load that other code of the process runs meanwhile gets its own mapping.
 *
 * What fn gives out is the library's from then on: it unmaps parts of it (the header, what lies
 * behind the last tensor) after the load and the rest when the model is freed, with munmap.
 */
#ifndef BMOE_PAGER_REBIND_H
#define BMOE_PAGER_REBIND_H

#include "bmoe.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Answers the address to use for a mapping of `bytes` of the file from its start, or NULL to let
 * the real mmap do it. */
typedef void *rebind_map_fn(void *ctx, dev_t dev, ino_t ino, size_t bytes);

/* Points the mmap imports of every loaded object whose file name contains `library` ("libllama.so")
 * at fn until rebind_end; posix_madvise and madvise imports become no-ops for addresses fn gave
 * out. Answers the number of slots changed, 0 when the library has none (then nothing is changed,
 * nothing need be ended and the load will read the file), or a negative code: MISUSE when this
 * thread has not ended its last one, SEAM when the slots cannot be written. An answer above 0 holds
 * the load lock until rebind_end, which the same thread must call. */
int rebind_begin(const char *library, rebind_map_fn *fn, void *ctx, struct bmoe_error *err);

/* What may be allocated, and what was asked for. */
struct rebind_memory {
    uint64_t limit_bytes;
    uint64_t asked_bytes; /* the one that was refused included */
    bool refused;
    uint64_t refused_bytes; /* of the first one that was */
};

/* What this thread allocates through the posix_memalign imports of the library until rebind_end is
 * counted, refused beyond the limit (ENOMEM), and asks for huge pages where it is large: filling
 * 24 MiB page by page took 90 ms of a load, with huge pages 7. It is ordinary memory of malloc's
 * otherwise. Where no slot is found or can be written all is allocated, and none is counted. */
void rebind_memory_begin(const char *library, struct rebind_memory *memory);

/* Puts the slots back; answers how many mappings fn answered. Without a begin it does nothing. */
unsigned rebind_end(void);

#endif
