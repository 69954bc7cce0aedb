/*
 * What libllama believes to be its mapped file: address space of the file's size with nothing
 * behind it. With userfaultfd a touch is answered by the fault thread with a block of the file;
 * without, the file itself is mapped, but not populated, so the kernel answers: the first node of a
 * graph that is only learned is computed all the same, and reads the embedding here. Blocks stay;
 * they are few, and counted where userfaultfd tells of them.
 */
#include "pager/pager_internal.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK_BYTES = 64 * 1024 };

uint64_t mapping_bounce_bytes(const struct pager *p)
{
    return align_up(file_buffer_bytes(BLOCK_BYTES) + p->sys_page, p->sys_page);
}

static bool mapping_keep(struct pager *p, char *base, uint64_t bytes, struct pager_file *f)
{
    struct mapping *more = realloc(p->mappings, (p->n_mappings + 1) * sizeof *more);
    if (!more)
        return false;
    p->mappings = more;
    p->mappings[p->n_mappings++] = (struct mapping){.base = base, .bytes = bytes, .file = f};
    if (!p->fault_bounce)
        p->fault_bounce = memory_reserve(mapping_bounce_bytes(p), PROT_READ | PROT_WRITE);
    return p->fault_bounce != NULL;
}

/* The file as the kernel maps it, page by page on touch, without reading ahead. */
static char *mapping_of_file(const struct pager_file *f, uint64_t bytes, struct bmoe_error *err)
{
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    void *base = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    int errnum = errno;
    if (fd >= 0)
        close(fd);
    if (base == MAP_FAILED) {
        error_set_errno(err, BMOE_E_IO, BMOE_SCOPE_SESSION, errnum, "cannot map %s", f->path);
        return NULL;
    }
    madvise(base, bytes, MADV_RANDOM);
    return base;
}

static char *mapping_make(struct pager *p, struct pager_file *f, uint64_t bytes,
                          struct bmoe_error *err)
{
    if (p->uffd < 0)
        return mapping_of_file(f, bytes, err);
    uint64_t padded = align_up(bytes, p->sys_page);
    char *base = memory_reserve(padded, PROT_READ);
    if (!base) {
        error_set_errno(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, errno,
                        "cannot reserve %llu bytes of address space", (unsigned long long)bytes);
        return NULL;
    }
    int rc = uffd_register(p->uffd, base, padded);
    if (rc == 0 && mapping_keep(p, base, padded, f))
        return base;
    error_set_errno(err, BMOE_E_MEMORY, BMOE_SCOPE_SESSION, rc ? rc : ENOMEM,
                    "cannot watch a mapping of %s", f->path);
    munmap(base, padded);
    return NULL;
}

void *pager_mapping_create(struct pager *p, int file, uint64_t bytes, struct bmoe_error *err)
{
    char *base = NULL;
    pthread_mutex_lock(p->lock);
    if (file < 0 || (uint32_t)file >= p->n_files || bytes == 0 || bytes > UINT64_MAX / 2)
        error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_SESSION, "no such file, or nothing to map");
    else if (fault_start(p, err) == 0)
        base = mapping_make(p, p->files[file], bytes, err);
    pthread_mutex_unlock(p->lock);
    return base;
}

static bool mapping_find(struct pager *p, const char *addr, struct mapping *out)
{
    bool found = false;
    pthread_mutex_lock(p->lock);
    for (uint32_t i = 0; i < p->n_mappings && !found; i++) {
        *out = p->mappings[i];
        found = addr >= out->base && addr < out->base + out->bytes;
    }
    if (found)
        p->count.mapping_faults++;
    pthread_mutex_unlock(p->lock);
    return found;
}

/* Reads [at, at + bytes) of the mapping, zeros behind the file's end. */
static int block_read(struct pager *p, const struct mapping *m, uint64_t at, uint64_t bytes,
                      char **data, struct bmoe_error *err)
{
    uint64_t size = m->file->size, there = at >= size ? 0 : size - at < bytes ? size - at : bytes;
    *data = p->fault_bounce;
    if (there) {
        int rc = file_read(m->file, at, there, p->fault_bounce, data, NULL, NULL, err);
        if (rc)
            rc = file_read(m->file, at, there, p->fault_bounce, data, NULL, NULL, err);
        if (rc)
            return rc;
    }
    memset(*data + there, 0, bytes - there);
    return 0;
}

bool mapping_answer(struct pager *p, char *addr)
{
    struct mapping m;
    struct bmoe_error err;
    char *data, *page = addr - (uintptr_t)addr % p->sys_page;
    if (!mapping_find(p, addr, &m))
        return false;
    if (store_page_present(p, addr)) {
        uffd_wake(p->uffd, page, p->sys_page);
        return true;
    }
    /* From the page on: libllama may have unmapped what lies before it, or behind. */
    uint64_t at = (uint64_t)(page - m.base);
    uint64_t bytes = m.bytes - at < BLOCK_BYTES ? m.bytes - at : BLOCK_BYTES;
    int rc = block_read(p, &m, at, bytes, &data, &err);
    if (rc == 0 && uffd_copy(p->uffd, page, data, bytes) != 0) {
        bytes = p->sys_page;
        int errnum = uffd_copy(p->uffd, page, data, bytes);
        if (errnum)
            rc = error_set_errno(&err, BMOE_E_INTERNAL, BMOE_SCOPE_REQUEST, errnum,
                                 "what was read of %s could not be placed", m.file->path);
    }
    if (rc < 0)
        uffd_zero(p->uffd, page, p->sys_page);
    pthread_mutex_lock(p->lock);
    if (rc < 0)
        failure_keep(p, &err);
    else
        p->count.pinned_bytes += bytes;
    pthread_mutex_unlock(p->lock);
    return true;
}
