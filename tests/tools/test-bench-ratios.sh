#!/bin/sh
# How near runs come to their limits, against the committed ratios: test-bench-ratios.sh CSV.
# BENCH, MKMODEL and MODEL are set. Skipped where memory or disk do not hold the bench model thrice.
set -eu
memory=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
[ "$memory" -ge 14000 ] || { echo "skipped: $memory MiB of memory are free, 14000 wanted"; exit 77; }
if [ ! -f "$MODEL" ]; then
    disk=$(df -Pm "$(dirname "$MODEL")" | awk 'NR == 2 { print $4 }')
    [ "$disk" -ge 6000 ] || { echo "skipped: $disk MiB of disk are free, 6000 wanted"; exit 77; }
    "$MKMODEL" --preset bench -o "$MODEL"
fi
"$BENCH" sweep -m "$MODEL" --reps 3 --check "$1"
