/* ork: matrix multiplication on the RK3588 NPU, over the vendor kernel driver, the mainline
 * accel driver or a simulator that decodes the same command words.
 *
 * Nouns. A device is one opened NPU (up to three cores). A weight is a packed K x N matrix that
 * stays in device memory. An input is a packed M x K activation matrix that several matmuls may
 * share. A matmul is C[M][N] = A[M][K] * B[N][K]^T. A fence stands for a batch of matmuls in
 * flight.
 *
 * Threads. A device may be used from any number of threads. A weight or input may be read by
 * any number of matmuls at once, but not packed while one is in flight. One thread waits for a
 * fence.
 *
 * Errors. int: 0 or a negative errno; *out is set on success only. Calls that take a struct
 * ork_error * (may be NULL) fill in one sentence that names the thing and the way out. Nothing
 * here exits, aborts or prints. Sizes are checked; what the chip cannot do is -EOPNOTSUPP. */
#ifndef ORK_H
#define ORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ORK_API __attribute__((visibility("default")))
#else
#define ORK_API
#endif

struct ork_device;
struct ork_weight;
struct ork_input;
struct ork_fence;

struct ork_error {
    int code;       /* the negative errno that was returned */
    char text[256]; /* one sentence, always terminated */
};

/* Operand, operand -> accumulator as the host sees it. int4 codes are held one per int8_t
 * (-8..7) on the host, packed two to a byte by ork; its device output is int16, saturating, so K
 * is split so that no sum can reach the bound (see ork_weight_options.i4_absmax). */
enum ork_type {
    ORK_I8_I32,  /* int8_t  x int8_t  -> int32_t */
    ORK_I4_I16,  /* int4    x int4    -> int32_t on the host, int16 per K slice on the device */
    ORK_F16_F32, /* fp16 bits (uint16_t) -> float */
    ORK_F16_F16, /* fp16 bits -> fp16 bits; K slices are added in float, rounded once more */
    ORK_N_TYPES,
};

/* How int4 rows are laid out. Dense is the fast path; the others exist for comparison. BCHAIN and
 * ROWS are refused unless selftest_m1 is 1: they rest on what it proves. */
enum ork_i4_mode {
    ORK_I4_DENSE,   /* cube, every row useful [silicon, bit-exact] */
    ORK_I4_STRIDE2, /* 2H rows programmed, row m at physical row 2m, 0x405c = 0 [wiki] */
    ORK_I4_BCHAIN,  /* 4H rows programmed, row j at row 4j, 64-column blocks [production ork] */
    ORK_I4_ROWS,    /* one program per row, chained [vendor runtime] */
};

/* ---- device ------------------------------------------------------------------------------ */

struct ork_open_options {
    size_t size;             /* sizeof(struct ork_open_options) */
    const char *transport;   /* "vendor", "mainline", "sim"; NULL = the first that is there */
    const char *sim_options; /* see ork_sim_open; only with "sim" */
    uint32_t n_cores;        /* use at most so many; 0 = all */
    uint32_t timeout_ms;     /* of one job; 0 = 3000 */
    bool skip_selftest;      /* trust nothing unproven: pad M to 4, no integer chaining */
    bool verify;             /* fill outputs with a pattern, wait until all of it is gone */
    bool no_rdma_block;      /* program without the DPU_RDMA block (mask 0x0d, not 0x1d) */
};

/* What the device can do. The selftest_* members are verdicts measured at open: 1 proven right,
 * 0 proven wrong, -1 not tried. */
struct ork_caps {
    char transport[32];
    char device[64];
    uint32_t hw_version;
    uint32_t drv_version;
    uint32_t n_cores;
    uint32_t n_domains;
    uint64_t iova_bytes;
    bool simulated;
    uint32_t m_multiple;   /* rows are padded to this: 4, or 1 when selftest_m1 is 1 */
    int8_t selftest_i8;    /* exact product */
    int8_t selftest_m1;    /* M = 1 with a signed surface stride */
    int8_t selftest_i4;    /* int4 dense, exact */
    int8_t selftest_f16;   /* within the bound */
    int8_t selftest_chain; /* int8 programs chained in one kick stay exact */
    double submit_us;      /* least time of a smallest job, of a simulator by its model; 0 = not
                            * measured */
};

