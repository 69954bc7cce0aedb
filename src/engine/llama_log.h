/*
 * libllama's log, kept silent: the library prints nothing. The last complaint of a load or decode
 * is kept, because it is the reason that libllama's own return codes do not tell. libllama has one
 * log function per process, so this one forwards to the session whose call is running on the same
 * thread; lines from other threads are dropped.
 */
#ifndef BMOE_ENGINE_LLAMA_LOG_H
#define BMOE_ENGINE_LLAMA_LOG_H

struct llama_log {
    char last[256]; /* the last error line, without newline; "" when there was none */
};

/* From here to llama_log_leave lines of this thread go to *log. Not nested. */
void llama_log_enter(struct llama_log *log);
void llama_log_leave(void);

#endif
