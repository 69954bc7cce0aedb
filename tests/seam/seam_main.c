/*
 * Every behaviour of libllama and ggml that we rely on, as one named test (docs/seam.md).
 *
 *   seam MODEL              run them all
 *   seam MODEL NAME         run one: 0 holds, 77 does not apply here, else refused
 *   seam MODEL --list       "NAME<tab>sentence" for each
 *
 * scripts/check-seam runs them one by one, so that a crash refuses one assumption, not the list.
 */
#include "seam_tests.h"

#include "seam.h"

#include <stdio.h>
#include <string.h>

const char *seam_model_path;

struct assumption {
    const char *name;
    void (*test)(void);
    const char *sentence;
};

#define ASSUME(name, sentence)                                                                     \
    {                                                                                              \
#name, name, sentence                                                                      \
    }
/* Not const only because cmocka hands each to its test as void *. */
static struct assumption assumptions[] = {
    ASSUME(
        load_maps_once_through_import,
        "libllama maps the whole file once, through an import slot that can be pointed elsewhere"),
    ASSUME(load_reads_header_only, "loading a mapped model reads its header and touches no weight"),
    ASSUME(load_places_weights_by_file_offset,
           "with use_extra_bufts off every weight lies in the mapping at its offset in the file"),
    ASSUME(load_returns_the_mapping, "freeing the model unmaps the mapping it was given"),
    ASSUME(load_is_silent_with_a_log_callback,
           "with a log callback set nothing is written to stdout or stderr"),
    ASSUME(backend_cpu_loads_alone,
           "a CPU backend is chosen by ggml_backend_score and loaded by its path, alone"),
    ASSUME(backend_api_version_is_3, "the backend interface is of version 3"),
    ASSUME(eval_asks_nothing_at_creation,
           "the scheduler callback is called on the decoding thread, and not at context creation"),
    ASSUME(
        abort_asks_all_and_computes_one,
        "an abort at once asks for every node, computes the first, returns 2 and keeps no token"),
    ASSUME(abort_in_the_middle_leaves_no_trace,
           "a decode aborted in its middle returns 2 and the next has the bits of a fresh context"),
    ASSUME(capture_sees_every_tensor, "one graph shows every tensor of the file"),
    ASSUME(weights_are_told_by_usage,
           "a source is a weight exactly when its buffer's usage is WEIGHTS"),
    ASSUME(eval_isolation_keeps_bits,
           "a node that is asked for is computed and shown before the next is asked, same bits"),
    ASSUME(eval_false_is_no_failure,
           "returning false after a node stops the graph and llama_decode still returns 0"),
    ASSUME(ids_are_rows_of_src2,
           "MUL_MAT_ID takes the routed experts from src[2], I32, a row of nb[1] bytes per token"),
    ASSUME(decode_is_a_graph_per_ubatch, "a decode wider than n_ubatch is one graph per ubatch"),
    ASSUME(bound_data_is_used, "weights are read where their data pointers say at compute time"),
    ASSUME(bound_buffer_is_used, "a weight may name a buffer that does not hold its data"),
    ASSUME(padded_experts_are_used, "MUL_MAT_ID finds expert e at e * nb[2], padded or not"),
    ASSUME(unrouted_experts_are_not_touched,
           "a token reads the experts it is routed to and no other"),
    ASSUME(
        repack_type_has_a_name,
        "the CPU backend lists the buffer type CPU_REPACK under ggml_backend_dev_get_extra_bufts"),
    ASSUME(repack_sets_extra_and_keeps_size,
           "a small CPU_REPACK buffer serves tensors anywhere, and repacking keeps their size"),
    ASSUME(repack_by_expert_is_repack_of_all,
           "repacking expert by expert gives the bytes of repacking the whole matrix"),
    ASSUME(repack_bound_by_us_equals_a_load,
           "weights repacked and bound by us, padded, compute the bits of a load that repacks"),
    ASSUME(graph_is_reused_until_told,
           "equal decodes reuse the graph, and llama_set_adapter_cvec makes the next one new"),
    ASSUME(state_views_lie_behind_their_tensors,
           "the KV views that states are saved through lie right behind the KV tensors"),
    ASSUME(state_saves_and_restores_bits, "a saved and restored sequence decodes to the same bits"),
};
#define N_ASSUMPTIONS (sizeof assumptions / sizeof assumptions[0])

/* cmocka tests take a state argument; this gives each its own assumption. */
static void run_assumption(void **state)
{
    const struct assumption *a = *state;
    a->test();
}

static int run_all(const char *only)
{
    struct CMUnitTest tests[N_ASSUMPTIONS];
    size_t n = 0;

    for (size_t i = 0; i < N_ASSUMPTIONS; i++) {
        if (!only || strcmp(only, assumptions[i].name) == 0) {
            tests[n++] = (struct CMUnitTest){assumptions[i].name, run_assumption, NULL, NULL,
                                             &assumptions[i]};
        }
    }
    if (n == 0) {
        fprintf(stderr, "seam: no assumption is named %s\n", only);
        return 2;
    }
    return _cmocka_run_group_tests("seam", tests, n, NULL, NULL) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: seam MODEL [NAME | --list]\n");
        return 2;
    }
    seam_model_path = argv[1];
    if (argc == 3 && strcmp(argv[2], "--list") == 0) {
        for (size_t i = 0; i < N_ASSUMPTIONS; i++) {
            printf("%s\t%s\n", assumptions[i].name, assumptions[i].sentence);
        }
        return 0;
    }
    return run_all(argc == 3 ? argv[2] : NULL);
}
