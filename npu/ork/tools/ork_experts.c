/* ork-experts: what the routed experts of one layer cost on the NPU and on the host, by the plan
 * and the time model, for the exact shapes of three models. Nothing is executed, no device is
 * opened; every line says that it is a model. The tables of docs/ork.md are this program's output.
 */
#include <stdio.h>
#include <string.h>

#include "expert_layer.h"
#include "tool.h"

#define SLOW_SUBMIT 365.0 /* us, a whole call through ggml on a board [fork] */
#define FEW         31    /* rows that the threshold of 32 sends to the host */
#define HOST_CORES  4     /* that rotate; the A76 ones */

static const uint32_t tokens[] = {1, 32, 128, 512, 2048};

static const struct expert_use int8 = {ORK_I8_I32, ORK_I4_DENSE, 0, 1};
static const struct expert_use int8_padded = {ORK_I8_I32, ORK_I4_DENSE, 0, 4};
static const struct expert_use int4 = {ORK_I4_I16, ORK_I4_DENSE, 0, 1};
static const struct expert_use int4_group = {ORK_I4_I16, ORK_I4_DENSE, 128, 1};
static const struct expert_use int4_chain = {ORK_I4_I16, ORK_I4_BCHAIN, 0, 1};
static const struct expert_use int4_rows = {ORK_I4_I16, ORK_I4_ROWS, 0, 1};

static double total_us(const struct expert_cost *c, double submit_us)
{
    return c->device_us + c->host_us + (submit_us > 0 ? submit_us * c->submits : c->submit_us);
}

static struct expert_cost cost_of(const struct expert_layer *layer, const struct expert_use *use,
                                  const uint32_t *rows)
{
    struct expert_cost cost;

    if (expert_cost_npu(layer, use, rows, 1, UINT32_MAX, &cost) < 0)
        memset(&cost, 0, sizeof(cost));
    return cost;
}

static void print_layers(const struct expert_layer *layers, size_t n)
{
    printf("| | model | tokens | experts used | submits | programs | rows wasted | padded to 4 | "
           "NPU, ms | of it "
           "host | NPU at 365 us a submit | CPU, ms | CPU / NPU |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < sizeof(tokens) / sizeof(tokens[0]); t++) {
            uint32_t rows[EXPERT_MOST];
            struct expert_cost c;
            double cpu;

            expert_route(&layers[i], tokens[t], rows);
            c = cost_of(&layers[i], &int8, rows);
            cpu = expert_cost_cpu_us(&layers[i], rows, 1, UINT32_MAX);
            printf("| model | %s | %u | %u of %u | %u | %u | %.0f %% | %.0f %% | %.2f | %.2f | "
                   "%.2f | %.2f | "
                   "%.2f |\n",
                   layers[i].name, tokens[t], c.active, layers[i].n_experts, c.submits, c.programs,
                   100 * c.waste, 100 * cost_of(&layers[i], &int8_padded, rows).waste,
                   total_us(&c, 0) / 1e3, c.host_us / 1e3, total_us(&c, SLOW_SUBMIT) / 1e3,
                   cpu / 1e3, cpu / total_us(&c, 0));
        }
}

/* A submit for every expert and product, and experts of few rows on the host: the threshold of 32.
 */
static double threshold_us(const struct expert_layer *layer, const uint32_t *rows)
{
    struct expert_cost many;

    if (expert_cost_npu(layer, &int8, rows, FEW + 1, UINT32_MAX, &many) < 0)
        return 0;
    return expert_cost_cpu_us(layer, rows, 1, FEW) + many.device_us + many.host_us +
           SLOW_SUBMIT * many.active * layer->n_matrices;
}

static void print_gaps(const struct expert_layer *layers, size_t n)
{
    printf(
        "| | model | tokens | gap 1 open | closed | gap 2 open: a program per row | blocks of 64 "
        "columns | closed: dense | dense, groups of 128 | gap 3 open | closed |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < n; i++)
        for (size_t t = 1; t < sizeof(tokens) / sizeof(tokens[0]); t++) {
            const struct expert_layer *l = &layers[i];
            uint32_t rows[EXPERT_MOST];
            struct expert_cost c[5];

            expert_route(l, tokens[t], rows);
            c[0] = cost_of(l, &int8, rows);
            c[1] = cost_of(l, &int4_rows, rows);
            c[2] = cost_of(l, &int4_chain, rows);
            c[3] = cost_of(l, &int4, rows);
            c[4] = cost_of(l, &int4_group, rows);
            printf(
                "| model | %s | %u | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | +%.2f | +%.2f |\n",
                l->name, tokens[t], threshold_us(l, rows) / 1e3, total_us(&c[0], SLOW_SUBMIT) / 1e3,
                total_us(&c[1], SLOW_SUBMIT) / 1e3, total_us(&c[2], SLOW_SUBMIT) / 1e3,
                total_us(&c[3], SLOW_SUBMIT) / 1e3, total_us(&c[4], SLOW_SUBMIT) / 1e3,
                expert_cost_rotation_us(l, tokens[t], false) / 1e3,
                expert_cost_rotation_us(l, tokens[t], true) / 1e3 / HOST_CORES);
        }
}

static void print_residency(const struct expert_layer *layers, size_t n)
{
    printf(
        "| | model | experts of all layers as int8, GiB | as int4 | active per token and layer as "
        "int8, MB |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < n; i++) {
        const double all = expert_resident_bytes(&layers[i], ORK_I8_I32);

        printf("| model | %s | %.1f | %.1f | %.1f |\n", layers[i].name, all / (1 << 30),
               expert_resident_bytes(&layers[i], ORK_I4_I16) / (1 << 30),
               all / layers[i].layers / layers[i].n_experts * layers[i].n_used / 1e6);
    }
}

int main(int argc, char **argv)
{
    size_t n;
    const struct expert_layer *layers = expert_layers(&n);

    if (argc == 2 && !strcmp(argv[1], "--help")) {
        printf("usage: ork-experts\n\nTables of what the experts of one layer cost on the NPU and "
               "on the host, by the\ndriver's plan and time model; nothing is executed.\n");
        return tool_finish("ork-experts", 0);
    }
    if (argc > 1) {
        fprintf(stderr, "ork-experts: takes no arguments but --help.\n");
        return 2;
    }
    print_layers(layers, n);
    printf("\n");
    print_gaps(layers, n);
    printf("\n");
    print_residency(layers, n);
    return tool_finish("ork-experts", 0);
}
