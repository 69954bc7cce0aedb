/* RMS_NORM and the MUL after it, done while the rows of the products that read them are coded. */
#ifndef GGML_ORK_NODE_FUSION_H
#define GGML_ORK_NODE_FUSION_H

#include "plugin.h"
#include "rows_in.h"

/* Tries nodes i and i + 1 of the graph. 2: both are done, and their rows lie coded in `rows` for
 * the products; 0: not such a pair, nothing was done; else an error. */
int node_fusion_run(struct plugin *p, struct rows_in_cache *rows, struct ggml_cgraph *graph, int i,
                    struct ork_error *error);

#endif
