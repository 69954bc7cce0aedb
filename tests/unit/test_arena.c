/*
 * The arena's threads without a model: loaders fill the slots of a device that is host memory, one
 * thread walks graphs and compares every byte it was told is there with the file's, another empties
 * the pager, shrinks it and asks for experts, and reads fail now and then. Made for
 * ThreadSanitizer: nothing here is computed, so no thread is out of its sight.
 */
#include "pager_rig.h"

#include "device/arena.h"
#include "fake_device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    N_LAYERS = 4,
    N_EXPERT = 40,
    COLS = 33,
    ROWS = 31,
    SLICE = COLS * ROWS * (int)sizeof(float),
    MATRIX = SLICE * N_EXPERT,
    PER_LAYER = 3, /* dense, up, down */
    N_SOURCES = N_LAYERS * PER_LAYER
};

static ggml_backend_dev_t device;

struct model {
    struct rig rig;
    struct ggml_context *tensors;
    struct layer_source sources[N_SOURCES];
    struct layers *layers;
    struct arena *arena;
    void *dense[N_LAYERS]; /* bytes in memory, or NULL: read from the file */
    atomic_bool stop;
};

/* Memory that is not as the file has it. */
static void restore(const void *ctx, void *dst, const void *src, size_t bytes)
{
    (void)ctx;
    rig_xor(NULL, 0, dst, src, bytes);
}

static void describe(struct model *m, uint32_t layer, uint32_t part)
{
    static const char *const roles[PER_LAYER] = {"attn_q.weight", "ffn_up_exps.weight",
                                                 "ffn_down_exps.weight"};
    uint32_t i = layer * PER_LAYER + part;
    struct layer_source *s = &m->sources[i];
    struct ggml_tensor *t =
        ggml_new_tensor_3d(m->tensors, GGML_TYPE_F32, COLS, ROWS, part ? N_EXPERT : 1);
    char name[GGML_MAX_NAME];
    snprintf(name, sizeof name, "blk.%u.%s", layer, roles[part]);
    ggml_set_name(t, name);
    *s = (struct layer_source){.tensor = t,
                               .weight = i,
                               .layer = layer,
                               .site = part ? layer : GRAPH_NONE,
                               .uses = part ? GRAPH_USE_EXPERTS : GRAPH_USE_MATRIX,
                               .file = m->rig.file,
                               .file_offset = 777 + (uint64_t)i * MATRIX,
                               .slice_bytes = SLICE,
                               .n_slices = part ? N_EXPERT : 1,
                               .first_extent = LAYERS_NONE};
    if (part) {
        uint32_t number = m->rig.n_matrices;
        rig_matrix(&m->rig, s->file_offset, SLICE, N_EXPERT, layer % 2 ? rig_xor : NULL);
        if (layer % 2) {
            s->restore = restore;
            s->restore_rows = 1;
        }
        s->first_extent = m->rig.matrix[number].range.first_extent;
    } else if (layer % 2 == 0) {
        m->dense[layer] = malloc(SLICE);
        assert_non_null(m->dense[layer]);
        for (uint64_t k = 0; k < SLICE; k++)
            ((uint8_t *)m->dense[layer])[k] = rig_byte(s->file_offset + k);
        s->base = m->dense[layer];
        if (layer == 2) {
            rig_xor(NULL, 0, m->dense[layer], m->dense[layer], SLICE);
            s->restore = restore;
            s->restore_rows = 1;
        }
    }
}

static void build(struct model *m, enum bmoe_place place, unsigned n_slots, bool resident,
                  const struct arena_config *like)
{
    struct bmoe_error err;
    memset(m, 0, sizeof *m);
    rig_init(&m->rig, 777 + (uint64_t)N_SOURCES * MATRIX);
    m->rig.config.place = place;
    rig_create(&m->rig);
    struct ggml_init_params p = {.mem_size = (N_SOURCES + 1) * ggml_tensor_overhead(),
                                 .no_alloc = true};
    m->tensors = ggml_init(p);
    for (uint32_t layer = 0; layer < N_LAYERS; layer++)
        for (uint32_t part = 0; part < PER_LAYER; part++)
            describe(m, layer, part);
    m->rig.config.budget_bytes = (uint64_t)2 << 20;
    rig_start(&m->rig);
    struct layers_config lc = {.device = device,
                               .pager = m->rig.pager,
                               .n_slots = n_slots,
                               .dense_resident = resident,
                               .n_weights = N_SOURCES,
                               .n_tokens = 64};
    if (layers_create(&m->layers, &lc, m->sources, N_SOURCES, &err) < 0)
        fail_msg("%s", err.text);
    struct arena_config c = *like;
    c.pager = m->rig.pager;
    c.layers = m->layers;
    assert_int_equal(arena_create(&m->arena, &c, &err), 0);
}

static void raze(struct model *m)
{
    arena_destroy(m->arena);
    layers_destroy(m->layers);
    ggml_free(m->tensors);
    for (int i = 0; i < N_LAYERS; i++)
        free(m->dense[i]);
    rig_fini(&m->rig);
}

/* What the device holds of a slice must be the file's. */
static void is_there(const struct layer_entry *e, uint32_t slice)
{
    const uint8_t *at = (const uint8_t *)e->device->data + slice * e->stride;
    uint64_t offset = e->src.file_offset + (uint64_t)slice * SLICE;
    for (uint64_t i = 0; i < SLICE; i++)
        if (at[i] != rig_byte(offset + i))
            fail_msg("%s, slice %u: byte %llu is not the file's", e->src.tensor->name, slice,
                     (unsigned long long)i);
}