/* Counted since open. */
struct ork_stats {
    uint64_t submits;
    uint64_t programs;
    uint64_t matmuls;
    uint64_t macs;        /* asked for */
    uint64_t macs_padded; /* computed, padding and wasted rows included */
    uint64_t bytes_read;  /* by the device, planned */
    uint64_t bytes_written;
    uint64_t packed_bytes;    /* activations packed by the host */
    uint64_t unpacked_bytes;  /* outputs read back by the host */
    uint64_t saturated_cells; /* int16 outputs at a bound (seen at read-back) */
    uint64_t failed_jobs;
    uint64_t verify_retries; /* lines that were late and arrived */
    uint64_t bo_bytes;       /* device memory held now */
    uint64_t bo_bytes_peak;
    double wall_us;      /* submit to done, summed over fences */
    double device_us;    /* told by the kernel, or modelled by the simulator; busiest core */
    double predicted_us; /* by the plan and the time model, device share only */
};

ORK_API int ork_device_open(const struct ork_open_options *options, struct ork_device **out,
                            struct ork_error *error);
/* Waits for what is in flight. Weights, inputs and fences must be gone. NULL is fine. */
ORK_API void ork_device_close(struct ork_device *device);
ORK_API void ork_device_caps(const struct ork_device *device, struct ork_caps *out);
ORK_API void ork_device_stats(const struct ork_device *device, struct ork_stats *out);
/* Runs the self test again and stores its verdicts. 0 = ran, whatever the verdicts. */
ORK_API int ork_device_selftest(struct ork_device *device, struct ork_error *error);
/* 0, or -EIO once a failed job left the device unusable (every later call returns that). */
ORK_API int ork_device_health(const struct ork_device *device);

/* Calls part(user, i) once for each i below n, on any threads, and returns when all are done. */
typedef void ork_runner(void *context, size_t n, void (*part)(void *user, size_t i), void *user);
/* Outputs are read back by this one, unless there are few; NULL (at open): by the thread that
 * waits. Before any batch is submitted. */
ORK_API void ork_device_set_runner(struct ork_device *device, ork_runner *runner, void *context);

/* ---- weights ----------------------------------------------------------------------------- */

struct ork_weight_options {
    size_t size;          /* sizeof(struct ork_weight_options) */
    uint32_t k_slice;     /* most K per program; 0 = the best known (or the int4 bound) */
    uint32_t i4_absmax;   /* largest |code| on either side: 8 (default, 0) or 7 */
    bool i4_may_saturate; /* int4: allow longer slices; saturated cells are counted */
    enum ork_i4_mode i4_mode;
    uint32_t domain; /* IOMMU domain, 0 .. caps.n_domains - 1 */
};

/* Device bytes a weight of this shape takes; 0 = refused, error says why. options may be NULL. */
ORK_API uint64_t ork_weight_bytes(enum ork_type type, uint32_t n, uint32_t k,
                                  const struct ork_weight_options *options,
                                  struct ork_error *error);
/* Allocates; contents are zero until packed. */
ORK_API int ork_weight_create(struct ork_device *device, enum ork_type type, uint32_t n, uint32_t k,
                              const struct ork_weight_options *options, struct ork_weight **out,
                              struct ork_error *error);
/* Packs rows n0 .. n0 + n_rows - 1 of B (row-major, K elements each, type's host element). Row
 * ranges may be packed by several threads at once when n0 is a multiple of 64. */
ORK_API int ork_weight_pack(struct ork_weight *weight, uint32_t n0, uint32_t n_rows,
                            const void *rows);
/* Reads rows back into host elements (tests, evicting to disk). */
ORK_API int ork_weight_unpack(const struct ork_weight *weight, uint32_t n0, uint32_t n_rows,
                              void *rows);
/* The packed bytes as they lie on the device, for keeping; and put back into a weight of the same
 * type, shape and options. */
ORK_API const void *ork_weight_image(const struct ork_weight *weight, uint64_t *bytes);
ORK_API int ork_weight_set_image(struct ork_weight *weight, const void *image);
ORK_API uint32_t ork_weight_n_slices(const struct ork_weight *weight);
ORK_API void ork_weight_destroy(struct ork_weight *weight);

/* ---- inputs ------------------------------------------------------------------------------ */

/* An input fits every weight with the same type, K and slicing as `like`, for up to max_m rows. */
ORK_API int ork_input_create(struct ork_device *device, const struct ork_weight *like,
                             uint32_t max_m, struct ork_input **out, struct ork_error *error);
/* Packs m rows (row-major host elements). Any m <= max_m; the next matmul uses that m. */
ORK_API int ork_input_pack(struct ork_input *input, uint32_t m, const void *rows);

/* What ork_input_quantise does to each float row x[K], in one pass: x *= rsqrt(mean(x^2) + eps)
 * * norm[k] (if norm), Walsh-Hadamard rotation in blocks of the largest power of two dividing K
 * (if rotate), scale = absmax / code_max, code = round half away(x / scale). Scales stay with the
 * input and are applied by matmuls whose output is float. Integer types only. per_slice: one scale
 * per row and K slice, for matmuls with scales_per_slice. */
