# The pager. Those labelled threads also run under ThreadSanitizer.
foreach(name test_pager_touch)
  bmoe_unit_test(${name} SOURCES pager_rig.c LABELS threads)
endforeach()
