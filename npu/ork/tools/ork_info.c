/* ork-info: which NPUs are here, what they can do, and what the self test says about them. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const char help[] =
    "usage: ork-info [--transport vendor|mainline|sim] [--sim OPTIONS] [--selftest] [--json]\n"
    "\n"
    "Lists the RK3588 NPUs that can be opened here, and the simulator.\n"
    "\n"
    "  --transport NAME  only this one\n"
    "  --sim OPTIONS     what to simulate, for example kernel=mainline,cores=2\n"
    "  --selftest        run the self test: products of every type, small heights, chaining,\n"
    "                    the cost of a submit; exit 1 if any of them is wrong\n"
    "  --json            one JSON object per line instead of text\n"
    "  --help            this text\n";

struct settings {
    const char *transport;
    const char *sim;
    bool selftest;
    bool json;
};

static void print_text(const struct ork_caps *c, bool tested)
{
    printf("%s: %s\n", c->transport, c->device);
    printf("  hardware version  0x%08x, driver %u\n", c->hw_version, c->drv_version);
    printf("  cores             %u\n", c->n_cores);
    printf("  device addresses  %.0f MiB in each of %u domain%s\n", (double)c->iova_bytes / 1048576,
           c->n_domains, c->n_domains == 1 ? "" : "s");
    if (!tested)
        return;
    printf("  int8 product      %s\n", tool_verdict(c->selftest_i8));
    printf("  int4 product      %s\n", tool_verdict(c->selftest_i4));
    printf("  fp16 products     %s\n", tool_verdict(c->selftest_f16));
    printf("  1 to 3 rows       %s: rows are padded to %u\n", tool_verdict(c->selftest_m1),
           c->m_multiple);
    printf("  chained programs  %s\n", tool_verdict(c->selftest_chain));
    printf("  smallest submit   %.1f us of wall time\n", c->submit_us);
}

static void print_verdict(const char *key, int verdict)
{
    printf(",\"%s\":%s", key, verdict < 0 ? "null" : verdict ? "true" : "false");
}

static void print_json(const struct ork_caps *c, bool tested)
{
    printf("{\"transport\":");
    tool_json_string(c->transport);
    printf(",\"device\":");
    tool_json_string(c->device);
    printf(",\"simulated\":%s,\"hw_version\":%u,\"drv_version\":%u,\"n_cores\":%u,\"n_domains\":%u,"
           "\"iova_bytes\":%llu",
           c->simulated ? "true" : "false", c->hw_version, c->drv_version, c->n_cores, c->n_domains,
           (unsigned long long)c->iova_bytes);
    if (tested) {
        print_verdict("selftest_i8", c->selftest_i8);
        print_verdict("selftest_i4", c->selftest_i4);
        print_verdict("selftest_f16", c->selftest_f16);
        print_verdict("selftest_m1", c->selftest_m1);
        print_verdict("selftest_chain", c->selftest_chain);
        printf(",\"m_multiple\":%u,\"submit_us\":%.1f", c->m_multiple, c->submit_us);
    }
    printf("}\n");
}

static void print_absent(const struct settings *s, const char *name, const struct ork_error *error)
{
    if (!s->json) {
        printf("%s: %s\n", name, error->text);
        return;
    }
    printf("{\"transport\":");
    tool_json_string(name);
    printf(",\"error\":");
    tool_json_string(error->text);
    printf("}\n");
}

enum shown { SHOWN_RIGHT, SHOWN_ABSENT, SHOWN_WRONG, SHOWN_MISUSE };

static enum shown show(const struct settings *s, const char *name)
{
    const struct ork_open_options options = {
        .size = sizeof(options),
        .transport = name,
        .sim_options = s->transport || !strcmp(name, "sim") ? s->sim : NULL,
        .skip_selftest = !s->selftest,
    };
    struct ork_error error = {0, ""};
    struct ork_device *device;
    struct ork_caps caps;
    int rc = ork_device_open(&options, &device, &error);

    if (rc == -EINVAL) {
        fprintf(stderr, "ork-info: %s\n", error.text);
        return SHOWN_MISUSE;
    }
    if (rc < 0) {
        print_absent(s, name, &error);
        return rc == -ENODEV ? SHOWN_ABSENT : SHOWN_WRONG;
    }
    ork_device_caps(device, &caps);
    if (s->json)
        print_json(&caps, s->selftest);
    else
        print_text(&caps, s->selftest);
    ork_device_close(device);
    return caps.selftest_i8 && caps.selftest_i4 && caps.selftest_f16 ? SHOWN_RIGHT : SHOWN_WRONG;
}

static int parse(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {{"transport", required_argument, NULL, 't'},
                                            {"sim", required_argument, NULL, 's'},
                                            {"selftest", no_argument, NULL, 'S'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 't')
            s->transport = optarg;
        else if (c == 's')
            s->sim = optarg;
        else if (c == 'S')
            s->selftest = true;
        else if (c == 'j')
            s->json = true;
        else if (c == 'h')
            return 1;
        else
            return -1;
    }
    if (optind < argc)
        fprintf(stderr, "ork-info: %s is not an option\n", argv[optind]);
    return optind < argc ? -1 : 0;
}

/* The exit status: 0 all that is here is right (asked for by name: it is here and right). */
static int show_all(const struct settings *s)
{
    static const char *const names[] = {"vendor", "mainline", "sim"};
    int status = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const enum shown shown = show(s, names[i]);

        if (shown == SHOWN_MISUSE)
            return 2;
        if (shown == SHOWN_WRONG)
            status = 1;
    }
    return status;
}

int main(int argc, char **argv)
{
    struct settings s = {0};
    int parsed = parse(argc, argv, &s), status;

    if (parsed) {
        fputs(help, parsed > 0 ? stdout : stderr);
        return tool_finish("ork-info", parsed > 0 ? 0 : 2);
    }
    if (s.transport) {
        const enum shown shown = show(&s, s.transport);

        status = shown == SHOWN_RIGHT ? 0 : shown == SHOWN_MISUSE ? 2 : 1;
    } else {
        status = show_all(&s);
    }
    return tool_finish("ork-info", status);
}
