# The shared library, and what `make install` puts where.
#
# With the system's libllama: programs, both libraries, header, pkg-config file, man page.
# With a private one: the programs alone, linked once more against PREFIX/lib/bmoe, where libllama,
# ggml, their CPU backends and (where needed) their own C library are copied. A library cannot carry
# such a C library into somebody else's program, so it is not installed then, and that is said.
# The linking is done at install time: only then is the prefix known for certain.

if(TARGET bmoe_objects)
  add_library(bmoe_shared SHARED $<TARGET_OBJECTS:bmoe_objects>)
  set_target_properties(bmoe_shared PROPERTIES OUTPUT_NAME bmoe VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/bmoe.map)
  target_include_directories(bmoe_shared INTERFACE ${PROJECT_SOURCE_DIR}/include)
  target_link_options(bmoe_shared PRIVATE
    -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/bmoe.map)
  target_link_libraries(bmoe_shared PRIVATE Threads::Threads m)
  bmoe_link_llama(bmoe_shared)
endif()

set(programs "")
foreach(program bmoe bmoe-bench bmoe-mkmodel)
  if(TARGET ${program})
    list(APPEND programs ${program})
  endif()
endforeach()

if(EXISTS ${PROJECT_SOURCE_DIR}/docs/bmoe.1)
  install(FILES docs/bmoe.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

if(NOT BMOE_LLAMA_PRIVATE)
  install(TARGETS ${programs} DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET bmoe_shared)
    install(TARGETS bmoe_static bmoe_shared DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(FILES include/bmoe.h include/bmoe_counters.h
            include/bmoe_trace.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    # The prefix may be given at install time, so the file finds itself.
    file(RELATIVE_PATH pc_prefix /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
    configure_file(cmake/bmoe.pc.in bmoe.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bmoe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endif()
  return()
endif()

# A second executable of the same objects per program; its paths come from a file that is written
# when installing.
set(relink_file ${CMAKE_BINARY_DIR}/relink.rsp)
if(NOT EXISTS ${relink_file})
  file(WRITE ${relink_file} "")
endif()
set(relinked "")
foreach(program ${programs})
  add_executable(${program}-relinked EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${program}>)
  add_dependencies(${program}-relinked ${program})
  target_link_libraries(${program}-relinked PRIVATE $<TARGET_PROPERTY:${program},LINK_LIBRARIES>)
  target_link_options(${program}-relinked PRIVATE -Wl,--push-state,--no-as-needed
    ${llama_link_items} -Wl,--pop-state -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined
    @${relink_file})
  set_target_properties(${program}-relinked PROPERTIES LINKER_LANGUAGE C
    BUILD_WITH_INSTALL_RPATH TRUE INSTALL_RPATH "" LINK_DEPENDS ${relink_file}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/relinked OUTPUT_NAME ${program})
  list(APPEND relinked ${program}-relinked)
endforeach()

configure_file(cmake/install-private.cmake.in install-private.cmake @ONLY)
install(SCRIPT ${CMAKE_CURRENT_BINARY_DIR}/install-private.cmake)
