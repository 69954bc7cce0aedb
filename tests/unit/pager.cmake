# The pager's tests. Those labelled threads also run under ThreadSanitizer.
bmoe_unit_test(test_pager_table)
bmoe_unit_test(test_pager_cache SOURCES pager_rig.c)
foreach(name test_pager_touch test_pager_file test_pager_hints test_pager_faults
             test_pager_move)
  bmoe_unit_test(${name} SOURCES pager_rig.c LABELS threads TIMEOUT 600)
endforeach()
target_link_options(test_pager_faults PRIVATE -Wl,--wrap=mmap)
target_link_options(test_pager_move PRIVATE -Wl,--wrap=ioctl)
