/*
 * The import slots of one library, pointed elsewhere for the time of a load or of an allocation.
 *
 * An imported function is called through a pointer that the dynamic loader filled in: one slot per
 * JUMP_SLOT or GLOB_DAT relocation. The slots of a library linked with -z now lie in pages that the
 * loader made read-only (RELRO), so they are made writable for the store and read-only again.
 *
 * The functions put there pass everything on to this object's own mmap and the like, never to what
 * the slot held: under lazy binding that is the resolver, which would overwrite the slot. They may
 * still be entered, by a thread that had read the slot, after rebind_end; then they only pass on.
 */
#include "pager/rebind.h"

#include "base/error.h"
#include "pager/pager_internal.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define RELOC_JUMP_SLOT R_X86_64_JUMP_SLOT
#define RELOC_GLOB_DAT  R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define RELOC_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define RELOC_GLOB_DAT  R_AARCH64_GLOB_DAT
#elif defined(__i386__)
#define RELOC_JUMP_SLOT R_386_JMP_SLOT
#define RELOC_GLOB_DAT  R_386_GLOB_DAT
#elif defined(__arm__)
#define RELOC_JUMP_SLOT R_ARM_JUMP_SLOT
#define RELOC_GLOB_DAT  R_ARM_GLOB_DAT
#else /* no slot is found, and the load reads the file */
#define RELOC_JUMP_SLOT UINT32_MAX
#define RELOC_GLOB_DAT  UINT32_MAX
#endif

#if __ELF_NATIVE_CLASS == 64
#define RELOC_TYPE(info)   ELF64_R_TYPE(info)
#define RELOC_SYMBOL(info) ELF64_R_SYM(info)
#else
#define RELOC_TYPE(info)   ELF32_R_TYPE(info)
#define RELOC_SYMBOL(info) ELF32_R_SYM(info)
#endif

struct import_slot {
    uintptr_t *at;
    uintptr_t was;
    uintptr_t now;
    bool read_only; /* lies in a page the loader protected */
};

#define SLOTS_MAX 32

/* The slots changed at the moment. Guarded by lock, which is held from begin to end. */
static struct {
    pthread_mutex_t lock;
    struct import_slot slots[SLOTS_MAX];
    size_t n_slots;
} changed = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct span {
    uintptr_t start, end;
};

/* One load, of the thread that began it and touched by no other. */
struct load {
    rebind_map_fn *fn; /* NULL: no load in progress */
    void *ctx;
    struct rebind_memory *memory; /* instead of a load, what is allocated; borrowed */
    struct span *given;           /* what fn gave out; owned */
    size_t n_given;
    unsigned n_answered;
};
static _Thread_local struct load current;

/* ---- what the slots are pointed at ---- */

/* Remembers what was given out. Without memory for it an madvise goes through, which is harmless.
 */
static void note_given(void *at, size_t bytes)
{
    struct span *more = realloc(current.given, (current.n_given + 1) * sizeof *more);
    if (!more)
        return;
    more[current.n_given] = (struct span){(uintptr_t)at, (uintptr_t)at + bytes};
    current.given = more;
    current.n_given++;
}

static bool was_given(const void *at)
{
    uintptr_t a = (uintptr_t)at;
    for (size_t i = 0; i < current.n_given; i++)
        if (a >= current.given[i].start && a < current.given[i].end)
            return true;
    return false;
}

/* The address to answer with, or NULL: not this thread's load, or not a plain map of a file. */
static void *answer(size_t bytes, int prot, int flags, int fd, int64_t offset)
{
    struct stat st;
    if (!current.fn || fd < 0 || offset != 0 || (flags & (MAP_FIXED | MAP_ANONYMOUS)) ||
        (prot & PROT_EXEC) || fstat(fd, &st) != 0)
        return NULL;
    void *at = current.fn(current.ctx, st.st_dev, st.st_ino, bytes);
    if (at) {
        current.n_answered++;
        note_given(at, bytes);
    }
    return at;
}

/* The symbol "mmap" takes a long offset on every ABI meant here, whatever our own off_t is. */
static void *slot_mmap(void *addr, size_t bytes, int prot, int flags, int fd, long offset)
{
    void *at = answer(bytes, prot, flags, fd, offset);
    return at ? at : mmap(addr, bytes, prot, flags, fd, (off_t)offset);
}

