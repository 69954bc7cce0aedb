/* The cost model: counts of work times constants, each with its source.
 *
 * Constants are fitted on the anchors marked "fit" in tests/npu/test_timemodel_anchors.c, which
 * prints every anchor, fitted and held out, beside what comes out here. The two kernels differ in
 * clock and in the cost of a job; the memory is the same. */
#include "timemodel.h"

#include <string.h>

/* Multiply-adds per core and clock that large products reach. int8 and fp16 [fit: rknn, M = 512,
 * K = N = 2048: 1391 and 548 Gop/s at 1 GHz; 69 % and 54 % of the marketed peak]; int4 twice int8
 * [marketing, no anchor reaches it]. */
static const double macs_per_clock[ORK_N_TYPES] = {
    [ORK_I8_I32] = 706,
    [ORK_I4_I16] = 1412,
    [ORK_F16_F32] = 276,
    [ORK_F16_F16] = 276,
};

/* Bytes per microsecond by tasks in flight: 1, 2, 3 and 6 [fit: ork's streaming probe; 8.8 is the
 * upper end of its 8.6-8.8 and the slope between mainline's smallest and largest M = 1 product],
 * 4 and 5 interpolated, more is the probe's ceiling. */
static const double stream_rate[] = {0, 8800, 12700, 15100, 16750, 18400, 20050};
static const double stream_ceiling = 22000;

/* Refill of the weight banks: a restart of the fetch; no anchor separates it, 0.1 us is what they
 * all allow [inferred]. */
static const double fill_us = 0.1;

/* Host packing and unpacking, bytes read plus bytes written per microsecond [fit: ork, int8
 * 512 x 2048 x 512 over three cores in 1.74 ms]. */
static const double host_rate = 3700;

struct kernel_costs {
    double clock_mhz;
    double job_us;     /* submit, interrupt, wake-up: once per round of jobs */
    double ioctl_us;   /* each further job of a round: one call */
    double chained_us; /* each program, reached through a chain */
    double kicked_us;  /* each further program that needs its own kick and interrupt */
};

static const struct kernel_costs kernels[] = {
    /* job [fit: K-slice K = 2048 N = 128 M = 1 in 80 us]; ioctl [ork: 5 us]; chained [fit: int4
     * block chain, 512 programs in 6.69 ms]; kicked: not possible there, as mainline's. */
    [ORK_KERNEL_VENDOR] = {1000, 50, 5, 1, 20},
    /* job [fit: rnp K = 2048 N = 2560 M = 1 in 0.802 ms]; ioctl [rnp: 6-8 us]; kicked: no anchor,
     * an interrupt and a register write on one A55 [assumed]. */
    [ORK_KERNEL_MAINLINE] = {600, 206, 7, 1, 20},
};

static double stream_rate_of(uint32_t n)
{
    const uint32_t known = sizeof stream_rate / sizeof *stream_rate;

    if (!n)
        n = 1;
    return n < known ? stream_rate[n] : stream_ceiling;
}

static double submit_us(const struct kernel_costs *kernel, const struct ork_work *work)
{
    const uint32_t cores = work->n_cores ? work->n_cores : 1;
    const uint32_t rounds = (work->n_jobs + cores - 1) / cores;
    const uint32_t jobs_core = rounds ? rounds : 1;
    const double program_us = work->chained ? kernel->chained_us : kernel->kicked_us;
    const double free_programs = work->chained ? 0 : jobs_core;
    double us = rounds * kernel->job_us + (work->n_jobs - rounds) * kernel->ioctl_us;

    if (work->n_programs_core > free_programs)
        us += (work->n_programs_core - free_programs) * program_us;
    return us;
}

uint64_t ork_timemodel_macs_as(enum ork_type as, enum ork_type type, uint64_t macs)
{
    if (as == type)
        return macs;
    return (uint64_t)((double)macs * macs_per_clock[as] / macs_per_clock[type]);
}

void ork_timemodel_predict(enum ork_kernel kernel, const struct ork_work *work,
                           struct ork_time *out)
{
    const struct kernel_costs *costs = &kernels[kernel == ORK_KERNEL_MAINLINE];
    const uint32_t cores = work->n_cores ? work->n_cores : 1;
    const double bytes =
        (double)work->feature_bytes + (double)work->weight_bytes + (double)work->output_bytes;

    memset(out, 0, sizeof *out);
    out->host_us = ((double)work->host_pack_bytes + (double)work->host_unpack_bytes) / host_rate;
    if (work->n_programs) {
        out->submit_us = submit_us(costs, work);
        out->mac_us = (double)work->macs_core / (macs_per_clock[work->type] * costs->clock_mhz);
        out->dma_us = bytes / stream_rate_of(cores);
        out->fill_us = (double)work->cbuf_fills / cores * fill_us;
    }
    out->total_us = out->submit_us + (out->mac_us > out->dma_us ? out->mac_us : out->dma_us) +
                    out->fill_us + out->host_us;
}
