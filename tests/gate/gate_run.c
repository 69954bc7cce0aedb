/* The result lies in a page that parent and child share; rows in their file. */
#include "gate_run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t peak_bytes(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long long kib = -1;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib < 0 ? -1 : kib * 1024;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void child(const struct gate_case *c, enum gate_way way, uint32_t prompt_bytes,
                  struct gate_rows *rows, struct gate_result *out)
{
    double start = now_s();
    if (way == GATE_STOCK)
        gate_stock(c, rows, out);
    else if (way == GATE_PROBE)
        gate_probe(c, out);
    else
        gate_bmoe(c, way == GATE_STREAMED, prompt_bytes, rows, out);
    out->n_rows = rows->n_rows;
    out->n_vocab = rows->n_vocab;
    out->peak_bytes = peak_bytes();
    out->seconds = now_s() - start;
}

void gate_run(const struct gate_case *c, enum gate_way way, uint32_t prompt_bytes,
              struct gate_rows *rows, struct gate_result *out)
{
    struct gate_result *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        *out = (struct gate_result){.code = 1, .text = "no memory for the result"};
        return;
    }
    shared->code = 1;
    snprintf(shared->text, sizeof shared->text, "the child did not come to its end");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        child(c, way, prompt_bytes, rows, shared);
        _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        size_t n = strlen(shared->text);
        shared->code = shared->code ? shared->code : 1;
        snprintf(shared->text + n, sizeof shared->text - n, " (wait status %d)", status);
    }
    *out = *shared;
    munmap(shared, sizeof *shared);
    rows->n_rows = out->n_rows;
    rows->n_vocab = out->n_vocab;
}
