#!/bin/sh
# ork-experts.sh DOCUMENT PROGRAM: the document has every line of the program's tables, and every
# row of them says that it is a model.
set -u
document=$1
lines=$("$2") || exit 1
rows=$(printf '%s\n' "$lines" | grep -c '^| model |')
[ "$rows" -ge 30 ] || { echo "only $rows rows"; exit 1; }
printf '%s\n' "$lines" | grep -vE '^(\| model \||\| \| model \||\|---|$)' && exit 1
printf '%s\n' "$lines" | while IFS= read -r line; do
    [ -z "$line" ] || grep -qxF -- "$line" "$document" || { echo "not in $document: $line"; exit 1; }
done
