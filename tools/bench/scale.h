/* bmoe-bench scale: whether a token costs more where there is more that it is not routed to. */
#ifndef BENCH_SCALE_H
#define BENCH_SCALE_H

/* The subcommand, argv[0] being "scale"; answers the exit status. */
int scale_main(int argc, char **argv);

#endif
