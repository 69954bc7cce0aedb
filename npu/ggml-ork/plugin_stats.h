/* What was counted, for programs (proc address "ggml_backend_ork_counts") and for people
 * (ORK_STATS=1). */
#ifndef GGML_ORK_PLUGIN_STATS_H
#define GGML_ORK_PLUGIN_STATS_H

#include "plugin.h"
#include "plugin_counts.h"

void plugin_stats_read(struct plugin *p, struct plugin_counts *out);
/* Through ggml's log. */
void plugin_stats_log(struct plugin *p);

#endif
