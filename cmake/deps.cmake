# The libraries this project stands on, and how to link with them:
#
#   bmoe_ggml_headers        headers of ggml and llama only; defines BMOE_BACKENDS_DIR, and
#                            BMOE_BACKENDS_SUBDIR, the same from the folder of the libraries
#   bmoe_link_llama(target)  links an executable or a shared library with libllama and ggml
#   bmoe_link_ggml_base(target)  links a plug-in with libggml-base, which whoever loads it has already
#   bmoe_cmocka, bmoe_jansson
#   BMOE_LLAMA_PRIVATE       true where libllama is not the system's (its programs carry an RPATH)
#   BMOE_LLAMA_LOADER        the dynamic loader beside libllama, where it needs one of its own
#
# Where they come from: LLAMA_PREFIX and DEPS_PREFIX when set, else the system through pkg-config,
# else a private prefix under BMOE_DEPS_DIR that scripts/fetch-deps fills with Debian's own packages.
# Those may need a newer C library than the host has; then the loader and the C library come with
# them, and a program names both itself (dynamic-linker, DT_RPATH), so that it needs no wrapper and
# no environment. libllama has a RUNPATH of its own, which DT_RPATH does not reach through: hence
# the executable itself brings in the C++, math and OpenMP libraries it will want.

set(LLAMA_PREFIX "$ENV{LLAMA_PREFIX}" CACHE PATH "A folder with libllama and ggml, as packages or an install lay it out")
set(DEPS_PREFIX "$ENV{DEPS_PREFIX}" CACHE PATH "A folder with cmocka and jansson, as packages lay it out")
set(BMOE_DEPS_DIR "${CMAKE_BINARY_DIR}/deps" CACHE PATH "Where downloaded packages are unpacked")
option(BMOE_FETCH "Download what neither the system nor a prefix has" ON)

set(BMOE_LLAMA_MIN 0.7)
set(BMOE_GGML_MIN 0.27)

find_package(PkgConfig QUIET)
set(BMOE_TRIPLET ${CMAKE_C_LIBRARY_ARCHITECTURE})

function(bmoe_fetch what dir)
  if(EXISTS ${dir}/packages)
    return()
  endif()
  if(NOT BMOE_FETCH)
    message(FATAL_ERROR "The system has no ${what} packages of a version that will do, and BMOE_FETCH is off.")
  endif()
  set(arch "")
  if(CMAKE_CROSSCOMPILING)
    string(REPLACE aarch64 arm64 arch ${CMAKE_SYSTEM_PROCESSOR})
  endif()
  message(STATUS "Fetching Debian's packages (${what})")
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/fetch-deps ${what} ${dir} ${arch}
    RESULT_VARIABLE rc OUTPUT_VARIABLE said ERROR_VARIABLE complaint
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(rc)
    message(FATAL_ERROR "${complaint}")
  endif()
  message(STATUS "${said}")
endfunction()

# ---- libllama and ggml ------------------------------------------------------------------------
set(BMOE_LLAMA_PRIVATE FALSE)
if(NOT LLAMA_PREFIX AND PKG_CONFIG_FOUND AND NOT CMAKE_CROSSCOMPILING)
  pkg_check_modules(SYSTEM_LLAMA QUIET llama>=${BMOE_LLAMA_MIN} ggml>=${BMOE_GGML_MIN})
endif()
if(LLAMA_PREFIX)
  set(llama_root ${LLAMA_PREFIX})
  set(BMOE_LLAMA_PRIVATE TRUE)
elseif(SYSTEM_LLAMA_FOUND)
  pkg_get_variable(llama_lib llama libdir)
  pkg_get_variable(llama_include llama includedir)
else()
  set(llama_root ${BMOE_DEPS_DIR}/llama)
  bmoe_fetch(llama ${llama_root})
  set(BMOE_LLAMA_PRIVATE TRUE)
endif()

if(BMOE_LLAMA_PRIVATE)
  foreach(candidate usr/lib/${BMOE_TRIPLET} usr/lib lib/${BMOE_TRIPLET} lib64 lib)
    if(EXISTS ${llama_root}/${candidate}/libllama.so)
      set(llama_lib ${llama_root}/${candidate})
      break()
    endif()
  endforeach()
  foreach(candidate usr/include include)
    if(EXISTS ${llama_root}/${candidate}/llama.h)
      set(llama_include ${llama_root}/${candidate})
      break()
    endif()
  endforeach()
  if(NOT llama_lib OR NOT llama_include)
    message(FATAL_ERROR "LLAMA_PREFIX=${llama_root} holds no libllama.so and llama.h for ${BMOE_TRIPLET}.")
  endif()
  file(GLOB BMOE_LLAMA_LOADER ${llama_lib}/ld-linux*.so.*)
endif()
set(BMOE_LLAMA_LIBDIR ${llama_lib})

# Only these headers: a prefix's other headers (another libc's) must not mix with the host's.
file(GLOB llama_headers ${llama_include}/ggml*.h ${llama_include}/gguf.h ${llama_include}/llama.h)
file(COPY ${llama_headers} DESTINATION ${CMAKE_BINARY_DIR}/llama-include)

file(GLOB backends_dirs ${llama_lib}/ggml/backends*)
if(backends_dirs)
  list(GET backends_dirs -1 BMOE_BACKENDS_DIR)
else()
  set(BMOE_BACKENDS_DIR ${llama_lib})
endif()

file(RELATIVE_PATH BMOE_BACKENDS_SUBDIR ${llama_lib} ${BMOE_BACKENDS_DIR}/.)