static void *slot_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off64_t offset)
{
    void *at = answer(bytes, prot, flags, fd, offset);
    return at ? at : mmap64(addr, bytes, prot, flags, fd, offset);
}

static int slot_madvise(void *addr, size_t bytes, int advice)
{
    return was_given(addr) ? 0 : madvise(addr, bytes, advice);
}

static int slot_posix_madvise(void *addr, size_t bytes, int advice)
{
    return was_given(addr) ? 0 : posix_madvise(addr, bytes, advice);
}

/* Most of what is this large is filled at once; a rest of it is part of every plan. */
#define HUGE_FROM ((size_t)4 << 20)

static int slot_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    struct rebind_memory *m = current.memory;
    if (m) {
        m->asked_bytes += bytes;
        if (m->refused || m->asked_bytes > m->limit_bytes) {
            m->refused_bytes = m->refused ? m->refused_bytes : bytes;
            m->refused = true;
            return ENOMEM;
        }
    }
    int rc = posix_memalign(out, alignment, bytes);
    if (rc == 0 && m && bytes >= HUGE_FROM)
        memory_huge(*out, (char *)*out + bytes);
    return rc;
}

/* What stands in for an import of that name; 0 when it is left alone. */
static uintptr_t stand_in(const char *name, bool allocator)
{
    if (allocator)
        return strcmp(name, "posix_memalign") == 0 ? (uintptr_t)slot_posix_memalign : 0;
    if (strcmp(name, "mmap") == 0)
        return (uintptr_t)slot_mmap;
    if (strcmp(name, "mmap64") == 0)
        return (uintptr_t)slot_mmap64;
    if (strcmp(name, "madvise") == 0)
        return (uintptr_t)slot_madvise;
    if (strcmp(name, "posix_madvise") == 0)
        return (uintptr_t)slot_posix_madvise;
    return 0;
}

/* ---- finding the slots ---- */

/* The parts of an object's dynamic section that name its imports. */
struct imports {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    uintptr_t jmprel, rela, rel;
    size_t jmprel_bytes, rela_bytes, rel_bytes;
    bool jmprel_is_rela;
    struct span relro; /* whole pages, as the loader protects them */
};

/* glibc has added the load address to the section's pointers in place; other loaders have not. */
static uintptr_t dynamic_pointer(uintptr_t base, const ElfW(Dyn) * entry)
{
    uintptr_t at = (uintptr_t)entry->d_un.d_ptr;
    return at < base ? base + at : at;
}

static void read_dynamic(struct imports *im, const ElfW(Dyn) * entry)
{
    for (; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            im->symbols = (const ElfW(Sym) *)dynamic_pointer(im->base, entry);
            break;
        case DT_STRTAB:
            im->strings = (const char *)dynamic_pointer(im->base, entry);
            break;
        case DT_JMPREL:
            im->jmprel = dynamic_pointer(im->base, entry);
            break;
        case DT_PLTRELSZ:
            im->jmprel_bytes = entry->d_un.d_val;
            break;
        case DT_PLTREL:
            im->jmprel_is_rela = entry->d_un.d_val == DT_RELA;
            break;
        case DT_RELA:
            im->rela = dynamic_pointer(im->base, entry);
            break;
        case DT_RELASZ:
            im->rela_bytes = entry->d_un.d_val;
            break;
        case DT_REL:
            im->rel = dynamic_pointer(im->base, entry);
            break;
        case DT_RELSZ:
            im->rel_bytes = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
}

static void add_slot(const struct imports *im, uintptr_t at, uintptr_t now)
{
    uintptr_t *where = (uintptr_t *)at;
    for (size_t i = 0; i < changed.n_slots; i++)
        if (changed.slots[i].at == where)
            return;
    if (changed.n_slots < SLOTS_MAX)
        changed.slots[changed.n_slots++] =
            (struct import_slot){.at = where,
                                 .was = *where,
                                 .now = now,
                                 .read_only = at >= im->relro.start && at < im->relro.end};
}

struct wanted {
    const char *library;
    bool allocator; /* the allocator's imports instead of the mapping's */
};

/* Rel and Rela begin alike: r_offset, r_info. */
static void scan_relocations(const struct imports *im, uintptr_t table, size_t bytes, bool is_rela,
                             bool allocator)
{
    size_t step = is_rela ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel));
    for (uintptr_t at = table; table && at + step <= table + bytes; at += step) {
        const ElfW(Rel) *r = (const ElfW(Rel) *)at;
        if (RELOC_TYPE(r->r_info) != RELOC_JUMP_SLOT && RELOC_TYPE(r->r_info) != RELOC_GLOB_DAT)
            continue;
        const ElfW(Sym) *symbol = &im->symbols[RELOC_SYMBOL(r->r_info)];
        uintptr_t now = stand_in(im->strings + symbol->st_name, allocator);
        if (symbol->st_shndx == SHN_UNDEF && now)
            add_slot(im, im->base + (uintptr_t)r->r_offset, now);
    }
}

