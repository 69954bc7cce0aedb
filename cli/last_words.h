/*
 * What the program says when ggml gives up on the process: one sentence and exit status 1, where
 * ggml would print a backtrace, or start a debugger that does, and abort.
 */
#ifndef BMOE_CLI_LAST_WORDS_H
#define BMOE_CLI_LAST_WORDS_H

/* Once, before a model is opened. Nothing where there is no ggml (the program's tests). */
void last_words_settle(void);

#endif