static void experts_are_there(const struct model *m, uint32_t site, uint64_t set)
{
    const struct layer_site *s = &m->layers->sites[site];
    for (uint32_t k = 0; k < s->n_entries; k++)
        for (uint32_t e = 0; e < N_EXPERT; e++)
            if (set >> e & 1)
                is_there(&m->layers->entries[s->entries[k]], e);
}

/* One graph, up to layer n_layers; false when a read failed. */
static bool walk(struct model *m, uint32_t n_layers, uint64_t *random)
{
    bool fine = true;
    arena_begin(m->arena);
    for (uint32_t k = 0; fine && k < n_layers; k++) {
        assert_true(arena_is_open(m->arena, k));
        fine = arena_dense(m->arena, k);
        if (fine)
            is_there(&m->layers->entries[m->layers->layers[k].first_dense], 0);
        if (k > 0)
            arena_passed(m->arena, k - 1);
        uint64_t set = rig_random(random) & rig_random(random) & (((uint64_t)1 << N_EXPERT) - 1);
        bool known = rig_random(random) % 8 != 0;
        fine = fine && arena_experts(m->arena, k, known ? &set : NULL);
        if (fine)
            experts_are_there(m, k, known ? set : ((uint64_t)1 << N_EXPERT) - 1);
    }
    return arena_end(m->arena, NULL) == 0 && fine;
}

/* Whatever else may happen to a pager, as fast as it goes. */
static void *disturb(void *arg)
{
    struct model *m = arg;
    uint64_t random = 7;
    while (!atomic_load_explicit(&m->stop, memory_order_relaxed)) {
        uint32_t extents[8];
        for (int i = 0; i < 8; i++)
            extents[i] = (uint32_t)(rig_random(&random) % m->rig.n_extents);
        pager_hint(m->rig.pager, rig_random(&random) % 2 ? PAGER_ROUTED : PAGER_AHEAD, extents, 8,
                   rig_random(&random) % 2);
        usleep(300);
        pager_used(m->rig.pager, NULL, 0);
        if (rig_random(&random) % 8 == 0)
            pager_drop_all(m->rig.pager);
        uint64_t budget = ((uint64_t)1 << 20) + rig_random(&random) % ((uint64_t)1 << 20);
        pager_budget_set(m->rig.pager, budget, NULL); /* refused while more is lent */
    }
    return NULL;
}

static void run(struct model *m, int n_graphs, bool failing)
{
    pthread_t thread;
    struct arena_counters c;
    uint64_t random = 1;
    int failed = 0;
    assert_int_equal(pthread_create(&thread, NULL, disturb, m), 0);
    for (int i = 0; i < n_graphs; i++) {
        if (failing && i % 4 == 1) {
            m->rig.shim.eio_skip = (int)(rig_random(&random) % 40);
            m->rig.shim.eio = 16; /* a read is tried twice, by whoever meets it */
        }
        uint32_t n_layers = i % 3 == 2 ? 1 + (uint32_t)(rig_random(&random) % N_LAYERS) : N_LAYERS;
        failed += !walk(m, n_layers, &random);
        m->rig.shim.eio = 0;
        m->rig.shim.eio_skip = 0;
    }
    assert_true(failing || failed == 0);
    assert_true(walk(m, N_LAYERS, &random)); /* whatever happened before */
    atomic_store(&m->stop, true);
    pthread_join(thread, NULL);
    arena_counters(m->arena, &c);
    struct pager_counters p = rig_counters(&m->rig);
    printf("  %llu bytes read, %llu copied from residents, %llu dense; %llu experts, %llu late; "
           "%llu evictions; %d graphs failed\n",
           (unsigned long long)c.read_bytes, (unsigned long long)c.host_bytes,
           (unsigned long long)c.carried_bytes, (unsigned long long)c.routed,
           (unsigned long long)c.demand, (unsigned long long)p.evictions, failed);
    assert_true(c.read_bytes > 0 && c.host_bytes > 0 && p.evictions > 0);
    assert_true(!failing || failed > 0);
}

static void every_place(void **state)
{
    (void)state;
    static const enum bmoe_place places[] = {BMOE_PLACE_MOVE, BMOE_PLACE_COPY, BMOE_PLACE_NONE};
    for (int i = 0; i < 3; i++) {
        struct model m;
        build(&m, places[i], 2, false,
              &(struct arena_config){.n_loaders = 4, .routed = true, .whole_part = 0.4});
        run(&m, 60, false);
        raze(&m);
    }
}

static void three_slots_whole_layers_resident_dense(void **state)
{
    (void)state;
    struct model m;
    build(&m, BMOE_PLACE_COPY, 3, true, &(struct arena_config){.n_loaders = 8});
    run(&m, 40, false);
    raze(&m);
}

static void failing_reads(void **state)
{
    (void)state;
    struct model m;
    build(&m, BMOE_PLACE_NONE, 2, false,
          &(struct arena_config){.n_loaders = 4, .routed = true, .whole_part = 1});
    run(&m, 80, true);
    raze(&m);
}

static void one_late_loader(void **state)
{
    (void)state;
    struct model m;
    build(&m, BMOE_PLACE_COPY, 2, false,
          &(struct arena_config){
              .n_loaders = 1, .routed = true, .whole_part = 0.85, .hooks = {.delay_us = 2000}});
    run(&m, 20, false);
    raze(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_place),
        cmocka_unit_test(three_slots_whole_layers_resident_dense),
        cmocka_unit_test(failing_reads),
        cmocka_unit_test(one_late_loader),
    };
    device = fake_device(0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
