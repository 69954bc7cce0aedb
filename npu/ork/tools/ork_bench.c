/* ork-bench: matmuls of the shapes in a file, timed; on the simulator also what the time model
 * says they take on silicon. And what the host's own share costs: packing, read-back, rotation. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fused.h"
#include "tool.h"

static const char help[] =
    "usage: ork-bench [options] [FILE]\n"
    "       ork-bench --fwht\n"
    "\n"
    "FILE has one shape a line: TYPE M N K [BATCH [K_SLICE]], # starts a comment; - is standard\n"
    "input; without FILE a built-in list runs. TYPE is i8, i4, f16, f16h, i4:stride2, i4:bchain "
    "or\n"
    "i4:rows. BATCH matmuls of that shape go in one submit.\n"
    "\n"
    "  --transport NAME  vendor, mainline or sim; default: the first that is there, else sim\n"
    "  --sim OPTIONS     what to simulate, for example kernel=mainline\n"
    "  --cores N         use at most N cores\n"
    "  --repeat N        runs of each shape, the fastest is printed (default 3)\n"
    "  --csv             comma-separated values\n"
    "  --fwht            only the cost of the fused rotation and quantisation per row\n"
    "  --help            this text\n"
    "\n"
    "wall ms: whole call as the host sees it (on the simulator: of the simulation). device ms: "
    "told\n"
    "by the kernel or modelled by the simulator, packing and read-back not counted. predicted ms:\n"
    "the plan through the time model. GOP/s counts 2 M N K of the device time, GB/s the bytes the\n"
    "device moves; waste is the share of multiply-adds spent on padding and junk rows.\n";

struct settings {
    struct ork_open_options open;
    const char *file;
    uint32_t repeat;
    bool csv;
    bool fwht;
};

struct shape {
    enum ork_type type;
    enum ork_i4_mode mode;
    uint32_t m, n, k, batch, k_slice;
};

static const char builtin[] = "i8 1 2048 2048\ni8 128 2048 2048\ni8 512 2048 2048\n"
                              "i4 128 2048 2048\ni4:stride2 128 2048 2048\n"
                              "i4:bchain 128 2048 2048\ni4:rows 128 256 480\n"
                              "f16 128 2048 2048\nf16h 128 2048 2048\ni8 16 768 2048 8\n";

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* 1: a shape, 0: nothing on this line, -1: not understood. */
static int parse_shape(char *line, struct shape *s)
{
    uint32_t *const numbers[] = {&s->m, &s->n, &s->k, &s->batch, &s->k_slice};
    char *save, *word;
    int n = 0;

    line[strcspn(line, "#\n")] = '\0';
    word = strtok_r(line, " \t", &save);
    if (!word)
        return 0;
    *s = (struct shape){.batch = 1};
    if (!tool_type(word, &s->type, &s->mode))
        return -1;
    for (; (word = strtok_r(NULL, " \t", &save)); n++)
        if (n == 5 || !tool_number(word, n < 4, 1u << 22, numbers[n]))
            return -1;
    return n < 3 || s->batch > 1024 ? -1 : 1;
}

static void print_head(bool csv)
{
    if (csv)
        printf("type,m,n,k,batch,wall_us,device_us,predicted_us,gops,gbs,bytes,submits,programs,"
               "waste\n");
    else
        printf("%-11s %5s %6s %6s %5s %9s %10s %12s %8s %7s %8s %7s %8s %6s\n", "type", "M", "N",
               "K", "batch", "wall ms", "device ms", "predicted ms", "GOP/s", "GB/s", "MB",
               "submits", "programs", "waste");
}

static void print_row(const struct settings *s, const struct shape *p, double wall_us,
                      const struct ork_stats *d)
{
    const double us = d->device_us > 0 ? d->device_us : d->wall_us;
    const double gops = 2e-3 * (double)d->macs / us;
    const double bytes = (double)(d->bytes_read + d->bytes_written);
    const double gbs = 1e-3 * bytes / us;
    const double waste = 1 - (double)d->macs / (double)d->macs_padded;

    printf(
        s->csv ? "%s,%u,%u,%u,%u,%.1f,%.1f,%.1f,%.2f,%.3f,%.0f,%llu,%llu,%.4f\n"
               : "%-11s %5u %6u %6u %5u %9.3f %10.3f %12.3f %8.1f %7.2f %8.2f %7llu %8llu %6.3f\n",
        tool_type_name(p->type, p->mode), p->m, p->n, p->k, p->batch,
        s->csv ? wall_us : wall_us / 1000, s->csv ? d->device_us : d->device_us / 1000,
        s->csv ? d->predicted_us : d->predicted_us / 1000, gops, gbs, s->csv ? bytes : bytes / 1e6,
        (unsigned long long)d->submits, (unsigned long long)d->programs, waste);
}

