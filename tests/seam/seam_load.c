/*
 * How libllama loads: what it maps, what it reads, what it gives back.
 */
#include "seam_tests.h"

#include "seam.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void load_maps_once_through_import(void)
{
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){0});
    assert_true(run.slots > 0);
    assert_int_equal(run.n_maps, 1);
    seam_close(&run);

    seam_open(&run, &(struct seam_setup){.untouchable = true});
    assert_int_equal(run.n_maps, 1);
    assert_int_equal(run.map_bytes, run.file_bytes);
    seam_close(&run);
}

static size_t bytes_read_so_far(void)
{
    FILE *io = fopen("/proc/self/io", "r");
    char line[128];
    size_t bytes = 0;

    if (!io) {
        skip();
    }
    while (fgets(line, sizeof line, io)) {
        sscanf(line, "rchar: %zu", &bytes);
    }
    fclose(io);
    return bytes;
}

/* Any access to a weight would be a fault that ends this program. */
void load_reads_header_only(void)
{
    struct seam_run run;
    size_t before;
    size_t with_file;

    seam_load_cpu();
    before = bytes_read_so_far();
    seam_open(&run, &(struct seam_setup){.untouchable = true});
    with_file = bytes_read_so_far() - before;
    assert_true(with_file > run.file_bytes);           /* seam_open itself reads all of it once */
    assert_true(with_file - run.file_bytes < 1 << 20); /* libllama the header, and no weight */
    seam_close(&run);
}

void load_places_weights_by_file_offset(void)
{
    struct seam_run run;

    seam_open(&run, &(struct seam_setup){.untouchable = true});
    seam_capture(&run);
    for (size_t i = 0; i < run.n_weights; i++) {
        assert_ptr_equal(run.weights[i].mapped, (char *)run.map + run.weights[i].offset);
    }
    seam_close(&run);
}

/* munmap of what it was given, in whole or in parts, and of nothing else of ours. */
void load_returns_the_mapping(void)
{
    struct seam_run run;
    unsigned char in_core;

    seam_open(&run, &(struct seam_setup){.untouchable = true});
    char *map = run.map;
    size_t bytes = run.map_bytes;
    seam_close(&run);
    for (size_t at = 0; at < bytes; at += 4096) {
        assert_int_equal(mincore(map + at, 1, &in_core), -1);
        assert_int_equal(errno, ENOMEM);
    }
}

void load_is_silent_with_a_log_callback(void)
{
    char path[] = "/tmp/seam-XXXXXX";
    int file = mkstemp(path);
    int out = dup(1);
    int err = dup(2);
    struct seam_run run;

    assert_true(file >= 0 && out >= 0 && err >= 0);
    unlink(path);
    seam_load_cpu();
    fflush(NULL);
    dup2(file, 1);
    dup2(file, 2);
    seam_open(&run, &(struct seam_setup){0});
    int rc = seam_prefill(&run);
    seam_close(&run);
    fflush(NULL);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    assert_int_equal(rc, 0);
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    close(file);
}

void backend_cpu_loads_alone(void)
{
    seam_load_cpu();
    assert_int_equal(ggml_backend_dev_count(), 1);
    assert_int_equal(ggml_backend_dev_type(ggml_backend_dev_get(0)), GGML_BACKEND_DEVICE_TYPE_CPU);
}

/* The private head of a registration, which npu/ declares for its own backend. */
void backend_api_version_is_3(void)
{
    seam_load_cpu();
    int version;
    memcpy(&version, ggml_backend_reg_get(0), sizeof version);
    assert_int_equal(version, 3);
}
