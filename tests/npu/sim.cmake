# The simulator, the transports and the time model.
ork_test(test_sim_programs sim_hand.c)
ork_test(test_sim_hazards sim_hand.c)
ork_test(test_transport_vendor recorded_jobs.c recording_os.c)
ork_test(test_transport_mainline recorded_jobs.c recording_os.c)
ork_test(test_transport_sim sim_hand.c)
ork_test(test_timemodel_anchors)
if(NOT BMOE_FUZZ)
  ork_test(test_sim_random sim_hand.c ../fuzz/fuzz_sim_program.c)
  target_include_directories(test_sim_random PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
endif()

# One suite against every transport; a device that is not there is skipped.
add_executable(test_conformance test_conformance.c product.c)
target_link_libraries(test_conformance PRIVATE ork_internal bmoe_cmocka bmoe_warnings)
foreach(spec vendor mainline sim:kernel=vendor sim:kernel=mainline sim:no-rdma
        sim:chain=either,noncoherent=1,cores=2 sim:quirks=clamp+chain)
  string(REGEX REPLACE "[^a-z0-9]+" "-" label ${spec})
  bmoe_add_test(npu.conformance.${label} LABELS npu TIMEOUT 900 COMMAND test_conformance ${spec})
endforeach()
bmoe_add_test(npu.conformance.threads LABELS "npu;threads" TIMEOUT 600
  COMMAND test_conformance sim:kernel=vendor threads)
bmoe_add_test(npu.conformance.every-row LABELS "npu;long" TIMEOUT 3600
  COMMAND test_conformance sim:kernel=vendor long)

# bench_sim prints the simulator's speed; not a test, since a busy machine is not a fault.
add_executable(bench_sim bench_sim.c sim_hand.c)
target_link_libraries(bench_sim PRIVATE ork_internal bmoe_warnings)

# What runs threads against each other is run under ThreadSanitizer too.
foreach(name test_transport_sim test_transport_vendor test_transport_mainline)
  set_tests_properties(npu.${name} PROPERTIES LABELS "npu;threads")
endforeach()
