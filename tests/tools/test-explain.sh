#!/bin/sh
# bmoe-bench explain: for each way of placing, the rows of a phase add up to its wall, and the bits are
# the resident run's. What the rows say is a matter of the machine. BENCH and MODEL are set.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for place in none move; do
    "$BENCH" explain -m "$MODEL" --part 4 --reps 1 --prompt 40 -n 4 -t 2 --place $place -o "$work/out" || {
        [ $place = move ] && continue # no userfaultfd here
        exit 1
    }
    if grep 'bits differ' "$work/out"; then exit 1; fi
    [ "$(grep -c 'at once take [0-9.]*: [0-9.]* times that' "$work/out")" = 2 ]
    awk -F '|' -v place=$place '
        /^## (Prefill|Decode)/ { sum = 0 }
        /^## Threads/ { exit !(phases == 2) }
        NF == 6 && $3 ~ /^ -?[0-9.]+ $/ && $2 !~ /wall/ { sum += $3 }
        $2 ~ /wall\*\*/ {
            phases++
            if (sum - $3 > 0.1 || $3 - sum > 0.1) { print place, sum, $3; exit 1 }
        }' "$work/out"
done
