/* ork-bench: matmuls of the shapes in a file, timed; on the simulator also what the time model
 * says they take on silicon. What the host's own share costs is in bench_host.c. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_host.h"
#include "tool.h"

static const char help[] =
    "usage: ork-bench [options] [FILE]\n"
    "       ork-bench --fwht | --host\n"
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
    "  --host            only the rates of packing and read-back, and what a plan costs\n"
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
    bool host;
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

#define MOST_OPERAND_BYTES (UINT64_C(4) << 30)
#define STRIPE_ROWS        64u

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

static size_t element_bytes(const struct shape *p)
{
    return p->type == ORK_F16_F32 || p->type == ORK_F16_F16 ? 2 : 1;
}

/* Weights come first: the library refuses by name what the chip cannot hold. */
static int make_weights(struct run *r, const struct shape *p, struct ork_error *error)
{
    const struct ork_weight_options options = {
        .size = sizeof(options), .k_slice = p->k_slice, .i4_mode = p->mode};
    int rc = 0;

    r->weights = calloc(p->batch, sizeof(struct ork_weight *));
    if (!r->weights) {
        snprintf(error->text, sizeof(error->text), "no memory for %u weights", p->batch);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < p->batch && rc >= 0; i++)
        rc = ork_weight_create(r->device, p->type, p->n, p->k, &options, &r->weights[i], error);
    return rc;
}

/* A, C and the batch. Dimensions are below 2^22 and the batch at most 1024: no product here
 * overflows, but a file may ask for more memory than the machine has. */
static int make_operands(struct run *r, const struct shape *p, struct ork_error *error)
{
    const size_t a_bytes = (size_t)p->m * p->k * element_bytes(p);
    const size_t c_bytes = (size_t)p->m * p->n * 4;

    if (a_bytes + c_bytes * p->batch > MOST_OPERAND_BYTES) {
        snprintf(error->text, sizeof(error->text), "its operands take %.1f GiB, more than %.0f",
                 (double)(a_bytes + c_bytes * p->batch) / 0x1p30, MOST_OPERAND_BYTES / 0x1p30);
        return -EFBIG;
    }
    r->batch = calloc(p->batch, sizeof(*r->batch));
    r->a = malloc(a_bytes);
    r->c = malloc(c_bytes * p->batch);
    if (!r->batch || !r->a || !r->c) {
        snprintf(error->text, sizeof(error->text), "no memory for the operands");
        return -ENOMEM;
    }
    fill(r->a, a_bytes, p->type);
    for (uint32_t i = 0; i < p->batch; i++)
        r->batch[i] = (struct ork_matmul){.size = sizeof(r->batch[i]),
                                          .weight = r->weights[i],
                                          .a = r->a,
                                          .m = p->m,
                                          .c = r->c + c_bytes * i};
    return 0;
}

/* A stripe of rows at a time: B as a whole may be larger than what is free. */
static int pack_weights(struct run *r, const struct shape *p, struct ork_error *error)
{
    const size_t row_bytes = p->k * element_bytes(p);
    uint8_t *b = malloc(row_bytes * STRIPE_ROWS);
    int rc = b ? 0 : -ENOMEM;

    if (b)
        fill(b, row_bytes * STRIPE_ROWS, p->type);
    for (uint32_t i = 0; i < p->batch; i++)
        for (uint32_t n = 0; n < p->n && rc >= 0; n += STRIPE_ROWS)
            rc = ork_weight_pack(r->weights[i], n, p->n - n < STRIPE_ROWS ? p->n - n : STRIPE_ROWS,
                                 b);
    free(b);
    if (rc < 0)
        snprintf(error->text, sizeof(error->text), "the weights could not be packed: %s",
                 strerror(-rc));
    return rc;
}

static int prepare(struct run *r, const struct shape *p, struct ork_error *error)
{
    int rc = make_weights(r, p, error);

    rc = rc < 0 ? rc : make_operands(r, p, error);
    return rc < 0 ? rc : pack_weights(r, p, error);
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

/* Lines of any length; one with a NUL byte is not text. */
static int bench_lines(const struct settings *s, struct ork_device *device, FILE *f)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int number = 0, status = 0;

    print_head(s->csv);
    while (status != 2 && (length = getline(&line, &room, f)) >= 0) {
        const bool text = strlen(line) == (size_t)length;
        struct shape shape;
        int rc = text ? parse_shape(line, &shape) : -1;

        number++;
        if (rc < 0) {
            fprintf(stderr, "ork-bench: line %d is not TYPE M N K [BATCH [K_SLICE]]\n", number);
            status = 2;
        } else if (rc) {
            status |= bench_shape(s, device, &shape);
        }
    }
    if (ferror(f)) {
        fprintf(stderr, "ork-bench: %s: %s\n", s->file ? s->file : "shapes", strerror(errno));
        status = 1;
    }
    free(line);
    return status;
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
        return rc == -EINVAL ? 2 : 1;
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

/* -1; getopt has already told of what it does not know itself. */
static int bad_value(int c)
{
    if (c == 'c')
        fprintf(stderr, "ork-bench: --cores takes 1 to 3, not \"%s\"\n", optarg);
    else if (c == 'r')
        fprintf(stderr, "ork-bench: --repeat takes 1 to 1000000, not \"%s\"\n", optarg);
    return -1;
}

static int parse(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {{"transport", required_argument, NULL, 't'},
                                            {"sim", required_argument, NULL, 's'},
                                            {"cores", required_argument, NULL, 'c'},
                                            {"repeat", required_argument, NULL, 'r'},
                                            {"csv", no_argument, NULL, 'v'},
                                            {"fwht", no_argument, NULL, 'f'},
                                            {"host", no_argument, NULL, 'o'},
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
        else if (c == 'o')
            s->host = true;
        else
            return c == 'h' ? 1 : bad_value(c);
    }
    if (optind + 1 < argc) {
        fprintf(stderr, "ork-bench: one file, not also %s\n", argv[optind + 1]);
        return -1;
    }
    if (optind < argc)
        s->file = argv[optind];
    return 0;
}

int main(int argc, char **argv)
{
    struct settings s = {.open = {.size = sizeof(s.open)}, .repeat = 3};
    int parsed = parse(argc, argv, &s), status;

    if (parsed) {
        fputs(help, parsed > 0 ? stdout : stderr);
        return tool_finish("ork-bench", parsed > 0 ? 0 : 2);
    }
    if (s.fwht)
        status = bench_fwht();
    else if (s.host)
        status = bench_host();
    else
        status = bench_device(&s);
    return tool_finish("ork-bench", status);
}
