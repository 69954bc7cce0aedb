#!/bin/sh
# ork-exports.sh LIBRARY HEADER: what the library shows to others is what its header declares.
set -u
declared=$(tr '\n' ' ' <"$2" | grep -oE 'ORK_API [a-z][^;(]*\(' | grep -oE 'ork_[a-z0-9_]+\($' |
    tr -d '(' | sort)
shown=$(readelf -sW "$1" | awk '$5 == "GLOBAL" && $6 == "DEFAULT" && $7 != "UND" { print $8 }' |
    grep -v '^_\|^\.' | sort)
[ -n "$declared" ] || { echo "$2 declares nothing"; exit 1; }
[ "$declared" = "$shown" ] && exit 0
echo "declared in the header (<) and shown by the library (>):"
printf '%s\n' "$declared" >"${TMPDIR:-/tmp}/ork-declared.$$"
printf '%s\n' "$shown" | diff "${TMPDIR:-/tmp}/ork-declared.$$" -
rm -f "${TMPDIR:-/tmp}/ork-declared.$$"
exit 1
