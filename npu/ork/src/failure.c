/* A job that did not end well: keep its program as text, see whether the device still works. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "ork_error.h"
#include "ork_regs.h"
#include "regdump.h"

static const struct ork_batch_job *first_failed(const struct ork_fence *f)
{
    for (uint32_t i = 0; i < f->n_jobs; i++)
        if (f->jobs[i].result.error)
            return &f->jobs[i];
    return NULL;
}

/* The program that was running: as many were done before it as the transport says. */
static char *dump_program(const struct ork_fence *f, const struct ork_batch_job *job)
{
    const uint32_t done =
        job->result.programs_done < job->n ? job->result.programs_done : job->n - 1;
    const struct ork_program_ref *ref = &f->programs[job->first + done].ref;
    const uint64_t *words = (const uint64_t *)(const void *)((const uint8_t *)f->commands.map +
                                                             (ref->iova - f->commands.iova));
    const size_t length = ork_regdump(words, ref->n_entries, NULL, 0);
    char head[320];
    const int head_length =
        snprintf(head, sizeof(head), "program %u of %u on core %u at 0x%08x: %s\n", done, job->n,
                 job->core, ref->iova, job->result.text);
    char *text = malloc((size_t)head_length + length + 1);

    if (!text)
        return NULL;
    memcpy(text, head, (size_t)head_length);
    ork_regdump(words, ref->n_entries, text + head_length, length + 1);
    return text;
}

static void keep(struct ork_device *d, char *text, uint64_t failed)
{
    pthread_mutex_lock(&d->lock);
    free(d->failure);
    d->failure = text;
    d->stats.failed_jobs += failed;
    pthread_mutex_unlock(&d->lock);
}

static uint64_t count_failed(const struct ork_fence *f)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < f->n_jobs; i++)
        n += f->jobs[i].result.error != 0;
    return n;
}

/* Both kernels reset a core that timed out; one smallest product shows whether that helped. */
static bool recover(struct ork_device *d)
{
    if (ork_selftest_alive(d) == 0)
        return true;
    pthread_mutex_lock(&d->lock);
    d->dead = true;
    pthread_mutex_unlock(&d->lock);
    return false;
}

int ork_failure_handle(struct ork_fence *f, struct ork_error *error)
{
    const struct ork_batch_job *job = first_failed(f);
    const char *why = job->result.text[0] ? job->result.text : strerror(-job->result.error);
    bool alive;

    keep(f->device, dump_program(f, job), count_failed(f));
    alive = f->flags & ORK_BATCH_PROBE || recover(f->device);
    return ork_fail(error, -EIO, "A job on NPU core %u failed: %s%s", job->core, why,
                    alive ? "" : " The device does not answer any more; open it again.");
}
