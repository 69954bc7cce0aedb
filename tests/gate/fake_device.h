/*
 * A ggml device of the tests, on the backend interface of npu/abi: memory of its own (which nobody
 * else may touch directly) and the CPU backend's kernels, so that its results are the CPU's bits;
 * and every fault a device may have. The one device is shared by the process; faults are set and
 * cleared between requests.
 */
#ifndef GATE_FAKE_DEVICE_H
#define GATE_FAKE_DEVICE_H

#include <ggml-backend.h>

struct fake_faults {
    bool no_open;               /* no backend can be made */
    enum ggml_type refuse_type; /* matmuls with such a matrix; GGML_TYPE_COUNT: none */
    enum ggml_op refuse_op;     /* GGML_OP_NONE: none */
    enum ggml_op narrow_op;     /* a matmul that is refused below narrow tokens */
    int64_t narrow;
    enum ggml_type wrong_type; /* products of such a matrix are wrong; GGML_TYPE_COUNT: none */
    bool poison;               /* the last node of a graph becomes infinite */
    int fail_after;            /* graphs until each fails; negative: never */
    size_t memory_bytes;       /* it has; 0: 64 GiB */
    bool mute;                 /* does not say how much */
    enum fake_padding {
        FAKE_NO_PADDING,
        FAKE_PADDED_END, /* some bytes behind the last expert, as CUDA has them */
        FAKE_UNEVEN      /* ever more from expert to expert */
    } padding;
    bool host_buffer;  /* has a host buffer type */
    bool host_ptr;     /* makes a buffer of memory that is there */
    uint64_t delay_us; /* more for each graph */
    bool hollow;       /* computes single ops only; else routing and the last are zero */
    bool (*instead)(void *user, struct ggml_cgraph *graph); /* true: it has computed the graph */
    void (*on_graph)(void *user);                           /* called when one is computed */
    void *user;
};

struct fake_counts {
    unsigned opened; /* backends made */
    unsigned closed; /* and freed */
    unsigned graphs; /* computed */
    int64_t nodes;   /* of them, but for views and empty ones */
};

extern const char *fake_name; /* FAKE0 */
extern struct fake_faults fake_faults;
extern struct fake_counts fake_counts;

/* Wants the CPU backend loaded; with 0 threads it has no kernels, and wants nothing. */
ggml_backend_dev_t fake_device(unsigned n_threads);
/* Bytes that its buffers of the host type take now, and those of its own. */
size_t fake_device_host_bytes(void);
size_t fake_device_own_bytes(void);
/* None of the faults. */
void fake_device_heal(void);

#endif
