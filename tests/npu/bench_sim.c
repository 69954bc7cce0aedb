/* How fast one simulated core is on this machine, decoding and layouts included, per second of
 * processor time (a busy machine does not change it much).
 *
 * Prints GMAC/s per type for one row and for many. `bench_sim N` exits 1 when int8 with many rows
 * stays below N GMAC/s. The programs are the captured cube programs, enlarged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim_hand.h"

enum { K = 2048, N = 2048, FEATURES = 0x1000000, WEIGHTS = 0x2000000, OUTPUT = 0x4000000 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Sets every register that repeats the shape. */
static void enlarge(struct hand_program *p, uint32_t m, uint32_t bits, uint32_t per_group)
{
    const uint32_t kernel_bytes = K * bits / 8;
    const uint32_t data_banks = (m * kernel_bytes + 32767) / 32768 + (bits == 8);
    const uint32_t set[][2] = {
        {0x1020, 0x10000 | m},
        {0x1084, 0x10000 | m},
        {0x1024, (K - 1) << 16 | K},
        {0x1088, K},
        {0x102c, m},
        {0x1030, kernel_bytes * N},
        {0x1034, kernel_bytes},
        {0x1038, 0x1010000 | N},
        {0x1040, (12 - data_banks) << 4 | data_banks},
        {0x1044, kernel_bytes / 64},
        {0x1080, (m - 4) & 0x0fffffff},
        {0x3014, (m - 1) << 16},
        {0x3018, N - 1},
        {0x4024, m << 4},
        {0x4034, m - 1},
        {0x403c, (N - 1) << 16 | (N - 1)},
        {0x4058, N - 1},
        {0x405c, (m - 1) << 16},
        {0x40c0, m * per_group << 4},
        {0x1070, FEATURES},
        {0x1110, WEIGHTS},
        {0x4020, OUTPUT},
    };
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        hand_set(p, set[i][0], set[i][1]);
}

static void *add(struct hand_machine *x, uint32_t iova, size_t bytes)
{
    void *host = calloc(1, bytes);
    if (!host || sim_mem_add(&x->mem, iova, host, bytes))
        abort();
    return host;
}

static double measure(struct hand_machine *x, enum hand_kind kind, uint32_t m, uint32_t bits,
                      uint32_t per_group)
{
    struct hand_program p;
    double start, macs = 0;
    hand_build(&p, kind, true);
    enlarge(&p, m, bits, per_group);
    hand_set(&p, 0x5010, m - 1);
    hand_set(&p, 0x5014, N - 1);
    start = seconds();
    do {
        if (hand_run(x, &p)) {
            fprintf(stderr, "bench_sim: %s\n", x->fault.text);
            exit(1);
        }
        macs += (double)x->counts.macs;
    } while (seconds() - start < 0.3);
    return macs / (seconds() - start) / 1e9;
}

int main(int argc, char **argv)
{
    const double wanted = argc > 1 ? atof(argv[1]) : 0;
    struct hand_machine x;
    double int8;
    void *blocks[3];
    hand_machine_init(&x);
    blocks[0] = add(&x, FEATURES, 64 * K * 2);
    blocks[1] = add(&x, WEIGHTS, (size_t)K * N * 2);
    blocks[2] = add(&x, OUTPUT, 64 * N * 4);
    int8 = measure(&x, HAND_I8_CUBE, 64, 8, 8);
    printf("type   rows   GMAC/s of one core (K 2048, N 2048)\n");
    printf("int8     64   %.1f\n", int8);
    printf("int8      4   %.1f\n", measure(&x, HAND_I8_CUBE, 4, 8, 8));
    printf("int4     64   %.1f\n", measure(&x, HAND_I4_CUBE, 64, 4, 8));
    printf("int4      4   %.1f\n", measure(&x, HAND_I4_CUBE, 4, 4, 8));
    printf("fp16     64   %.1f\n", measure(&x, HAND_F16_CUBE, 64, 16, 4));
    printf("fp16      4   %.1f\n", measure(&x, HAND_F16_CUBE, 4, 16, 4));
    for (size_t i = 0; i < 3; i++)
        free(blocks[i]);
    hand_machine_fini(&x);
    return int8 < wanted;
}
