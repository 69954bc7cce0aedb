/* Lines for people: formatted into a local buffer and handed on; long lines are cut, not dropped.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void log_line(const struct log *log, enum bmoe_log_level level, const char *format, ...)
{
    if (!log->fn)
        return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log->fn(log->user, level, line);
}
