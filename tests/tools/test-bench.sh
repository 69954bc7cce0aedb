#!/bin/sh
# bmoe-bench timeline, hints and scale on the small model: what they write is there and whole. BENCH and MODEL
# are set.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$BENCH" timeline -m "$MODEL" --part 3 --prompt 64 -t 2 -o "$work"
for name in token ubatch; do
    grep -q 'reader' "$work/timeline-$name.svg"
    tail -1 "$work/timeline-$name.svg" | grep -q '^</svg>$'
done
"$BENCH" scale --reps 2 -n 4 -t 2 --cache-mb 8 -o "$work/scale.md" "$MODEL" "$MODEL"
[ "$(grep -c '^| tiny-moe' "$work/scale.md")" = 2 ]
"$BENCH" hints --part 4 --reps 1 -n 4 -t 2 -m "$MODEL" -o "$work/hints.md" 2>"$work/said"
[ "$(grep -c 'GB/s' "$work/hints.md")" = 9 ]
if grep 'bits differ' "$work/said"; then exit 1; fi