struct ork_quantise {
    size_t size;       /* sizeof(struct ork_quantise) */
    const float *norm; /* K RMSNorm weights, or NULL for none */
    float eps;
    bool rotate;
    bool per_slice;
    size_t row_stride; /* floats between rows; 0 = K */
};
ORK_API int ork_input_quantise(struct ork_input *input, uint32_t m, const float *rows,
                               const struct ork_quantise *how);
/* The same in parts, each the rows of one matmul (an expert's): begin lays them out and grows the
 * input where needed (nothing may be in flight), put places a row coded by ork_quantise_row, on
 * several threads at once for different rows, finish hands all to the device. */
ORK_API int ork_input_begin(struct ork_input *input, const uint32_t *part_rows, size_t n_parts,
                            bool per_slice);
ORK_API int ork_input_put(struct ork_input *input, size_t part, uint32_t m, const int8_t *codes,
                          const float *scales);
ORK_API int ork_input_finish(struct ork_input *input);
/* Of part 0: m floats (n_slices x m); NULL when the input was not quantised. */
ORK_API const float *ork_input_scales(const struct ork_input *input);
/* One row on the host, coded as ork_input_quantise does: k codes, a scale for each `slice` of them
 * (0 = one). room: k floats. */
ORK_API void ork_quantise_row(const struct ork_quantise *how, uint32_t code_max, const float *row,
                              uint32_t k, uint32_t slice, float *room, int8_t *codes,
                              float *scales);
ORK_API void ork_input_destroy(struct ork_input *input);

/* In place: every block of `block` (a power of two) floats of n is rotated, orthonormal. */
ORK_API void ork_fwht(float *x, size_t n, size_t block);
/* The largest power of two that divides k. */
ORK_API uint32_t ork_fwht_block(uint32_t k);

/* ---- matmul ------------------------------------------------------------------------------ */

struct ork_matmul {
    size_t size;                     /* sizeof(struct ork_matmul) */
    const struct ork_weight *weight; /* borrowed until the fence is waited for */
    const struct ork_input *input;   /* packed, or NULL: pack `a` now */
    const void *a;                   /* M x K host elements; only without input; not kept */
    size_t part;                     /* of the input */
    uint32_t m;                      /* rows; with input exactly those its part holds */
    void *c;                         /* M x c_stride of the host output element; written by wait */
    size_t c_stride;                 /* elements between rows; 0 = N */
    const uint32_t *c_rows;          /* row i goes to row c_rows[i] of c; NULL = i; read by wait */
    /* Integer types: when b_scale is set, c is float: c = a_scale[m] * b_scale[n] * sum. */
    const float *b_scale;  /* N floats (or n_slices x N with scales_per_slice) */
    const float *a_scale;  /* M floats; NULL = the input's own */
    bool scales_per_slice; /* a_scale is n_slices x M, b_scale n_slices x N */
};

/* Packs, plans, submits all of them together (one job per core for the whole batch where the
 * transport can), and returns. Weights and inputs of one batch share a domain. -EAGAIN: more jobs
 * in flight than the transport holds; wait for a fence first. */
ORK_API int ork_matmul_submit(struct ork_device *device, const struct ork_matmul *batch, size_t n,
                              struct ork_fence **out, struct ork_error *error);
/* Waits, reads the outputs back into every c, frees the fence. timeout_us < 0 = no limit;
 * -ETIMEDOUT keeps the fence. A failed job is -EIO: c is untouched, weights and inputs are intact,
 * and the device was tried again and is usable, or ork_device_health says it is not. */
ORK_API int ork_fence_wait(struct ork_fence *fence, int64_t timeout_us, struct ork_error *error);
/* submit + wait. */
ORK_API int ork_matmul_run(struct ork_device *device, const struct ork_matmul *batch, size_t n,
                           struct ork_error *error);
/* The same product by the calling thread, from the packed memory: columns n0 (a multiple of 64)
 * to n0 + n_cols, bit for bit what the device gives. Integer types with b_scale and an input; room:
 * K + 31 bytes. -EOPNOTSUPP where the device might saturate. */
ORK_API int ork_matmul_host(const struct ork_matmul *call, uint32_t n0, uint32_t n_cols,
                            int8_t *room);
/* Text dump of the program that failed last, NULL if none; the caller frees it. */
ORK_API char *ork_device_last_failure(const struct ork_device *device);

#ifdef __cplusplus
}
#endif

#endif
