/*
 * The seam tests by name; seam_main.c has the table that says what each shows.
 */
#ifndef SEAM_TESTS_H
#define SEAM_TESTS_H

/* seam_load.c */
void load_maps_once_through_import(void);
void load_reads_header_only(void);
void load_places_weights_by_file_offset(void);
void load_returns_the_mapping(void);
void load_is_silent_with_a_log_callback(void);
void backend_cpu_loads_alone(void);
void backend_api_version_is_3(void);

/* seam_graph.c */
void eval_asks_nothing_at_creation(void);
void abort_asks_all_and_computes_one(void);
void abort_in_the_middle_leaves_no_trace(void);
void capture_sees_every_tensor(void);
void weights_are_told_by_usage(void);
void eval_isolation_keeps_bits(void);
void eval_false_is_no_failure(void);
void ids_are_rows_of_src2(void);
void decode_is_a_graph_per_ubatch(void);

/* seam_rebind.c */
void bound_data_is_used(void);
void bound_buffer_is_used(void);
void padded_experts_are_used(void);
void unrouted_experts_are_not_touched(void);

/* seam_repack.c */
void repack_type_has_a_name(void);
void repack_sets_extra_and_keeps_size(void);
void repack_by_expert_is_repack_of_all(void);
void repack_bound_by_us_equals_a_load(void);

/* seam_context.c */
void graph_is_reused_until_told(void);
void state_views_lie_behind_their_tensors(void);
void state_saves_and_restores_bits(void);

#endif