static void subtract(struct ork_stats *a, const struct ork_stats *b)
{
    a->submits -= b->submits;
    a->programs -= b->programs;
    a->macs -= b->macs;
    a->macs_padded -= b->macs_padded;
    a->bytes_read -= b->bytes_read;
    a->bytes_written -= b->bytes_written;
    a->wall_us -= b->wall_us;
    a->device_us -= b->device_us;
    a->predicted_us -= b->predicted_us;
}

struct run {
    struct ork_device *device;
    struct ork_weight **weights;
    struct ork_matmul *batch;
    uint8_t *a, *c;
};

static void fill(uint8_t *p, size_t bytes, enum ork_type type)
{
    for (size_t i = 0; i < bytes; i++) {
        const uint32_t r = (uint32_t)(i * 2654435761u) >> 24;

        if (type == ORK_F16_F32 || type == ORK_F16_F16)
            p[i] = i & 1 ? 0x30 | (r & 0x8f) : (uint8_t)r;
        else
            p[i] = type == ORK_I4_I16 ? (uint8_t)((int)(r & 15) - 8) : (uint8_t)r;
    }
}

static int prepare(struct run *r, const struct shape *p, struct ork_error *error)
{
    const struct ork_weight_options options = {
        .size = sizeof(options), .k_slice = p->k_slice, .i4_mode = p->mode};
    const size_t width = p->type == ORK_F16_F32 || p->type == ORK_F16_F16 ? 2 : 1;
    const size_t b_bytes = (size_t)p->n * p->k * width;
    const size_t c_bytes = (size_t)p->m * p->n * 4;
    uint8_t *b = malloc(b_bytes);
    int rc = 0;

    r->weights = calloc(p->batch, sizeof(*r->weights));
    r->batch = calloc(p->batch, sizeof(*r->batch));
    r->a = malloc((size_t)p->m * p->k * width);
    r->c = malloc(c_bytes * p->batch);
    if (!b || !r->weights || !r->batch || !r->a || !r->c) {
        snprintf(error->text, sizeof(error->text), "no memory for the operands");
        free(b);
        return -ENOMEM;
    }
    fill(b, b_bytes, p->type);
    fill(r->a, (size_t)p->m * p->k * width, p->type);
    for (uint32_t i = 0; i < p->batch && rc >= 0; i++) {
        rc = ork_weight_create(r->device, p->type, p->n, p->k, &options, &r->weights[i], error);
        if (rc >= 0)
            rc = ork_weight_pack(r->weights[i], 0, p->n, b);
        r->batch[i] = (struct ork_matmul){.size = sizeof(r->batch[i]),
                                          .weight = r->weights[i],
                                          .a = r->a,
                                          .m = p->m,
                                          .c = r->c + c_bytes * i};
    }
    free(b);
    return rc;
}

static void release(struct run *r, const struct shape *p)
{
    for (uint32_t i = 0; r->weights && i < p->batch; i++)
        ork_weight_destroy(r->weights[i]);
    free(r->weights);
    free(r->batch);
    free(r->a);
    free(r->c);
}

static int bench_shape(const struct settings *s, struct ork_device *device, const struct shape *p)
{
    struct ork_stats best = {0}, before, after;
    struct run r = {.device = device};
    struct ork_error error = {0, ""};
    double best_us = 0;
    int rc = prepare(&r, p, &error);

    for (uint32_t i = 0; i < s->repeat && rc >= 0; i++) {
        double start = now_us(), wall_us;

        ork_device_stats(device, &before);
        rc = ork_matmul_run(device, r.batch, p->batch, &error);
        wall_us = now_us() - start;
        ork_device_stats(device, &after);
        subtract(&after, &before);
        if (i && wall_us >= best_us)
            continue;
        best_us = wall_us;
        best = after;
    }
    release(&r, p);
    if (rc < 0) {
        fprintf(stderr, "ork-bench: %s M %u N %u K %u: %s\n", tool_type_name(p->type, p->mode),
                p->m, p->n, p->k, error.text);
        return 1;
    }
    print_row(s, p, best_us, &best);
    return 0;
}

