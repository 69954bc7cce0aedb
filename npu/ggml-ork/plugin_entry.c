/* The two symbols this shared object exports, and the registry ggml gets from them.
 *
 * ggml calls ggml_backend_init each time it loads the backends, so the plug-in is made once. The
 * environment is read here and nowhere else. A machine without an NPU is no fault: the registry is
 * there, with no device in it, and one sentence at debug level says why. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph_uses.h"
#include "plugin.h"
#include "plugin_stats.h"

#define ENTRY_EXPORT __attribute__((visibility("default")))

ENTRY_EXPORT ggml_backend_reg_t ggml_backend_init(void);
ENTRY_EXPORT int ggml_backend_score(void);

/* ggml's registry keeps the pointer for as long as the process lives; set once, then read-only. */
static struct plugin *the_plugin;
static pthread_once_t made_once = PTHREAD_ONCE_INIT;

static const char *reg_name(ggml_backend_reg_t reg)
{
    (void)reg;
    return "ORK";
}

static size_t reg_device_count(ggml_backend_reg_t reg)
{
    const struct plugin *p = reg->context;

    return p->npu ? 1 : 0;
}

static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t index)
{
    struct plugin *p = reg->context;

    return p->npu && index == 0 ? &p->device : NULL;
}

static ggml_backend_buffer_type_t *extra_bufts(ggml_backend_dev_t device)
{
    struct plugin *p = device->context;

    return p->extra_bufts;
}

static void device_stats(ggml_backend_dev_t device, struct ork_stats *out)
{
    const struct plugin *p = device->context;

    ork_device_stats(p->npu, out);
}

static void device_counts(ggml_backend_dev_t device, struct plugin_counts *out)
{
    plugin_stats_read(device->context, out);
}

/* How libllama learns of buffer types beside the default one, and anybody of what was counted. */
static void *reg_proc_address(ggml_backend_reg_t reg, const char *name)
{
    const ggml_backend_dev_get_extra_bufts_t bufts = extra_bufts;
    void (*const stats)(ggml_backend_dev_t, struct ork_stats *) = device_stats;
    void (*const counters)(ggml_backend_dev_t, struct plugin_counts *) = device_counts;
    void *address = NULL;

    (void)reg;
    if (!strcmp(name, "ggml_backend_dev_get_extra_bufts"))
        memcpy(&address, &bufts, sizeof(address));
    else if (!strcmp(name, "ggml_backend_ork_stats"))
        memcpy(&address, &stats, sizeof(address));
    else if (!strcmp(name, "ggml_backend_ork_counts"))
        memcpy(&address, &counters, sizeof(address));
    return address;
}

static const char *from_environment(const char *name)
{
    return getenv(name);
}

static void describe(struct plugin *p)
{
    const char *codes = p->format.type == ORK_I8_I32 ? "W8A8" : "W4A4";
    const char *more = p->caps.n_cores == 1 ? "" : "s";

    if (p->caps.simulated)
        snprintf(p->description, sizeof(p->description), "RK3588 NPU simulator, %u core%s, %s",
                 p->caps.n_cores, more, codes);
    else
        snprintf(p->description, sizeof(p->description), "RK3588 NPU, %s, %u core%s, %s",
                 p->caps.device, p->caps.n_cores, more, codes);
}

/* ---- from the options -------------------------------------------------------------------- */

static struct weight_format format_of(const struct plugin_options *o)
{
    struct weight_format format = {.type = ORK_I8_I32, .rotate = o->rotate};

    if (!strncmp(o->quant, "w4a4", 4))
        format.type = ORK_I4_I16;
    if (!strcmp(o->quant, "w4a4"))
        format.group = *o->group ? (uint32_t)strtoul(o->group, NULL, 10) : 128;
    return format;
}

static uint32_t n_workers(const struct plugin_options *o)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);

    if (o->threads)
        return o->threads;
    return processors < 1 ? 1 : processors > 64 ? 64 : (uint32_t)processors;
}

struct packed_place plugin_place(struct plugin *p)
{
    return (struct packed_place){.npu = p->npu,
                                 .format = p->format,
                                 .budget = &p->budget,
                                 .workers = p->workers,
                                 .cache = p->cache};
}