add_library(bmoe_ggml_headers INTERFACE)
target_include_directories(bmoe_ggml_headers SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/llama-include)
target_compile_definitions(bmoe_ggml_headers INTERFACE BMOE_BACKENDS_DIR="${BMOE_BACKENDS_DIR}"
  BMOE_BACKENDS_SUBDIR="${BMOE_BACKENDS_SUBDIR}")

# The version is in the .pc file, wherever it is from.
function(bmoe_pc_version name out)
  set(version unknown)
  foreach(pc ${llama_lib}/pkgconfig/${name}.pc ${llama_root}/lib/pkgconfig/${name}.pc)
    if(EXISTS ${pc})
      file(STRINGS ${pc} line REGEX "^Version:")
      string(REGEX REPLACE "^Version: *" "" version "${line}")
      break()
    endif()
  endforeach()
  set(${out} ${version} PARENT_SCOPE)
endfunction()
bmoe_pc_version(llama BMOE_LLAMA_VERSION)
bmoe_pc_version(ggml BMOE_GGML_VERSION)
if(BMOE_LLAMA_VERSION VERSION_LESS BMOE_LLAMA_MIN AND NOT BMOE_LLAMA_VERSION STREQUAL unknown)
  message(FATAL_ERROR "libllama in ${llama_lib} is ${BMOE_LLAMA_VERSION}; ${BMOE_LLAMA_MIN} or newer is needed.")
endif()

set(llama_link_items ${llama_lib}/libllama.so ${llama_lib}/libggml.so)
file(GLOB ggml_base ${llama_lib}/libggml-base.so ${llama_lib}/libggml-base.so.0)
list(GET ggml_base 0 ggml_base)
list(APPEND llama_link_items ${ggml_base})
if(BMOE_LLAMA_LOADER)
  foreach(runtime libm.so.6 libgcc_s.so.1 libstdc++.so.6 libgomp.so.1)
    if(EXISTS ${llama_lib}/${runtime})
      list(APPEND llama_link_items ${llama_lib}/${runtime})
    endif()
  endforeach()
endif()

function(bmoe_link_llama target)
  get_target_property(type ${target} TYPE)
  target_link_libraries(${target} PRIVATE bmoe_ggml_headers m)
  target_link_options(${target} PRIVATE
    -Wl,--push-state,--no-as-needed ${llama_link_items} -Wl,--pop-state)
  if(BMOE_LLAMA_PRIVATE)
    target_link_options(${target} PRIVATE
      -Wl,--disable-new-dtags -Wl,-rpath,${llama_lib} -Wl,--allow-shlib-undefined)
    if(BMOE_LLAMA_LOADER AND type STREQUAL EXECUTABLE)
      target_link_options(${target} PRIVATE -Wl,--dynamic-linker=${BMOE_LLAMA_LOADER})
    endif()
  endif()
endfunction()

function(bmoe_link_ggml_base target)
  target_link_libraries(${target} PRIVATE bmoe_ggml_headers m)
  target_link_options(${target} PRIVATE
    -Wl,--push-state,--no-as-needed ${ggml_base} -Wl,--pop-state -Wl,--allow-shlib-undefined)
endfunction()

# ---- cmocka and jansson -----------------------------------------------------------------------
# A static archive is taken where there is one (jansson), so that a program needs no path to it.
foreach(name cmocka jansson)
  if(NOT DEPS_PREFIX AND PKG_CONFIG_FOUND AND NOT CMAKE_CROSSCOMPILING)
    pkg_check_modules(SYSTEM_${name} QUIET IMPORTED_TARGET ${name})
  endif()
  add_library(bmoe_${name} INTERFACE)
  if(SYSTEM_${name}_FOUND)
    target_link_libraries(bmoe_${name} INTERFACE PkgConfig::SYSTEM_${name})
    list(APPEND deps_from "${name} ${SYSTEM_${name}_VERSION} (system)")
  else()
    set(deps_root ${DEPS_PREFIX})
    if(NOT deps_root)
      set(deps_root ${BMOE_DEPS_DIR}/host)
      bmoe_fetch(host ${deps_root})
    endif()
    target_include_directories(bmoe_${name} SYSTEM INTERFACE ${deps_root}/usr/include)
    file(GLOB found ${deps_root}/usr/lib/${BMOE_TRIPLET}/lib${name}.a
                    ${deps_root}/usr/lib/${BMOE_TRIPLET}/lib${name}.so)
    if(NOT found)
      message(FATAL_ERROR "${deps_root} holds no lib${name} for ${BMOE_TRIPLET}.")
    endif()
    list(GET found 0 found)
    target_link_libraries(bmoe_${name} INTERFACE ${found})
    list(APPEND deps_from "${name} (${deps_root})")
  endif()
endforeach()

# cmocka 2 warns of names for which the oldest version meant here (1.1.5) has no others.
target_compile_options(bmoe_cmocka INTERFACE -Wno-deprecated-declarations)

if(NOT BMOE_LLAMA_PRIVATE)
  set(llama_from "system, ${llama_lib}")
elseif(BMOE_LLAMA_LOADER)
  set(llama_from "${llama_root}, with its own C library")
else()
  set(llama_from "${llama_root}")
endif()
list(JOIN deps_from ", " deps_from)
message(STATUS "libllama ${BMOE_LLAMA_VERSION}, ggml ${BMOE_GGML_VERSION} (${llama_from}); ${deps_from}")
