/* RMS_NORM or NORM, the MUL after it and the ADD after that, done while the rows of the products
 * that read them are coded. */
#ifndef GGML_ORK_NODE_FUSION_H
#define GGML_ORK_NODE_FUSION_H

#include "plugin.h"
#include "rows_in.h"

/* Tries the nodes from i on. 2 or 3: so many are done, and their rows lie coded in `rows` for the
 * products; 0: no such nodes, nothing was done; else an error. */
int node_fusion_run(struct plugin *p, struct rows_in_cache *rows, struct ggml_cgraph *graph, int i,
                    struct ork_error *error);

#endif
