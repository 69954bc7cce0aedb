/* See recorded_jobs.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "recorded_jobs.h"

void jobs_fill(struct jobs *j, uint32_t core, uint32_t iova, uint32_t step)
{
    j->reads[0] = &j->commands;
    j->writes[0] = &j->output;
    j->programs[0] = (struct ork_program_ref){iova, 112};
    j->programs[1] = (struct ork_program_ref){iova + step, 112};
    j->job = (struct ork_job){.size = sizeof j->job,
                              .programs = j->programs,
                              .n_programs = 2,
                              .core = core,
                              .reads = j->reads,
                              .n_reads = 1,
                              .writes = j->writes,
                              .n_writes = 1};
}

static void judge(struct recording *rec)
{
    if (recording_verdict(rec))
        fail_msg("%s", recording_verdict(rec));
    recording_fini(rec);
}

void recording_close_transport(struct recording *rec, struct ork_transport *t)
{
    t->ops->close(t);
    judge(rec);
}

void jobs_close(struct jobs *j)
{
    j->t->ops->bo_destroy(j->t, &j->commands);
    j->t->ops->bo_destroy(j->t, &j->output);
    recording_close_transport(&j->rec, j->t);
}

void recording_refuse(struct recording *rec,
                      int (*open)(const struct ork_os *, struct ork_transport **,
                                  struct ork_error *),
                      int want, const char *says)
{
    struct ork_error error = {0};
    struct ork_transport *t = NULL;
    assert_int_equal(open(&rec->os, &t, &error), want);
    assert_null(t);
    assert_int_equal(error.code, want);
    if (!strstr(error.text, says))
        fail_msg("\"%s\" does not say \"%s\"", error.text, says);
    judge(rec);
}
