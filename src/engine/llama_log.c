/* A thread-local pointer instead of a global one: two sessions may load at once. */
#include "engine/llama_log.h"

#include <llama.h>
#include <string.h>

static _Thread_local struct llama_log *current;

static void on_line(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (!current || level < GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_CONT || !text[0] ||
        current->first[0])
        return;
    size_t n = strcspn(text, "\n");
    if (n >= sizeof current->first)
        n = sizeof current->first - 1;
    memcpy(current->first, text, n);
    current->first[n] = '\0';
}

void llama_log_enter(struct llama_log *log)
{
    log->first[0] = '\0';
    current = log;
    llama_log_set(on_line, NULL);
}

void llama_log_leave(void)
{
    current = NULL;
}