static int bench_lines(const struct settings *s, struct ork_device *device, FILE *f)
{
    char line[256];
    int number = 0, failed = 0;

    print_head(s->csv);
    while (fgets(line, sizeof(line), f)) {
        struct shape shape;
        int rc = parse_shape(line, &shape);

        number++;
        if (rc < 0) {
            fprintf(stderr, "ork-bench: line %d is not TYPE M N K [BATCH [K_SLICE]]\n", number);
            return 2;
        }
        if (rc)
            failed |= bench_shape(s, device, &shape);
    }
    return failed;
}

static int bench_device(struct settings *s)
{
    struct ork_error error = {0, ""};
    struct ork_device *device;
    FILE *f;
    int rc = ork_device_open(&s->open, &device, &error);

    if (rc == -ENODEV && !s->open.transport) {
        fprintf(stderr, "ork-bench: %s Simulating.\n", error.text);
        s->open.transport = "sim";
        rc = ork_device_open(&s->open, &device, &error);
    }
    if (rc < 0) {
        fprintf(stderr, "ork-bench: %s\n", error.text);
        return 1;
    }
    if (!s->file)
        f = fmemopen((void *)(uintptr_t)builtin, sizeof(builtin) - 1, "r");
    else
        f = strcmp(s->file, "-") ? fopen(s->file, "r") : stdin;
    if (f) {
        rc = bench_lines(s, device, f);
        fclose(f);
    } else {
        fprintf(stderr, "ork-bench: %s: %s\n", s->file, strerror(errno));
        rc = 1;
    }
    ork_device_close(device);
    return rc;
}

/* Fastest of several rounds of 100 rows, in microseconds per row. */
static double fused_us(const struct ork_kernels *k, bool rotate, uint32_t width, float *row,
                       float *scratch, int8_t *codes)
{
    const struct ork_quantise how = {
        .size = sizeof(how), .norm = row + width, .eps = 1e-6f, .rotate = rotate};
    double best = 0;

    for (int round = 0; round < 20; round++) {
        const double start = now_us();
        double us;

        for (int i = 0; i < 100; i++)
            ork_fused_codes(k, &how, 127, row, width, scratch, codes);
        us = (now_us() - start) / 100;
        best = !round || us < best ? us : best;
    }
    return best;
}

static int bench_fwht(void)
{
    const struct ork_kernels *tables[] = {ork_kernels_scalar(), ork_kernels_avx2(),
                                          ork_kernels_avx512(), ork_kernels_neon()};
    static float row[2 * 8192], scratch[8192];
    static int8_t codes[8192];

    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        row[i] = (float)((i * 7919) % 1000) / 500 - 1;
    printf("%-8s %6s %6s %18s %18s\n", "kernels", "K", "block", "quantise us/row",
           "+ rotation us/row");
    for (size_t t = 0; t < 4; t++) {
        for (uint32_t k = 512; tables[t] && k <= 8192; k *= 2)
            printf("%-8s %6u %6u %18.2f %18.2f\n", tables[t]->name, k, ork_fwht_block(k),
                   fused_us(tables[t], false, k, row, scratch, codes),
                   fused_us(tables[t], true, k, row, scratch, codes));
    }
    return 0;
}

static int parse(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {{"transport", required_argument, NULL, 't'},
                                            {"sim", required_argument, NULL, 's'},
                                            {"cores", required_argument, NULL, 'c'},
                                            {"repeat", required_argument, NULL, 'r'},
                                            {"csv", no_argument, NULL, 'v'},
                                            {"fwht", no_argument, NULL, 'f'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 't')
            s->open.transport = optarg;
        else if (c == 's')
            s->open.sim_options = optarg;
        else if (c == 'c' && tool_number(optarg, 1, 3, &s->open.n_cores))
            continue;
        else if (c == 'r' && tool_number(optarg, 1, 1000000, &s->repeat))
            continue;
        else if (c == 'v')
            s->csv = true;
        else if (c == 'f')
            s->fwht = true;
        else
            return c == 'h' ? 1 : -1;
    }
    if (optind + 1 < argc)
        return -1;
    s->file = argv[optind];
    return 0;
}

int main(int argc, char **argv)
{
    struct settings s = {.open = {.size = sizeof(s.open)}, .repeat = 3};
    int parsed = parse(argc, argv, &s);

    if (parsed) {
        fputs(help, parsed > 0 ? stdout : stderr);
        return parsed > 0 ? 0 : 2;
    }
    return s.fwht ? bench_fwht() : bench_device(&s);
}
