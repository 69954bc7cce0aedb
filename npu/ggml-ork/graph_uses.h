/* Who reads a tensor. ggml counts the readers of every tensor of a whole graph and hands the counts
 * on to the parts it splits the graph into, but has no public call that tells them. Their place in
 * the graph's struct is declared here and proven at run time on a small graph: where the proof
 * fails the answer is "unknown", and callers take that for "others read it". */
#ifndef GGML_ORK_GRAPH_USES_H
#define GGML_ORK_GRAPH_USES_H

#include "ggml_backend_abi.h"

/* Whether this ggml's graphs are as declared. Slow (it makes a graph); ask once. */
bool graph_uses_proven(void);

/* How many times nodes of the whole graph name t as a source, -1 = unknown. Only where proven. */
int graph_uses_of(struct ggml_cgraph *graph, const struct ggml_tensor *t);

#endif
