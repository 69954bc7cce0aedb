/* What the loaders of a prefill device have to do at least: see device_filling.c. */
#ifndef BMOE_BENCH_DEVICE_FILLING_H
#define BMOE_BENCH_DEVICE_FILLING_H

#include "pager/pager.h"

/* Makes the reads again by n_threads of its own, into buffers as the loaders have, and copies each
 * to memory of slot_bytes, round and round: microseconds, or a negative code. */
int64_t filling_time(struct pager *pager, const struct pager_read_record *records, size_t n,
                     unsigned n_threads, uint64_t slot_bytes, struct bmoe_error *err);

#endif
