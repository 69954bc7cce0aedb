/* The routed experts of one layer as batches of the driver's plan, without a device: what the plan
 * counts and what the time model makes of it. Pure arithmetic, the same on every machine. */
#ifndef ORK_EXPERT_LAYER_H
#define ORK_EXPERT_LAYER_H

#include "ork_plan.h"

#define EXPERT_MATRICES 3
#define EXPERT_MOST     256

struct expert_layer {
    const char *name;
    uint32_t layers;
    uint32_t n_experts;
    uint32_t n_used; /* per token */
    uint32_t n_matrices;
    struct {
        uint32_t n, k;
    } matrices[EXPERT_MATRICES]; /* each is one product of a graph */
    double file_bits;            /* per weight in the file the model comes in */
};

/* The three models of the table, at *n. */
const struct expert_layer *expert_layers(size_t *n);

/* Rows that each expert gets of so many tokens, routed to n_used different experts by a generator
 * with a fixed seed. */
void expert_route(const struct expert_layer *layer, uint32_t tokens, uint32_t rows[EXPERT_MOST]);

/* How the NPU is used. */
struct expert_use {
    enum ork_type type;
    enum ork_i4_mode i4_mode;
    uint32_t group;      /* K slice with scales of its own; 0 = the longest */
    uint32_t m_multiple; /* rows of an expert are padded to this */
};

struct expert_cost {
    uint32_t active;   /* experts that have rows */
    uint32_t submits;  /* batches */
    uint32_t programs; /* of all cores */
    double waste;      /* share of the multiply-adds spent on padding and junk rows */
    double device_us;  /* without what a submit costs */
    double host_us;    /* packing rows and reading outputs back, one thread */
    double submit_us;  /* by the time model */
    double weight_bytes;
};

/* All experts whose rows lie within [low, high], per product in one batch. 0, or an errno where the
 * plan refuses. */
int expert_cost_npu(const struct expert_layer *layer, const struct expert_use *use,
                    const uint32_t rows[EXPERT_MOST], uint32_t low, uint32_t high,
                    struct expert_cost *out);
/* Of the host, streaming the same experts' weights as they are in the file. */
double expert_cost_cpu_us(const struct expert_layer *layer, const uint32_t rows[EXPERT_MOST],
                          uint32_t low, uint32_t high);
/* Bytes of all experts of all layers. */
double expert_resident_bytes(const struct expert_layer *layer, enum ork_type type);
/* Rotating the rows of every product that reads them; shared: gate and up find them rotated. */
double expert_cost_rotation_us(const struct expert_layer *layer, uint32_t tokens, bool shared);

#endif
