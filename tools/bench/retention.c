/* The subcommand: see retention.h. */
#include "retention.h"

#include "bench.h"
#include "bench_args.h"

#include <stdlib.h>

static const char usage[] =
    "Usage: bmoe-bench retention -m MODEL --trained MODEL [-o DIR]\n"
    "Records what MODEL, of random weights, and models/tiny-moe-q4_0.gguf, a trained one, route "
    "to,\n"
    "and replays it through the pager's policy and others, and what knows the future, at budgets\n"
    "from a tenth of the experts that occur to all. Writes DIR/retention.csv, .md and .svg (DIR: "
    ".).\n";

static int replay_all(struct retention_trace *t)
{
    for (int p = 0; p < REPLAY_POLICIES; p++)
        for (int b = 0; b < RETENTION_BUDGETS; b++) {
            uint64_t bytes = t->trace.total_bytes / RETENTION_BUDGETS * (uint64_t)(b + 1);
            if (b + 1 == RETENTION_BUDGETS)
                bytes = t->trace.total_bytes;
            if (replay_run(&t->trace, (enum replay_policy)p, bytes, &t->hits[p][b]) < 0)
                return -1;
        }
    return 0;
}

static int retention(const char *zipf, const char *trained, const char *dir, const char *command)
{
    static struct retention_trace traces[RETENTION_TRACES] = {
        {.name = "zipf",
         .told = "random weights whose routers prefer some experts: a prompt of 64 "
                 "tokens, an answer of 512"},
        {.name = "prompts",
         .told = "the same, six prompts of 256 tokens with an answer of 64 each; "
                 "counted is what the answers' tokens found"},
        {.name = "domains",
         .told = "the trained model, ten answers of 128 tokens, in turn of the "
                 "two texts it was trained on"},
        {.name = "conversation",
         .told = "the trained model, six conversations of four turns, an "
                 "answer of 48 tokens each"}};
    struct bmoe_error err = {0};
    int rc = retention_record(traces, zipf, trained, &err);
    for (int i = 0; rc >= 0 && i < RETENTION_TRACES; i++)
        rc = replay_all(&traces[i]);
    if (rc < 0)
        fprintf(stderr, "bmoe-bench: %s\n", err.text[0] ? err.text : "no memory for the replay");
    else
        rc = retention_write(traces, dir, command);
    for (int i = 0; i < RETENTION_TRACES; i++)
        replay_trace_fini(&traces[i].trace);
    return rc < 0;
}

int retention_main(int argc, char **argv)
{
    const char *zipf = NULL, *trained = NULL, *dir = ".";
    const struct bench_arg args[] = {{"m", ARG_TEXT, &zipf, 0, NULL},
                                     {"trained", ARG_TEXT, &trained, 0, NULL},
                                     {"o", ARG_TEXT, &dir, 0, NULL}};
    char command[1024];
    bench_command(command, sizeof command, argc, argv);
    int rc = bench_args(args, sizeof args / sizeof *args, usage, argc, argv, NULL);
    if (rc >= 0)
        return rc;
    if (!zipf || !trained)
        return bench_misuse("two models are wanted (-m and --trained)");
    return retention(zipf, trained, dir, command);
}
