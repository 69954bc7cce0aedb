/* How long the compute threads of libgomp spin before they sleep: see omp_spin.c. */
#ifndef BMOE_CLI_OMP_SPIN_H
#define BMOE_CLI_OMP_SPIN_H

/* First thing in main. Starts the program anew, once, with a setting that suits streaming, unless
 * the environment already has one. Comes back when nothing needed to be done or nothing could. */
void omp_spin_settle(char **argv);

#endif
