/*
 * One line for people, given to the caller's function; no output of our own. A struct log is
 * plain data, copied freely; the function must be safe on any thread.
 */
#ifndef BMOE_BASE_LOG_H
#define BMOE_BASE_LOG_H

#include "bmoe.h"

struct log {
    bmoe_log_fn *fn; /* NULL: silent */
    void *user;
};

void log_line(const struct log *log, enum bmoe_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
