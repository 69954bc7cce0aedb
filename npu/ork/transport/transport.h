/* The seam between the driver and whatever runs its programs: the vendor kernel driver, the
 * mainline accel driver, the simulator, or a recorder in the tests. Everything above this header
 * is the same for all of them; everything below it knows one world's handles and ioctls.
 *
 * Nouns. A bo is device memory with a 32-bit device address (iova) and a host mapping. A program
 * is a run of 64-bit command entries in a bo, four-entry tail included. A job is a list of
 * programs run in order on one core. A ticket names a submitted job until it has been waited for.
 *
 * Threads. bo_create, bo_destroy and submit may be called from any thread; the implementation
 * locks. bo_sync may run concurrently, also on one bo where the ranges do not overlap. One thread
 * waits for one ticket; any number of tickets may be outstanding up to info.max_jobs, beyond that
 * submit blocks or returns -EAGAIN. Jobs on one core finish in the order submitted; jobs on
 * different cores overlap.
 *
 * Errors are negative errno. A transport never prints, exits, or retries a failed job. */
#ifndef ORK_TRANSPORT_H
#define ORK_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORK_MAX_CORES 3

struct ork_error; /* ork.h */

/* How several programs of one job reach the hardware. The driver above writes the tails. */
enum ork_chain {
    ORK_CHAIN_NONE,     /* one kick per program; a tail that points on would stall [mainline] */
    ORK_CHAIN_REQUIRED, /* one kick per job: only the tails lead from program to program [vendor] */
    ORK_CHAIN_EITHER,   /* simulator: follows the tails where they lead, kicks the rest */
};

/* Which kernel's costs the time model applies. */
enum ork_kernel {
    ORK_KERNEL_VENDOR,   /* 1 GHz */
    ORK_KERNEL_MAINLINE, /* 600 MHz */
};

enum ork_bo_flags {
    ORK_BO_CACHED = 0,              /* host caches it; bo_sync around every job */
    ORK_BO_WRITE_COMBINE = 1u << 0, /* commands: aligned 8-byte host writes, never read;
                                     * submit makes them visible to the device itself */
};

enum ork_sync {
    ORK_SYNC_TO_DEVICE = 1,   /* what the host wrote becomes visible to the device */
    ORK_SYNC_FROM_DEVICE = 2, /* what the device wrote becomes visible to the host */
};

/* Owned by the transport from bo_create to bo_destroy; the caller only keeps the struct.
 * Invariants: bytes is a multiple of the page size, iova is 16-byte aligned (page aligned on
 * every known kernel), iova + bytes <= 2^32. iova 0 is possible: the driver keeps that bo as its
 * guard and asks for another. */
struct ork_bo {
    void *map;       /* host address, never NULL */
    uint64_t bytes;  /* rounded up */
    uint32_t iova;   /* device address of byte 0 */
    uint32_t domain; /* IOMMU domain it lives in */
    uint32_t flags;  /* enum ork_bo_flags */
    uint32_t handle; /* the transport's own */
    uint64_t obj;    /* the transport's own (vendor: kernel object address) */
    void *priv;      /* the transport's own */
};

struct ork_program_ref {
    uint32_t iova;      /* of the first entry; 16-byte aligned */
    uint32_t n_entries; /* with the tail of four; the vendor kernel is told n_entries - 4 */
};

/* One job. All pointers are borrowed until submit returns. Every bo a program touches must be
 * listed: reads tells read-only (commands, activations, weights), writes tells outputs. All bos
 * share one domain. */
struct ork_job {
    size_t size;                            /* sizeof(struct ork_job) */
    const struct ork_program_ref *programs; /* n_programs, in order */
    uint32_t n_programs;                    /* 1 .. info.max_programs */
    uint32_t core;                          /* 0 .. info.n_cores - 1 */
    bool chained;                           /* the tails link the programs */
    const struct ork_bo *const *reads;
    uint32_t n_reads;
    const struct ork_bo *const *writes;
    uint32_t n_writes;
    uint32_t timeout_ms; /* the kernel's own watchdog, where it takes one; 0 = its default */
};

