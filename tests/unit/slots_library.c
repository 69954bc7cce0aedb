/* A library that maps a file the way libllama does and allocates the way ggml does, built in each
 * way an import can be bound. */
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

void *slots_map(int fd, size_t bytes);
int slots_advise(void *at, size_t bytes);
void *slots_allocate(size_t bytes);

__attribute__((visibility("default"))) void *slots_map(int fd, size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
}

/* An advice that no mapping accepts: 0 only from a stand-in. */
__attribute__((visibility("default"))) int slots_advise(void *at, size_t bytes)
{
    return posix_madvise(at, bytes, 12345);
}

__attribute__((visibility("default"))) void *slots_allocate(size_t bytes)
{
    void *at = NULL;
    return posix_memalign(&at, 64, bytes) == 0 ? at : NULL;
}
