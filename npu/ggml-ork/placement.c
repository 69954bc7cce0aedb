/* The rates are those of the driver's time model where it has them (npu/ork/src/timemodel.c), at
 * the vendor kernel's clock. The host's own rate is the one under which a dense product of K = N =
 * 2048 breaks even at 32 rows when a submit costs 365 us, as measured on a board [fork]; it then
 * says 120 multiply-adds per ns for a model that was measured at 120 to 150 [ork]. */
#include "placement.h"

static const double npu_stream[] = {8800, 8800, 12700, 15100}; /* bytes per us, by cores [ork] */
static const double npu_macs_core = 706e3;                     /* per us [rknn] */
static const double host_moves = 3700;                         /* bytes read plus written [ork] */
static const double host_stream = 9400; /* bytes per us, of a weight that is in no cache [ork] */
static const double host_macs = 171e3;  /* per us [fit: fork] */

static double longer(double a, double b)
{
    return a > b ? a : b;
}

/* Reading the outputs back is the NPU's alone; coding the rows is the same for both. */
static double npu_time(const struct placement_rules *r, const struct placement_ask *a)
{
    const uint32_t cores = r->n_cores > 3 ? 3 : r->n_cores ? r->n_cores : 1;
    const double macs = (double)a->rows * a->n * a->k;
    double us = r->submit_us +
                longer((double)a->weight_bytes / npu_stream[cores], macs / (npu_macs_core * cores));

    us += (double)a->rows * a->n * 8 / host_moves;
    if (!a->resident)
        us += ((double)a->source_bytes + (double)a->weight_bytes) / host_moves;
    return us;
}

static double host_time(const struct placement_ask *a)
{
    const uint64_t bytes = a->resident ? a->weight_bytes : a->source_bytes;

    return longer((double)bytes / host_stream, (double)a->rows * a->n * a->k / host_macs);
}

struct placement placement_decide(const struct placement_rules *r, const struct placement_ask *a)
{
    struct placement p = {.npu_us = npu_time(r, a), .host_us = host_time(a)};

    p.on_npu = p.npu_us < p.host_us;
    if (!a->resident) {
        p.why = p.on_npu ? "not resident, but the rows pay for packing"
                         : "not resident, and packing costs more";
    } else if (a->routed) {
        p.on_npu = true;
        p.why = "resident experts, one submit for all of them";
    } else if (r->min_rows) {
        p.on_npu = a->rows >= r->min_rows;
        p.why = p.on_npu ? "ORK_MIN_ROWS or more" : "fewer than ORK_MIN_ROWS";
    } else {
        p.why = p.on_npu ? "enough rows for a submit" : "too few rows for a submit";
    }
    return p;
}
