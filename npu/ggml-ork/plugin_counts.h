/* What a program gets from the proc address "ggml_backend_ork_counts", a function of type
 * void (*)(ggml_backend_dev_t, struct plugin_counts *): counted since the plug-in was loaded. */
#ifndef GGML_ORK_PLUGIN_COUNTS_H
#define GGML_ORK_PLUGIN_COUNTS_H

#include <stdint.h>

struct plugin_counts {
    uint64_t nodes;         /* of graphs, computed here */
    uint64_t npu_products;  /* MUL_MAT and MUL_MAT_ID nodes multiplied by the NPU */
    uint64_t host_products; /* by the host, from the packed weights */
    uint64_t rows_coded;
    uint64_t rows_shared;   /* needed by a product and found coded */
    uint64_t norms_fused;   /* RMS_NORM and MUL done while coding */
    uint64_t plain_skipped; /* of those, whose plain rows nobody reads and nobody wrote */
    uint64_t pack_found;    /* matrices taken from the file of ORK_PACK */
    uint64_t pack_added;    /* packed and put there */
};

#endif