static void say_of_cache(const char *sentence)
{
    plugin_log(GGML_LOG_LEVEL_WARN, "%s", sentence);
}

struct device_parts {
    void (*part)(void *user, size_t i);
    void *user;
};

static void device_part(void *user, size_t part, uint32_t worker)
{
    const struct device_parts *d = user;

    (void)worker;
    d->part(d->user, part);
}

/* The driver's own parts (reading outputs back), by the workers. */
static void run_device_parts(void *context, size_t n, void (*part)(void *user, size_t i),
                             void *user)
{
    struct device_parts d = {part, user};

    workers_run(context, n, device_part, &d);
}

/* What the options and the device's own figures decide for all graphs. */
static int set_up(struct plugin *p, struct ork_device *npu)
{
    const double measured = p->caps.submit_us;
    int rc;

    p->format = format_of(&p->options);
    p->rules = (struct placement_rules){
        .submit_us = p->options.submit_us ? (double)p->options.submit_us : measured,
        .n_cores = p->caps.n_cores,
        .min_rows = p->options.min_rows};
    domain_budget_init(&p->budget, p->caps.n_domains, p->caps.iova_bytes);
    p->uses_proven = graph_uses_proven();
    if (*p->options.pack && pack_cache_open(p->options.pack, say_of_cache, &p->cache) < 0)
        p->cache = NULL; /* slower, and said */
    rc = workers_create(n_workers(&p->options), &p->workers);
    if (rc >= 0)
        ork_device_set_runner(npu, run_device_parts, p->workers);
    return rc;
}

/* The self test's verdict on the type the options ask for. */
static bool is_right(const struct plugin *p)
{
    const bool int4 = format_of(&p->options).type == ORK_I4_I16;

    if (p->caps.selftest_i8 == 1 && (!int4 || p->caps.selftest_i4 == 1))
        return true;
    plugin_log(GGML_LOG_LEVEL_ERROR,
               "no device: %s computes %s products wrong; ork-info --selftest shows more.",
               p->caps.device, int4 && p->caps.selftest_i8 == 1 ? "int4" : "int8");
    return false;
}

static void open_npu(struct plugin *p)
{
    struct ork_open_options options = {.size = sizeof(options),
                                       .n_cores = p->options.cores,
                                       .timeout_ms = p->options.timeout_ms,
                                       .verify = p->options.verify};
    struct ork_error error = {0};
    struct ork_device *npu;
    int rc;

    options.transport = *p->options.transport ? p->options.transport : NULL;
    options.sim_options = *p->options.sim ? p->options.sim : NULL;
    rc = ork_device_open(&options, &npu, &error);
    if (rc < 0) {
        plugin_log(options.transport || rc == -EBUSY ? GGML_LOG_LEVEL_ERROR : GGML_LOG_LEVEL_DEBUG,
                   "no device: %s", error.text);
        return;
    }
    ork_device_caps(npu, &p->caps);
    if (!is_right(p) || set_up(p, npu) < 0) {
        ork_device_close(npu);
        return;
    }
    p->npu = npu;
    describe(p);
    plugin_device_init(p);
    plain_buffer_type_init(p);
    packed_buffer_type_init(p);
    p->extra_bufts[0] = &p->packed;
}

static void make_plugin(void)
{
    struct plugin *p = calloc(1, sizeof(*p));
    char sentence[256];

    if (!p)
        return;
    pthread_mutex_init(&p->product_lock, NULL);
    p->reg = (struct ggml_backend_reg){.api_version = GGML_BACKEND_ABI_VERSION,
                                       .iface = {.get_name = reg_name,
                                                 .get_device_count = reg_device_count,
                                                 .get_device = reg_device,
                                                 .get_proc_address = reg_proc_address},
                                       .context = p};
    if (plugin_options_read(from_environment, &p->options, sentence, sizeof(sentence)) < 0)
        plugin_log(GGML_LOG_LEVEL_ERROR, "no device: %s", sentence);
    else
        open_npu(p);
    the_plugin = p;
}

ggml_backend_reg_t ggml_backend_init(void)
{
    pthread_once(&made_once, make_plugin);
    return the_plugin ? &the_plugin->reg : NULL;
}

/* Any number but zero loads; there is one variant for every machine. */
int ggml_backend_score(void)
{
    return 1;
}
