/* bmoe-bench hints: what guesses of the next layer's experts are worth, by the speed of the disk.
 */
#ifndef BMOE_BENCH_HINTS_H
#define BMOE_BENCH_HINTS_H

/* The subcommand, argv[0] being "hints"; answers the exit status. */
int hints_main(int argc, char **argv);

#endif
