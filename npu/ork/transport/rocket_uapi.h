/* The mainline accel driver's ioctls (driver "rocket", Linux 6.18 on), as numbers and layouts.
 * Every size and offset is asserted [mainline uapi]. */
#ifndef ORK_ROCKET_UAPI_H
#define ORK_ROCKET_UAPI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/drm.h"

struct rocket_create_bo {
    uint32_t size;
    uint32_t handle;      /* out */
    uint64_t dma_address; /* out */
    uint64_t offset;      /* out: for mmap */
};

struct rocket_submit {
    uint64_t jobs; /* user pointer */
    uint32_t job_count;
    uint32_t job_struct_size;
    uint64_t reserved;
};

struct rocket_prep_bo {
    uint32_t handle;
    uint32_t reserved;
    int64_t timeout_ns; /* absolute, CLOCK_MONOTONIC */
};

struct rocket_fini_bo {
    uint32_t handle;
    uint32_t reserved;
};

struct rocket_task {
    uint32_t regcmd;       /* device address */
    uint32_t regcmd_count; /* entries */
};

struct rocket_job {
    uint64_t tasks; /* user pointers */
    uint64_t in_bo_handles;
    uint64_t out_bo_handles;
    uint32_t task_count;
    uint32_t task_struct_size;
    uint32_t in_bo_handle_count;
    uint32_t out_bo_handle_count;
};

static_assert(sizeof(struct rocket_create_bo) == 24, "create_bo");
static_assert(offsetof(struct rocket_create_bo, dma_address) == 8, "create_bo.dma_address");
static_assert(offsetof(struct rocket_create_bo, offset) == 16, "create_bo.offset");
static_assert(sizeof(struct rocket_submit) == 24, "submit");
static_assert(offsetof(struct rocket_submit, job_count) == 8, "submit.job_count");
static_assert(offsetof(struct rocket_submit, reserved) == 16, "submit.reserved");
static_assert(sizeof(struct rocket_prep_bo) == 16, "prep_bo");
static_assert(offsetof(struct rocket_prep_bo, timeout_ns) == 8, "prep_bo.timeout_ns");
static_assert(sizeof(struct rocket_fini_bo) == 8, "fini_bo");
static_assert(sizeof(struct rocket_task) == 8, "task");
static_assert(sizeof(struct rocket_job) == 40, "job");
static_assert(offsetof(struct rocket_job, task_count) == 24, "job.task_count");
static_assert(offsetof(struct rocket_job, out_bo_handle_count) == 36, "job.out_bo_handle_count");

#define ROCKET_REQUEST_CREATE_BO DRM_IOWR(0x40, struct rocket_create_bo)
#define ROCKET_REQUEST_SUBMIT    DRM_IOW(0x41, struct rocket_submit)
#define ROCKET_REQUEST_PREP_BO   DRM_IOW(0x42, struct rocket_prep_bo)
#define ROCKET_REQUEST_FINI_BO   DRM_IOW(0x43, struct rocket_fini_bo)

static_assert(ROCKET_REQUEST_CREATE_BO == 0xC0186440, "CREATE_BO");
static_assert(ROCKET_REQUEST_SUBMIT == 0x40186441, "SUBMIT");
static_assert(ROCKET_REQUEST_PREP_BO == 0x40106442, "PREP_BO");
static_assert(ROCKET_REQUEST_FINI_BO == 0x40086443, "FINI_BO");

enum {
    ROCKET_MAX_TASKS = 4095, /* no limit is known; the vendor kernel's serves */
    ROCKET_MAX_DOMAINS = 8,  /* one more descriptor each */
    ROCKET_WATCHDOG_MS = 500 /* the kernel resets a core whose task takes longer */
};

#endif
