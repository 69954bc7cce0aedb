/* Plain products and random operands for the device tests. */
#ifndef PRODUCT_H
#define PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ork.h"

/* Operands of one matmul as host elements, and what C has to be. Integers: want. fp16: the exact
 * sums in double, and the sum of |a * b| that scales the error bound. */
struct product {
    enum ork_type type;
    uint32_t m, n, k;
    void *a, *b;
    int32_t *want;
    double *exact, *magnitude;
    void *c; /* room for the result, in 4-byte elements */
};

/* range: integer codes are within +-range. Exits the test on no memory. */
void product_make(struct product *p, enum ork_type type, uint32_t m, uint32_t n, uint32_t k,
                  int range, uint64_t seed);
/* The same in two steps: room for operands that the caller fills in, then the right results. */
void product_alloc(struct product *p, enum ork_type type, uint32_t m, uint32_t n, uint32_t k);
void product_multiply(struct product *p);
/* Fails the test when c is not the product. */
void product_check(const struct product *p);
void product_free(struct product *p);

/* A simulated device, with the options of ORK_SIM (NULL: none); fails the test when it cannot be.
 */
struct ork_device *product_open_sim(const char *sim_options, bool verify);
/* A packed weight of p's B. */
struct ork_weight *product_weight(const struct product *p, struct ork_device *device,
                                  const struct ork_weight_options *options);
/* The call that computes p into p->c. */
struct ork_matmul product_call(const struct product *p, const struct ork_weight *weight);

#endif
