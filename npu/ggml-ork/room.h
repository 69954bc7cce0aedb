/* Arrays that grow to what the widest graph needs and are kept. */
#ifndef GGML_ORK_ROOM_H
#define GGML_ORK_ROOM_H

#include <stddef.h>

/* Room for n elements at array, which has room for *have; contents are lost when it grows. NULL =
 * no memory, and then *have is 0. */
void *room_for(void *array, size_t *have, size_t n, size_t element_bytes);

#define ROOM(object, member, count, n)                                                             \
    ((object)->member =                                                                            \
         room_for((object)->member, &(object)->count, (n), sizeof(*(object)->member)))

#endif
