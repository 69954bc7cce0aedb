/* The simulator's option string: comma-separated key=value, parsed whole or refused. */
#ifndef ORK_SIM_OPTIONS_H
#define ORK_SIM_OPTIONS_H

#include "ork.h"
#include "sim_device.h"

/* kernel=vendor|mainline   clock, costs, and how programs are chained (vendor)
 * chain=none|required|either  the chaining rule alone, for tests
 * cores=1..3 (3)           domains=1..16 (vendor 16, mainline 1)
 * threads=0|1 (1)          iova_base=N (0), a multiple of 4096 below 2^32
 * noncoherent=0|1 (0)      quirks=clamp+chain+lag (none), see enum sim_quirk
 * fail_job=N, dead_after=N (0)  see struct sim_config
 * NULL or "" = defaults. -EINVAL names the key or value in *error. */
int sim_options_parse(const char *options, struct sim_config *out, struct ork_error *error);

#endif
