#!/bin/sh
# gate_ork on ggml's Vulkan backend and a driver that computes on the CPU: vulkan.sh FETCH DIR GATE
# MODEL. Both are fetched to DIR when they are not there; skipped when they cannot be had. The
# backend fuses what lies in one piece of a graph, which a session cuts at other places than a run
# with all layers resident, so for equal bits it fuses nothing here.
set -u
[ -d "$2" ] || "$1" vulkan "$2" || exit 77
plugin=$(find "$2/usr/lib" -name libggml-vulkan.so | head -n 1)
driver=$(find "$2/usr/share/vulkan" -name 'lvp_icd*.json' | head -n 1)
[ -n "$plugin" ] && [ -n "$driver" ] || {
    echo "the packages have no Vulkan backend, or no driver that computes on the CPU"
    exit 77
}
libraries=${plugin%/ggml/*}
exec env VK_DRIVER_FILES="$driver" GGML_VK_VISIBLE_DEVICES=0 GGML_VK_DISABLE_FUSION=1 \
    LD_LIBRARY_PATH="$libraries" "$3" "$4" "$plugin" Vulkan0
