/*
 * ggml computes on libgomp's threads, which spin while they wait for each other: some milliseconds
 * by default. Here they wait while one of them sleeps for an expert, and then the spinning takes
 * the cores from the readers that would end it. Not to spin at all costs a sleep and a wake-up for
 * each of a token's thousand small operations. So they spin for about as long as such an operation
 * takes. On 2 cores, 4.3 GB model, tokens a second of decode at 0, 1000, 3000 and 10000 turns:
 * resident 47, 57, 61 and (30000) 60; streamed in 700 MiB with 4 readers 18.4, 19.7, 18.1 and 16.8.
 *
 * libgomp reads its setting from the environment before main runs, and there is no call for it; so
 * the program sets it and starts itself anew. Whoever embeds the library sets it before starting
 * (docs/architecture.md).
 */
#include "omp_spin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPIN_COUNT "1000"

void omp_spin_settle(char **argv)
{
    char path[4096];

    if (getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL)
        return;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return;
    path[n] = '\0';
    const char *slash = strrchr(path, '/');
    if (slash != NULL && strncmp(slash + 1, "ld", 2) == 0)
        return; /* started through the dynamic loader by name: that is what would start anew */
    if (setenv("GOMP_SPINCOUNT", SPIN_COUNT, 1) == 0)
        execv(path, argv);
}
