/* What the tests of both kernel transports share: a transport over a recording, two buffers on it
 * and a job of two programs; and what every script ends with. All of it fails the running test. */
#ifndef RECORDED_JOBS_H
#define RECORDED_JOBS_H

#include "ork.h"
#include "recording_os.h"
#include "transport/transport.h"

/* One command buffer, which the job reads, and one output. */
struct jobs {
    struct recording rec;
    struct ork_transport *t;
    struct ork_bo commands, output;
    const struct ork_bo *reads[1], *writes[1];
    struct ork_program_ref programs[2];
    struct ork_job job;
};

/* Once both buffers are there: two programs of 112 entries, `step` bytes apart from iova on. */
void jobs_fill(struct jobs *j, uint32_t core, uint32_t iova, uint32_t step);
void jobs_close(struct jobs *j);

/* Closes the transport; the script has to be used up. Ends the recording. */
void recording_close_transport(struct recording *rec, struct ork_transport *t);
/* Opening fails with want and a sentence that has `says` in it. Ends the recording. */
void recording_refuse(struct recording *rec,
                      int (*open)(const struct ork_os *, struct ork_transport **,
                                  struct ork_error *),
                      int want, const char *says);

#endif