/* data: a struct wanted. */
static int scan_object(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    const struct wanted *wanted = data;
    const char *slash = strrchr(info->dlpi_name, '/');
    if (!strstr(slash ? slash + 1 : info->dlpi_name, wanted->library))
        return 0;
    struct imports im = {.base = (uintptr_t)info->dlpi_addr};
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t start = im.base + (uintptr_t)ph->p_vaddr;
        if (ph->p_type == PT_DYNAMIC)
            read_dynamic(&im, (const ElfW(Dyn) *)start);
        if (ph->p_type == PT_GNU_RELRO)
            im.relro =
                (struct span){start & ~(page - 1), (start + (uintptr_t)ph->p_memsz) & ~(page - 1)};
    }
    if (!im.symbols || !im.strings)
        return 0;
    scan_relocations(&im, im.jmprel, im.jmprel_bytes, im.jmprel_is_rela, wanted->allocator);
    scan_relocations(&im, im.rela, im.rela_bytes, true, wanted->allocator);
    scan_relocations(&im, im.rel, im.rel_bytes, false, wanted->allocator);
    return 0;
}

/* ---- changing them ---- */

/* Other threads may call through the slot meanwhile: one atomic store, no ordering needed. */
static int slot_store(const struct import_slot *s, uintptr_t value)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)s->at & ~(page - 1));
    if (s->read_only && mprotect(start, page, PROT_READ | PROT_WRITE) != 0)
        return -errno;
    __atomic_store_n(s->at, value, __ATOMIC_RELAXED);
    if (s->read_only && mprotect(start, page, PROT_READ) != 0)
        return -errno; /* the store is done; the page is left writable */
    return 0;
}

static void restore_slots(size_t n)
{
    while (n-- > 0)
        slot_store(&changed.slots[n], changed.slots[n].was);
    changed.n_slots = 0;
}

/* Changes the wanted slots and keeps the lock, when there are any. */
static int begin(struct wanted wanted, struct bmoe_error *err)
{
    if (current.fn || current.memory)
        return error_set(err, BMOE_E_MISUSE, BMOE_SCOPE_REQUEST,
                         "this thread is already loading a model");
    pthread_mutex_lock(&changed.lock);
    dl_iterate_phdr(scan_object, &wanted);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < changed.n_slots; i++) {
        rc = slot_store(&changed.slots[i], changed.slots[i].now);
        if (rc < 0)
            restore_slots(i + 1);
    }
    if (rc == 0 && changed.n_slots > 0)
        return (int)changed.n_slots;
    pthread_mutex_unlock(&changed.lock);
    return rc < 0 ? error_set_errno(err, BMOE_E_SEAM, BMOE_SCOPE_SESSION, -rc,
                                    "cannot change the imports of %s", wanted.library)
                  : 0;
}

int rebind_begin(const char *library, rebind_map_fn *fn, void *ctx, struct bmoe_error *err)
{
    int n = begin((struct wanted){.library = library}, err);
    if (n > 0)
        current = (struct load){.fn = fn, .ctx = ctx};
    return n;
}

void rebind_memory_begin(const char *library, struct rebind_memory *memory)
{
    if (begin((struct wanted){.library = library, .allocator = true}, NULL) > 0)
        current = (struct load){.memory = memory};
}

unsigned rebind_end(void)
{
    if (!current.fn && !current.memory)
        return 0;
    unsigned n_answered = current.n_answered;
    restore_slots(changed.n_slots);
    free(current.given);
    current = (struct load){0};
    pthread_mutex_unlock(&changed.lock);
    return n_answered;
}
