/*
 * A file that is complete or not there: it is written beside its name as NAME.part and renamed at
 * the end. What exists already and is no plain file (a device, a pipe) is written in place.
 */
#ifndef MK_FILE_H
#define MK_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* fd >= 0 exactly between open and commit or discard. */
struct mk_file {
    char *path;
    char *part; /* NULL when written in place */
    int fd;
};

/* Opens for `bytes` bytes; where the file system can tell, a lack of room is an error here. */
int mk_file_open(struct mk_file *file, const char *path, int64_t bytes, struct bmoe_error *error);
int mk_file_write(struct mk_file *file, const void *data, size_t n, struct bmoe_error *error);
/* Closes the written file; mk_file_publish then gives it its name. */
int mk_file_close(struct mk_file *file, struct bmoe_error *error);
int mk_file_publish(struct mk_file *file, struct bmoe_error *error);
/* Frees the names; a file that was not published is removed. Takes a zeroed or half-opened file. */
void mk_file_fini(struct mk_file *file);

#endif
