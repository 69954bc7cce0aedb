#!/bin/sh
# ggml-ork-exports.sh PLUGIN: it shows ggml's two symbols and nothing else, and needs no library
# but ggml-base and the C library.
set -u
bad=0
shown=$(nm -D --defined-only "$1" | awk '{ print $3 }' | sort | tr '\n' ' ')
[ "$shown" = "ggml_backend_init ggml_backend_score " ] || { echo "exported: $shown"; bad=1; }
readelf -d "$1" | grep -E 'RPATH|RUNPATH' && bad=1
readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(libggml-base\.so\.|libc\.so\.|libm\.so\.|libpthread\.so\.|lib[a-z]+san\.so\.)' &&
    bad=1
exit $bad
