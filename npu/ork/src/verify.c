/* Proof that every output arrived: "done" has been seen before the last lines of an output were
 * in memory. Outputs are filled with a pattern first; afterwards no 16-byte cell may still hold
 * it. Late cells are waited for. A cell that keeps the pattern may also be a result that happens
 * to look like it, so the batch runs once more with another pattern before it is called lost. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "device.h"
#include "ork_error.h"

#define FIRST_PATTERN  0xaa
#define SECOND_PATTERN 0x55
#define LOOKS          50
#define LOOK_US        200

static int sync_output(struct ork_fence *f, uint32_t core, unsigned dir)
{
    return f->device->transport->ops->bo_sync(f->device->transport, &f->outputs[core], 0,
                                              f->output_bytes[core], dir);
}

void ork_verify_poison(struct ork_fence *f, uint8_t pattern)
{
    for (uint32_t c = 0; c < ORK_MAX_CORES; c++) {
        if (!f->output_bytes[c])
            continue;
        memset(f->outputs[c].map, pattern, f->output_bytes[c]);
        sync_output(f, c, ORK_SYNC_TO_DEVICE | ORK_SYNC_FROM_DEVICE);
    }
}

static uint64_t cells_with(const uint8_t *p, uint64_t bytes, uint8_t pattern)
{
    uint8_t cell[16];
    uint64_t n = 0;

    memset(cell, pattern, sizeof(cell));
    for (uint64_t i = 0; i + 16 <= bytes; i += 16)
        n += !memcmp(p + i, cell, 16);
    return n;
}

/* Cells of all tiles that hold nothing but the pattern. */
static uint64_t marked_cells(const struct ork_fence *f, uint8_t pattern)
{
    uint64_t n = 0;

    for (size_t i = 0; i < f->n_items; i++) {
        const struct ork_batch_item *item = &f->items[i];
        const uint32_t out_bytes = ork_type_find(item->plan.slicing.type)->out_bytes;

        for (uint32_t t = 0; t < item->plan.n_tiles; t++) {
            const struct ork_tile *tile = &item->plan.tiles[t];
            const uint32_t core = item->core_base + tile->core;

            n += cells_with((const uint8_t *)f->outputs[core].map + item->c_base[core] +
                                tile->c_offset,
                            (uint64_t)tile->lines * tile->cols * out_bytes, pattern);
        }
    }
    return n;
}

/* Looks until nothing is marked; returns what stays. *first is what the first look saw. */
static uint64_t settle(struct ork_fence *f, uint8_t pattern, uint64_t *first)
{
    const struct timespec pause = {0, LOOK_US * 1000};
    uint64_t left = 0;

    for (int look = 0; look < LOOKS; look++) {
        for (uint32_t c = 0; c < ORK_MAX_CORES; c++)
            if (f->output_bytes[c])
                sync_output(f, c, ORK_SYNC_FROM_DEVICE);
        left = marked_cells(f, pattern);
        if (!look)
            *first = left;
        if (!left)
            return 0;
        nanosleep(&pause, NULL);
    }
    return left;
}

int ork_verify_wait(struct ork_fence *f, struct ork_error *error)
{
    uint64_t first, left = settle(f, FIRST_PATTERN, &first);
    int rc;

    pthread_mutex_lock(&f->device->lock);
    f->device->stats.verify_retries += first - left;
    pthread_mutex_unlock(&f->device->lock);
    if (!left)
        return 0;
    ork_verify_poison(f, SECOND_PATTERN);
    rc = ork_batch_start(f, error);
    if (rc < 0)
        return rc;
    ork_batch_wait(f, -1);
    for (uint32_t i = 0; i < f->n_jobs; i++)
        if (f->jobs[i].result.error)
            return ork_failure_handle(f, error);
    left = settle(f, SECOND_PATTERN, &first);
    if (left)
        return ork_fail(error, -EIO, "%llu output cells never arrived in two runs.",
                        (unsigned long long)left);
    return 0;
}
