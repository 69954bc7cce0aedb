# The warnings every target of this project is compiled with; errors when BMOE_WERROR is on.
option(BMOE_WERROR "Treat compiler warnings as errors" OFF)

add_library(bmoe_warnings INTERFACE)
target_compile_options(bmoe_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wcast-qual
  -Wpointer-arith -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -fno-common)
target_compile_definitions(bmoe_warnings INTERFACE _GNU_SOURCE)
if(BMOE_WERROR)
  target_compile_options(bmoe_warnings INTERFACE -Werror)
endif()
