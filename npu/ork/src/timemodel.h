/* What a piece of work should cost on silicon. The plan and the simulator count (programs,
 * bytes, multiply-adds, refills); this model alone turns counts into microseconds, with named
 * constants whose source stands next to them. Pure; no clock is read. */
#ifndef ORK_TIMEMODEL_H
#define ORK_TIMEMODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "ork.h"
#include "transport/transport.h"

/* Counts of one call. Per-core figures are those of the busiest core; bytes are totals over all
 * cores, as DRAM sees them. Zero means none. */
struct ork_work {
    enum ork_type type;
    uint32_t n_cores;           /* cores that work at the same time */
    uint32_t n_jobs;            /* submits, all cores */
    uint32_t n_programs;        /* all cores */
    uint32_t n_programs_core;   /* of the busiest core */
    bool chained;               /* programs of a job run in one kick */
    uint64_t macs;              /* all cores, wasted rows included */
    uint64_t macs_core;         /* of the busiest core */
    uint64_t feature_bytes;     /* fetched by the device, repeated fetches counted again */
    uint64_t weight_bytes;      /* fetched by the device, repeated fetches counted again */
    uint64_t output_bytes;      /* written by the device */
    uint64_t cbuf_fills;        /* weight-bank refills, all programs */
    uint64_t host_pack_bytes;   /* activation bytes the host reads and writes to pack */
    uint64_t host_unpack_bytes; /* output bytes the host reads back and writes */
};

/* Where the time goes. total_us = submit_us + max(mac_us, dma_us) + fill_us + host_us. */
struct ork_time {
    double total_us;
    double submit_us;
    double mac_us;
    double dma_us;
    double fill_us;
    double host_us;
};

/* Never fails: work with n_programs == 0 costs only its host share. */
void ork_timemodel_predict(enum ork_kernel kernel, const struct ork_work *work,
                           struct ork_time *out);
/* Multiply-adds of one type as those of another that take as long: how macs_core counts work of
 * several types. */
uint64_t ork_timemodel_macs_as(enum ork_type as, enum ork_type type, uint64_t macs);

#endif
