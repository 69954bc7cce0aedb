/*
 * What memory a direct read goes to, and what reading costs those who compute: GB/s of random reads
 * of one size by several threads, into small and into huge pages, alone and with a thread counting
 * on every CPU; beside it how fast those count, against how fast they do with nobody reading. On a
 * virtual machine that is the only way to see what the host's part of a read takes from the CPUs.
 *
 *     direct_reads FILE [KB] [READERS]
 *
 * With 0 KB instead: how many readers and how large reads this disk wants, a table of 1 to 16
 * readers by 64 KB to 4 MB, alone and with a thread counting on every CPU.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 64, HUGE = 2 * 1024 * 1024, ROUNDS = 5, ROUND_MS = 500, SHORT_MS = 100 };

static const char *path;
static size_t read_bytes = 864 * 1024;
static uint64_t n_places;
static atomic_bool stop;
static atomic_ullong bytes_read, counted;
static bool huge_pages;
static long round_ms = ROUND_MS;

static void *count_up(void *arg)
{
    unsigned long long n = 0;
    (void)arg;
    for (; !atomic_load_explicit(&stop, memory_order_relaxed); n++)
        for (volatile int i = 0; i < 1000; i++)
            ;
    atomic_fetch_add(&counted, n);
    return NULL;
}

static void *read_on(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    size_t bytes = (read_bytes + HUGE - 1) / HUGE * HUGE, all = bytes + HUGE;
    char *map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (map == MAP_FAILED || fd < 0)
        return NULL;
    char *buffer = map + (HUGE - (uintptr_t)map % HUGE) % HUGE;
    madvise(buffer, bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        off_t at = (off_t)((seed >> 24) % n_places * 4096);
        ssize_t got = pread(fd, buffer, read_bytes, at);
        if (got > 0)
            atomic_fetch_add_explicit(&bytes_read, (unsigned long long)got, memory_order_relaxed);
    }
    close(fd);
    munmap(map, all);
    return NULL;
}

/* One round; gives GB/s read and thousands of counts a second. */
static void measure(unsigned readers, unsigned counters, double *rate, double *counts)
{
    pthread_t threads[MAX_THREADS];
    struct timespec round = {.tv_nsec = round_ms * 1000000L};
    unsigned n = 0;
    atomic_store(&stop, false);
    atomic_store(&bytes_read, 0);
    atomic_store(&counted, 0);
    for (unsigned i = 0; i < readers + counters; i++)
        if (pthread_create(&threads[n], NULL, i < readers ? read_on : count_up,
                           (void *)(uintptr_t)(i * 7919 + 1)) == 0)
            n++;
    nanosleep(&round, NULL);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    *rate = (double)atomic_load(&bytes_read) / 1e9 / ((double)round_ms / 1e3);
    *counts = (double)atomic_load(&counted) / ((double)round_ms / 1e3);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, ROUNDS, sizeof *v, ascending);
    return v[ROUNDS / 2];
}

static void report(unsigned readers, unsigned cpus)
{
    double alone[ROUNDS], free_counts[ROUNDS], rate[2][2][ROUNDS], counts[2][2][ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        measure(0, cpus, &alone[i], &free_counts[i]);
        for (int h = 0; h < 2; h++)
            for (int busy = 0; busy < 2; busy++) {
                huge_pages = h;
                measure(readers, busy ? cpus : 0, &rate[h][busy][i], &counts[h][busy][i]);
            }
    }
    double all = median(free_counts);
    printf("| pages | GB/s | GB/s with %u counting | counting, of alone |\n|---|---:|---:|---:|\n",
           cpus);
    for (int h = 0; h < 2; h++) {
        double idle = median(rate[h][0]), busy = median(rate[h][1]);
        printf("| %s | %.2f | %.2f | %.0f %% |\n", h ? "huge" : "small", idle, busy,
               100 * median(counts[h][1]) / all);
    }
}

static void readers_by_size(uint64_t file_bytes, unsigned cpus)
{
    static const size_t kb[] = {64, 256, 864, 4096};
    enum { SIZES = sizeof kb / sizeof *kb, COUNTS = 5 };
    static double rate[COUNTS][SIZES][2][ROUNDS];
    double unused;
    round_ms = SHORT_MS;
    huge_pages = true;
    for (int i = 0; i < ROUNDS; i++) /* in turn, for the machine drifts */
        for (int c = 0; c < COUNTS; c++)
            for (int k = 0; k < SIZES; k++)
                for (int busy = 0; busy < 2; busy++) {
                    read_bytes = kb[k] * 1024;
                    n_places = (file_bytes - read_bytes) / 4096;
                    measure(1u << c, busy ? cpus : 0, &rate[c][k][busy][i], &unused);
                }
    printf("| readers | 64 KB | 256 KB | 864 KB | 4 MB |\n|---|---:|---:|---:|---:|\n");
    for (int c = 0; c < COUNTS; c++) {
        printf("| %u |", 1u << c);
        for (int k = 0; k < SIZES; k++)
            printf(" %.2f, %.2f |", median(rate[c][k][0]), median(rate[c][k][1]));
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    struct stat st;
    bool by_size = argc > 2 && strcmp(argv[2], "0") == 0;
    if (argc > 2 && !by_size)
        read_bytes = strtoul(argv[2], NULL, 10) * 1024;
    unsigned readers = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 4;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    path = argc > 1 ? argv[1] : "";
    if (stat(path, &st) != 0 || read_bytes == 0 || read_bytes % 4096 ||
        (uint64_t)st.st_size < (by_size ? 8u << 20 : 2 * read_bytes) || cpus < 1 ||
        readers + (unsigned long)cpus > MAX_THREADS) {
        fprintf(stderr, "Usage: direct_reads FILE [KB, a multiple of 4] [READERS]\n");
        return 2;
    }
    n_places = ((uint64_t)st.st_size - read_bytes) / 4096;
    if (by_size)
        readers_by_size((uint64_t)st.st_size, (unsigned)cpus);
    else
        report(readers, (unsigned)cpus);
    return 0;
}
