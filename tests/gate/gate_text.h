/*
 * The prompt of every gate and fault test: ASCII letters, blanks and points, always the same.
 */
#ifndef GATE_TEXT_H
#define GATE_TEXT_H

#include <stddef.h>

/* The text, or NULL when fewer than n bytes of it are there (64 KiB are). */
const char *gate_text(size_t n);

#endif
