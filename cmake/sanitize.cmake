# BMOE_SANITIZE: a -fsanitize list for everything that is built ("address,undefined" or "thread").
# BMOE_FUZZ: build the harnesses of tests/fuzz with libFuzzer instead of a main that replays files.
set(BMOE_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them")
option(BMOE_FUZZ "Build fuzz harnesses with libFuzzer (clang)" OFF)

if(BMOE_SANITIZE)
  add_compile_options(-fsanitize=${BMOE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BMOE_SANITIZE})
endif()
if(BMOE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link) # so that libFuzzer sees which paths an input took
endif()

# What a test runs with. ggml's compute threads spin while they wait, which on few cores takes them
# from reader threads and other tests for whole time slices. libgomp and ggml are not instrumented, so
# ThreadSanitizer cannot see their synchronisation.
set(BMOE_TEST_ENVIRONMENT
  "OMP_WAIT_POLICY=passive"
  "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
  "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/cmake/tsan.supp:second_deadlock_stack=1")

if(POLICY CMP0174) # an empty TIMEOUT is an empty value
  cmake_policy(SET CMP0174 NEW)
endif()

# bmoe_add_test(name LABELS labels COMMAND command...): a ctest entry with what every test here has:
# 77 is "skipped", a time limit, the sanitizers' options.
function(bmoe_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;WORKING_DIRECTORY" "LABELS;COMMAND;ENVIRONMENT")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_WORKING_DIRECTORY)
    set(arg_WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${arg_WORKING_DIRECTORY})
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}" SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT "${BMOE_TEST_ENVIRONMENT};${arg_ENVIRONMENT}")
endfunction()

# bmoe_add_fuzz(name SOURCES files LIBS targets): tests/fuzz/<name>.c defines LLVMFuzzerTestOneInput;
# its corpus tests/fuzz/corpus/<name> is replayed by an ordinary test.
function(bmoe_add_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE bmoe_warnings ${arg_LIBS})
  if(BMOE_FUZZ)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set(replay ${name} -runs=0 ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.c)
    set(replay ${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  endif()
  bmoe_add_test(fuzz.${name} LABELS fuzz COMMAND ${replay})
endfunction()
