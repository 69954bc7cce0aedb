# The ggml backend: its own parts, the shared object through ggml's public calls, and the
# distribution's programs as users start them.
set(ggml_ork ${PROJECT_SOURCE_DIR}/npu/ggml-ork)
add_executable(test_plugin_options test_plugin_options.c ${ggml_ork}/plugin_options.c)
target_include_directories(test_plugin_options PRIVATE ${ggml_ork})
target_compile_definitions(test_plugin_options PRIVATE
  ORK_DOCUMENT="${PROJECT_SOURCE_DIR}/docs/ork.md")
target_link_libraries(test_plugin_options PRIVATE bmoe_cmocka bmoe_warnings m)
bmoe_add_test(npu.test_plugin_options LABELS npu COMMAND test_plugin_options)

add_executable(test_pack_cache test_pack_cache.c ${ggml_ork}/pack_cache.c ${ggml_ork}/pack_hash.c)
target_include_directories(test_pack_cache PRIVATE ${ggml_ork})
target_link_libraries(test_pack_cache PRIVATE bmoe_cmocka bmoe_warnings Threads::Threads)
bmoe_add_test(npu.test_pack_cache LABELS npu COMMAND test_pack_cache)
add_executable(test_placement test_placement.c ${ggml_ork}/placement.c)
target_include_directories(test_placement PRIVATE ${ggml_ork})
target_link_libraries(test_placement PRIVATE bmoe_cmocka bmoe_warnings)
bmoe_add_test(npu.test_placement LABELS npu COMMAND test_placement)

foreach(name test_ggml_ork test_ggml_ork_faults test_ggml_ork_fusion)
  add_executable(${name} ${name}.c ggml_ork_fixture.c)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/npu/ork/include
                             ${ggml_ork})
  target_compile_definitions(${name} PRIVATE ORK_PLUGIN="$<TARGET_FILE:ggml-ork>")
  target_link_libraries(${name} PRIVATE bmoe_cmocka bmoe_warnings Threads::Threads m)
  bmoe_link_llama(${name})
  add_dependencies(${name} ggml-ork)
endforeach()
# Emulated, the board's own core: the CPU backend, which these tests compare with, has variants for
# later ones that an emulator gets wrong.
set(board "")
if(CMAKE_CROSSCOMPILING)
  set(board QEMU_CPU=cortex-a76)
endif()
bmoe_add_test(npu.test_ggml_ork_fusion LABELS npu COMMAND test_ggml_ork_fusion
  ENVIRONMENT ${board})
bmoe_add_test(npu.test_ggml_ork LABELS npu TIMEOUT 900 COMMAND test_ggml_ork
  ENVIRONMENT ${board})
bmoe_add_test(npu.test_ggml_ork.mainline LABELS npu TIMEOUT 900 COMMAND test_ggml_ork
  ENVIRONMENT ORK_SIM=kernel=mainline ${board})
bmoe_add_test(npu.test_ggml_ork.noncoherent LABELS npu TIMEOUT 900 COMMAND test_ggml_ork
  ENVIRONMENT ORK_SIM=noncoherent=1 ORK_VERIFY=1 ${board})
bmoe_add_test(npu.ggml-ork.dead LABELS npu COMMAND test_ggml_ork_faults dead
  ENVIRONMENT ORK_SIM=dead_after=200)
bmoe_add_test(npu.ggml-ork.full LABELS npu COMMAND test_ggml_ork_faults full
  ENVIRONMENT "ORK_SIM=domains=1,iova_base=4261412864")
bmoe_add_test(npu.ggml-ork.domains LABELS npu COMMAND test_ggml_ork_faults domains
  ENVIRONMENT "ORK_SIM=domains=3,iova_base=4261412864")
# Every way of coding, through the same products.
foreach(code w4a4-rotate w8a8-rotate w4a4 w4a4-channel)
  string(REPLACE "-rotate" ";ORK_ROTATE=1" code_environment "ORK_QUANT=${code}")
  bmoe_add_test(npu.test_ggml_ork.${code} LABELS npu TIMEOUT 900 COMMAND test_ggml_ork
    ENVIRONMENT ${code_environment} ${board})
  if(NOT code STREQUAL w4a4-rotate) # the longest path; the others on request
    set_tests_properties(npu.test_ggml_ork.${code} PROPERTIES LABELS "npu;long")
  endif()
endforeach()

bmoe_add_test(npu.ggml-ork.exports LABELS npu
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ggml-ork-exports.sh $<TARGET_FILE:ggml-ork>)

# A sanitized shared object cannot be loaded by a program that is not.
if(NOT BMOE_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  foreach(case devices completion perplexity pack died)
    bmoe_add_test(npu.ggml-ork.${case} LABELS npu TIMEOUT 600
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ggml-ork-tools.sh ${case} ${BMOE_LLAMA_LIBDIR}
              ${BMOE_BACKENDS_DIR} $<TARGET_FILE:ggml-ork>
              ${PROJECT_SOURCE_DIR}/models/tiny-moe-q4_0.gguf)
  endforeach()
  if(TARGET bmoe-mkmodel)
    bmoe_add_test(npu.ggml-ork.architectures LABELS npu TIMEOUT 600
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ggml-ork-tools.sh architectures ${BMOE_LLAMA_LIBDIR}
              ${BMOE_BACKENDS_DIR} $<TARGET_FILE:ggml-ork> $<TARGET_FILE:bmoe-mkmodel>)
  endif()
  bmoe_add_test(npu.ggml-ork.installed LABELS npu
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ggml-ork-tools.sh installed ${BMOE_LLAMA_LIBDIR}
            ${BMOE_BACKENDS_DIR} ${CMAKE_COMMAND} ${CMAKE_BINARY_DIR})
  bmoe_add_test(npu.ggml-ork.quality LABELS "npu;long" TIMEOUT 3600
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ggml-ork-tools.sh quality ${BMOE_LLAMA_LIBDIR}
            ${BMOE_BACKENDS_DIR} $<TARGET_FILE:ggml-ork>
            ${PROJECT_SOURCE_DIR}/models/tiny-moe-q4_0.gguf)
  bmoe_add_test(npu.ggml-ork.backend-ops LABELS "npu;long" TIMEOUT 3600
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ggml-ork-tools.sh backend_ops ${BMOE_LLAMA_LIBDIR}
            ${BMOE_BACKENDS_DIR} $<TARGET_FILE:ggml-ork>)
endif()
