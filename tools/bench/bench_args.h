/* The options of the subcommands: one table each, read by one function. */
#ifndef BMOE_BENCH_ARGS_H
#define BMOE_BENCH_ARGS_H

#include <stddef.h>
#include <stdint.h>

enum bench_arg_kind {
    ARG_TEXT,   /* const char * */
    ARG_NUMBER, /* unsigned, from 1 to most */
    ARG_MIB,    /* uint64_t of bytes, given in MiB */
    ARG_REAL,   /* double above 0 */
    ARG_CHOICE, /* int: which of the choices */
    ARG_FLAG    /* bool */
};

/* One option: --NAME, or -N where the name is one letter. */
struct bench_arg {
    const char *name;
    enum bench_arg_kind kind;
    void *to;
    unsigned most;              /* numbers; 0: 2^24 */
    const char *const *choices; /* ends with NULL */
};

enum { BENCH_MAX_ARGS = 24 };

/* What --place takes: enum bmoe_place by its name. */
extern const char *const bench_places[];

/* Reads argv by the table of n options; words that are none come to its end, from *rest on (NULL:
 * there may be none). Answers -1 to go on, else the exit status: --help, and misuse with a sentence
 * on stderr. Whoever needs an option says so by bench_misuse. */
int bench_args(const struct bench_arg *args, size_t n, const char *usage, int argc, char **argv,
               int *rest);
int bench_misuse(const char *what); /* answers 2 */

/* The command line as a document quotes it: models without their folders. */
void bench_command(char *out, size_t bytes, int argc, char **argv);

#endif