/* What became of a job. error is 0 or: -ETIMEDOUT (never finished, core was reset), -EIO (the
 * device reported a fault or wrong status), -EFAULT (an address outside every bo, simulator),
 * -EINVAL (a program the hardware would hang on or silently corrupt, simulator). */
struct ork_job_result {
    int error;
    uint32_t programs_done; /* of n_programs, where known; else n_programs or 0 */
    uint32_t status;        /* raw interrupt status of the last program, 0 where not told */
    uint32_t bad_iova;      /* simulator: the offending program's address */
    double device_us;       /* kernel's own figure, or the simulator's modelled time; 0 = unknown */
    uint64_t saturated;     /* simulator: int16 output cells that hit a bound */
    char text[160];         /* one sentence when error != 0; the register named where known */
};

struct ork_transport_info {
    char name[32];         /* "vendor", "mainline", "sim" */
    char device[64];       /* node path, or what is simulated */
    uint32_t hw_version;   /* 0 = not told */
    uint32_t drv_version;  /* as the kernel gives it */
    uint32_t n_cores;      /* 1 .. ORK_MAX_CORES */
    uint32_t n_domains;    /* >= 1 */
    uint64_t iova_bytes;   /* usable device addresses per domain */
    uint32_t max_programs; /* per job */
    uint32_t max_jobs;     /* outstanding tickets */
    enum ork_chain chain;
    enum ork_kernel kernel;
    bool simulated;
};

struct ork_transport {
    const struct ork_transport_ops *ops;
    /* the implementation's struct begins with this one */
};

struct ork_transport_ops {
    /* Fills *out; cannot fail, asks nothing of the device. */
    void (*info)(const struct ork_transport *t, struct ork_transport_info *out);

    /* Allocates and maps. bytes > 0. -ENOMEM: memory or device addresses are used up in that
     * domain; -EINVAL: no such domain. Memory is zero-filled. */
    int (*bo_create)(struct ork_transport *t, uint64_t bytes, uint32_t flags, uint32_t domain,
                     struct ork_bo *out);

    /* Unmaps and frees; no job may use it any more. Clears *bo. Takes a zeroed struct. */
    void (*bo_destroy)(struct ork_transport *t, struct ork_bo *bo);

    /* Cache maintenance of a byte range; dir is ORK_SYNC_TO_DEVICE | ORK_SYNC_FROM_DEVICE as
     * needed. On mainline FROM_DEVICE may block until jobs that write the bo are done. */
    int (*bo_sync)(struct ork_transport *t, const struct ork_bo *bo, uint64_t offset,
                   uint64_t bytes, unsigned dir);

    /* Queues the job, returns at once, sets *ticket. -EINVAL: the job breaks a limit of info;
     * -EAGAIN: too many outstanding; -ENODEV: the device is gone. A job that was not queued
     * leaves no ticket. */
    int (*submit)(struct ork_transport *t, const struct ork_job *job, uint64_t *ticket);

    /* Waits for the ticket, fills *out and retires the ticket: returns 0 also when the job
     * failed (out->error says so). -ETIMEDOUT: not done within timeout_us (< 0 = no limit), the
     * ticket stays. -ENOENT: no such ticket. Never returns -EINTR. */
    int (*wait)(struct ork_transport *t, uint64_t ticket, int64_t timeout_us,
                struct ork_job_result *out);

    /* Waits for outstanding jobs (bounded by their watchdogs), frees everything but the caller's
     * bos, which must be destroyed before. */
    void (*close)(struct ork_transport *t);
};

/* One open function per world; *out on success only, error filled otherwise. -ENODEV: no such
 * device here (try the next one); -EACCES, -EPERM: it exists and may not be used;
 * -EOPNOTSUPP: it is another chip or driver version. */
int ork_vendor_open(struct ork_transport **out, struct ork_error *error);
int ork_mainline_open(struct ork_transport **out, struct ork_error *error);

/* The simulator. options: comma-separated key=value, NULL = defaults: kernel=vendor|mainline
 * (clock, costs and chaining rule), cores=1..3, iova_base=N (first device address), threads=0|1
 * (run each core on a thread of its own). */
int ork_sim_open(const char *options, struct ork_transport **out, struct ork_error *error);

#endif
