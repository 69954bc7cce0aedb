/* Threads of the host that code rows, pack weights and multiply few rows: the thread that submits
 * to the NPU asks for the work and waits, and runs none of it.
 *
 * One call at a time; others wait for their turn, so any thread may call. */
#ifndef GGML_ORK_WORKERS_H
#define GGML_ORK_WORKERS_H

#include <stddef.h>
#include <stdint.h>

struct workers;

/* Part `part` of a call; `worker` is 0 .. workers_count - 1, and no two parts run at once with the
 * same one. */
typedef void workers_part(void *user, size_t part, uint32_t worker);

int workers_create(uint32_t n, struct workers **out);
/* Nothing runs. NULL is fine. */
void workers_destroy(struct workers *workers);
uint32_t workers_count(const struct workers *workers);
/* Runs every part once, in any order, and returns when all have ended. */
void workers_run(struct workers *workers, size_t n_parts, workers_part *part, void *user);

#endif
