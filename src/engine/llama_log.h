/*
 * libllama's log, kept silent: the library prints nothing. The first complaint of a load or
 * decode is kept: it is the reason, which libllama's return codes do not tell; those after it say
 * who passed it on. libllama has one
 * log function per process, so this one forwards to the session whose call is running on the same
 * thread; lines from other threads are dropped.
 */
#ifndef BMOE_ENGINE_LLAMA_LOG_H
#define BMOE_ENGINE_LLAMA_LOG_H

struct llama_log {
    char first[256]; /* the first error line, without newline; "" when there was none */
};

/* From here to llama_log_leave lines of this thread go to *log. Not nested. */
void llama_log_enter(struct llama_log *log);
void llama_log_leave(void);

#endif
