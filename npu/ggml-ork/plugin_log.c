/* Sentences for people go where ggml's go: to the log callback of the program that loaded us. The
 * plug-in itself never prints. */
#include <stdarg.h>
#include <stdio.h>

#include "plugin.h"

void plugin_log(enum ggml_log_level level, const char *format, ...)
{
    ggml_log_callback callback = NULL;
    void *user_data = NULL;
    char text[512] = "ork: ";
    size_t used = sizeof("ork: ") - 1;
    va_list args;
    int n;

    ggml_log_get(&callback, &user_data);
    if (!callback)
        return;
    va_start(args, format);
    n = vsnprintf(text + used, sizeof(text) - used - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    used += (size_t)n < sizeof(text) - used - 1 ? (size_t)n : sizeof(text) - used - 2;
    text[used] = '\n';
    text[used + 1] = '\0';
    callback(level, text, user_data);
}
