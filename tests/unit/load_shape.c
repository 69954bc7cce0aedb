/*
 * Opening a session reads no tensor data into the page cache, however the library came into the
 * process. This one source is a program on the static library and on the shared one (linked), one
 * that opens the shared one with dlopen(RTLD_LOCAL), and one that runs the bmoe program.
 *
 * Usage: load_shape SHAPE MODEL, or load_shape SHAPE MODEL FILE (the program or library)
 * The model is copied, so that nobody else's use of it fills the cache. Exit 77 where the file
 * system keeps files in memory.
 */
#include "bmoe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The header is read through the page cache, and the kernel reads ahead of it. */
#define HEADER_BYTES (2 << 20)

static void say_line(void *user, enum bmoe_log_level level, const char *line)
{
    (void)user;
    (void)level;
    fprintf(stderr, "%s\n", line);
}

struct api {
    void (*init)(struct bmoe_options *o);
    int (*open)(struct bmoe_session **out, const struct bmoe_options *o, struct bmoe_error *err);
    void (*close)(struct bmoe_session *s);
};

static bool open_and_close(const struct api *api, const char *model)
{
    struct bmoe_options o;
    struct bmoe_session *s = NULL;
    struct bmoe_error err = {0};
    api->init(&o);
    o.model = model;
    o.backends_dir = BMOE_BACKENDS_DIR;
    o.n_ctx = 256;
    o.stream = BMOE_ON;
    o.cache_bytes = 8 << 20;
    o.log = say_line;
    if (api->open(&s, &o, &err) != 0)
        fprintf(stderr, "load_shape: %s\n", err.text);
    api->close(s);
    return err.code == 0;
}

#ifdef LOAD_SHAPE_LINKED
static bool run_linked(const char *model)
{
    const struct api api = {bmoe_options_init, bmoe_session_open, bmoe_session_close};
    return open_and_close(&api, model);
}
#else
static bool run_linked(const char *model)
{
    (void)model;
    return false;
}
#endif

static bool run_dlopen(const char *model, const char *library)
{
    struct api api = {0};
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "load_shape: %s\n", dlerror());
        return false;
    }
    *(void **)&api.init = dlsym(handle, "bmoe_options_init");
    *(void **)&api.open = dlsym(handle, "bmoe_session_open");
    *(void **)&api.close = dlsym(handle, "bmoe_session_close");
    return api.init && api.open && api.close && open_and_close(&api, model);
}

static bool run_program(const char *model, const char *program)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, "-m", model, "-p", "And God said", "-n", "2", "-c", "256",
              "--moe-stream", "--cache-mb", "8", (char *)NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* Bytes of the file from `from` on that are in the page cache; -1 when that cannot be told. */
static long cached_bytes(int fd, off_t from, off_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = ((size_t)bytes + page - 1) / page;
    unsigned char *there = malloc(n);
    void *at = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, from);
    long cached = 0;
    if (!there || at == MAP_FAILED || mincore(at, (size_t)bytes, there) != 0)
        cached = -1;
    for (size_t i = 0; cached >= 0 && i < n; i++)
        cached += there[i] & 1 ? (long)page : 0;
    if (at != MAP_FAILED)
        munmap(at, (size_t)bytes);
    free(there);
    return cached;
}

static int copy_evicted(const char *from_path, const char *to_path, off_t *size)
{
    struct stat st = {0};
    off_t at = 0;
    int from = open(from_path, O_RDONLY | O_CLOEXEC);
    int to = open(to_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (from >= 0 && to >= 0 && fstat(from, &st) == 0)
        while (at < st.st_size && sendfile(to, from, &at, (size_t)(st.st_size - at)) > 0)
            ;
    if (from >= 0)
        close(from);
    *size = st.st_size;
    if (at == 0 || at != st.st_size || fsync(to) != 0 ||
        posix_fadvise(to, 0, 0, POSIX_FADV_DONTNEED) != 0)
        return -1;
    return to;
}

static int check(const char *shape, const char *model, const char *file, const char *copy)
{
    off_t size;
    int fd = copy_evicted(model, copy, &size);
    if (fd < 0 || size <= HEADER_BYTES)
        return 1;
    if (cached_bytes(fd, 0, size) != 0)
        return 77;
    bool ran = strcmp(shape, "linked") == 0    ? run_linked(copy)
               : strcmp(shape, "dlopen") == 0  ? run_dlopen(copy, file)
               : strcmp(shape, "program") == 0 ? run_program(copy, file)
                                               : false;
    long cached = cached_bytes(fd, HEADER_BYTES, size - HEADER_BYTES);
    close(fd);
    fprintf(stderr, "load_shape: %s: %ld of %ld bytes of tensor data are in the page cache\n",
            shape, cached, (long)(size - HEADER_BYTES));
    /* Asking the size with fseek makes stdio read the block at the end: one page. */
    return ran && cached >= 0 && cached <= sysconf(_SC_PAGESIZE) ? 0 : 1;
}

int main(int argc, char **argv)
{
    char copy[64];
    if (argc < 3)
        return 2;
    snprintf(copy, sizeof copy, "load_shape-%d.gguf", (int)getpid());
    int rc = check(argv[1], argv[2], argc > 3 ? argv[3] : NULL, copy);
    unlink(copy);
    return rc;
}
