/*
 * Where ggml's backends lie.
 */
#ifndef BMOE_DEVICE_BACKENDS_DIR_H
#define BMOE_DEVICE_BACKENDS_DIR_H

#include <stddef.h>

/* The folder to load backends from: `given` unless NULL; else the one beside the libggml that this
 * process runs with, written into room[0..bytes); else the one the build knew. Borrows both. */
const char *backends_dir_choose(const char *given, char *room, size_t bytes);

#endif
