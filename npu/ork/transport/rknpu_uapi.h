/* The vendor kernel driver's ioctls (DRM driver "rknpu", 0.8 to 0.9.8), as numbers and layouts.
 *
 * Written from the documented offsets; every one is asserted. "out" marks what the kernel fills
 * in [vendor kernel]. */
#ifndef ORK_RKNPU_UAPI_H
#define ORK_RKNPU_UAPI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/drm.h"

struct rknpu_action {
    uint32_t action;
    uint32_t value; /* in and out */
};

struct rknpu_mem_create {
    uint32_t handle; /* out */
    uint32_t flags;
    uint64_t size;
    uint64_t obj_addr; /* out: kernel object */
    uint64_t dma_addr; /* out: device address */
    uint64_t sram_size;
    int32_t iommu_domain_id;
    uint32_t core_mask;
};

struct rknpu_mem_map {
    uint32_t handle;
    uint32_t reserved;
    uint64_t offset; /* out: for mmap */
};

struct rknpu_mem_destroy {
    uint32_t handle;
    uint32_t reserved;
    uint64_t obj_addr;
};

struct rknpu_mem_sync {
    uint32_t flags; /* 1 to device, 2 from device */
    uint32_t reserved;
    uint64_t obj_addr;
    uint64_t offset;
    uint64_t size;
};

struct rknpu_subcore_task {
    uint32_t task_start;
    uint32_t task_number;
};

struct rknpu_submit {
    uint32_t flags;
    uint32_t timeout; /* ms */
    uint32_t task_start;
    uint32_t task_number;
    uint32_t task_counter; /* out: tasks done */
    int32_t priority;
    uint64_t task_obj_addr;
    uint32_t iommu_domain_id;
    uint32_t reserved;
    uint64_t task_base_addr;
    int64_t hw_elapse_time; /* out: ns */
    uint32_t core_mask;
    int32_t fence_fd;
    struct rknpu_subcore_task subcore_task[5];
};

/* One element of the task array, which lives in a buffer that the kernel reads. */
struct rknpu_task {
    uint32_t flags;
    uint32_t op_idx;
    uint32_t enable_mask;
    uint32_t int_mask;
    uint32_t int_clear;
    uint32_t int_status; /* out */
    uint32_t regcfg_amount;
    uint32_t regcfg_offset;
    uint64_t regcmd_addr;
};

static_assert(sizeof(struct rknpu_action) == 8, "action");
static_assert(sizeof(struct rknpu_mem_create) == 48, "mem_create");
static_assert(offsetof(struct rknpu_mem_create, size) == 8, "mem_create.size");
static_assert(offsetof(struct rknpu_mem_create, obj_addr) == 16, "mem_create.obj_addr");
static_assert(offsetof(struct rknpu_mem_create, dma_addr) == 24, "mem_create.dma_addr");
static_assert(offsetof(struct rknpu_mem_create, iommu_domain_id) == 40, "mem_create.domain");
static_assert(offsetof(struct rknpu_mem_create, core_mask) == 44, "mem_create.core_mask");
static_assert(sizeof(struct rknpu_mem_map) == 16, "mem_map");
static_assert(offsetof(struct rknpu_mem_map, offset) == 8, "mem_map.offset");
static_assert(sizeof(struct rknpu_mem_destroy) == 16, "mem_destroy");
static_assert(offsetof(struct rknpu_mem_destroy, obj_addr) == 8, "mem_destroy.obj_addr");
static_assert(sizeof(struct rknpu_mem_sync) == 32, "mem_sync");
static_assert(offsetof(struct rknpu_mem_sync, offset) == 16, "mem_sync.offset");
static_assert(sizeof(struct rknpu_submit) == 104, "submit");
static_assert(offsetof(struct rknpu_submit, task_counter) == 16, "submit.task_counter");
static_assert(offsetof(struct rknpu_submit, task_obj_addr) == 24, "submit.task_obj_addr");
static_assert(offsetof(struct rknpu_submit, iommu_domain_id) == 32, "submit.domain");
static_assert(offsetof(struct rknpu_submit, task_base_addr) == 40, "submit.task_base_addr");
static_assert(offsetof(struct rknpu_submit, hw_elapse_time) == 48, "submit.hw_elapse_time");
static_assert(offsetof(struct rknpu_submit, core_mask) == 56, "submit.core_mask");
static_assert(offsetof(struct rknpu_submit, fence_fd) == 60, "submit.fence_fd");
static_assert(offsetof(struct rknpu_submit, subcore_task) == 64, "submit.subcore_task");
static_assert(sizeof(struct rknpu_task) == 40, "task");
static_assert(offsetof(struct rknpu_task, int_status) == 20, "task.int_status");
static_assert(offsetof(struct rknpu_task, regcmd_addr) == 32, "task.regcmd_addr");

#define RKNPU_REQUEST_ACTION      DRM_IOWR(0x40, struct rknpu_action)
#define RKNPU_REQUEST_SUBMIT      DRM_IOWR(0x41, struct rknpu_submit)
#define RKNPU_REQUEST_MEM_CREATE  DRM_IOWR(0x42, struct rknpu_mem_create)
#define RKNPU_REQUEST_MEM_MAP     DRM_IOWR(0x43, struct rknpu_mem_map)
#define RKNPU_REQUEST_MEM_DESTROY DRM_IOWR(0x44, struct rknpu_mem_destroy)
#define RKNPU_REQUEST_MEM_SYNC    DRM_IOWR(0x45, struct rknpu_mem_sync)

static_assert(RKNPU_REQUEST_ACTION == 0xC0086440, "ACTION");
static_assert(RKNPU_REQUEST_SUBMIT == 0xC0686441, "SUBMIT");
static_assert(RKNPU_REQUEST_MEM_CREATE == 0xC0306442, "MEM_CREATE");
static_assert(RKNPU_REQUEST_MEM_MAP == 0xC0106443, "MEM_MAP");
static_assert(RKNPU_REQUEST_MEM_DESTROY == 0xC0106444, "MEM_DESTROY");
static_assert(RKNPU_REQUEST_MEM_SYNC == 0xC0206445, "MEM_SYNC");

enum {
    RKNPU_ACTION_HW_VERSION = 0,
    RKNPU_ACTION_DRV_VERSION = 1,
    RKNPU_ACTION_GET_DOMAIN = 24,

    RKNPU_MEM_NON_CONTIGUOUS = 0x1,
    RKNPU_MEM_CACHEABLE = 0x2,
    RKNPU_MEM_KERNEL_MAPPING = 0x8, /* the kernel reads the task array through it */
    RKNPU_MEM_IOVA_ALIGNMENT = 0x400,
    RKNPU_MEM_DATA = RKNPU_MEM_NON_CONTIGUOUS | RKNPU_MEM_CACHEABLE | RKNPU_MEM_IOVA_ALIGNMENT,
    RKNPU_MEM_TASKS = RKNPU_MEM_DATA | RKNPU_MEM_KERNEL_MAPPING,

    RKNPU_SYNC_TO_DEVICE = 1,
    RKNPU_SYNC_FROM_DEVICE = 2,

    RKNPU_JOB_PC = 1,
    RKNPU_JOB_PINGPONG = 4,

    RKNPU_MAX_TASKS = 4095,
    RKNPU_MAX_DOMAINS = 16
};

#endif
