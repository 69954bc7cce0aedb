/* See room.h. */
#include "room.h"

#include <stdlib.h>

void *room_for(void *array, size_t *have, size_t n, size_t element_bytes)
{
    size_t bytes;

    if (array && n <= *have)
        return array;
    free(array);
    *have = 0;
    n = n ? n : 1;
    if (__builtin_mul_overflow(n, element_bytes, &bytes))
        return NULL;
    array = malloc(bytes);
    if (array)
        *have = n;
    return array;
}
