# The libraries this project stands on, as targets:
#   bmoe_ggml_headers  headers of ggml and llama only
#   bmoe_link_llama(t) links executable t against libllama and ggml
#   bmoe_cmocka, bmoe_jansson
set(LLAMA_PREFIX "" CACHE PATH "A folder that holds libllama and ggml as the distribution packages them")
set(DEPS_PREFIX "" CACHE PATH "A folder that holds cmocka and jansson as the distribution packages them")

set(BMOE_TRIPLET ${CMAKE_C_LIBRARY_ARCHITECTURE})
set(llama_lib ${LLAMA_PREFIX}/usr/lib/${BMOE_TRIPLET})
file(GLOB llama_headers ${LLAMA_PREFIX}/usr/include/ggml*.h ${LLAMA_PREFIX}/usr/include/gguf.h
     ${LLAMA_PREFIX}/usr/include/llama.h)
file(COPY ${llama_headers} DESTINATION ${CMAKE_BINARY_DIR}/llama-include)
add_library(bmoe_ggml_headers INTERFACE)
target_include_directories(bmoe_ggml_headers SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/llama-include)
set(BMOE_BACKENDS_DIR ${llama_lib}/ggml/backends0)

function(bmoe_link_llama target)
  target_link_libraries(${target} PRIVATE bmoe_ggml_headers)
  target_link_options(${target} PRIVATE
    -L${llama_lib} -Wl,--no-as-needed -lllama -lggml -l:libggml-base.so.0
    -Wl,--dynamic-linker=${llama_lib}/ld-linux-x86-64.so.2
    -Wl,--disable-new-dtags -Wl,-rpath,${llama_lib} -Wl,--allow-shlib-undefined
    -l:libm.so.6 -l:libgcc_s.so.1 -l:libstdc++.so.6 -l:libgomp.so.1)
endfunction()

foreach(name cmocka jansson)
  add_library(bmoe_${name} INTERFACE)
  target_include_directories(bmoe_${name} SYSTEM INTERFACE ${DEPS_PREFIX}/usr/include)
  target_link_options(bmoe_${name} INTERFACE -Wl,-rpath,${DEPS_PREFIX}/usr/lib/${BMOE_TRIPLET})
  target_link_libraries(bmoe_${name} INTERFACE
    ${DEPS_PREFIX}/usr/lib/${BMOE_TRIPLET}/lib${name}.so)
endforeach()
