#!/bin/sh
# Tests of tests/gate/pairs: test-pairs.sh GATE_FOLDER
set -u
gate=$1
pairs=$gate/pairs
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# refused TEXT: a file of this text ends with 2 and one line.
refused() {
    printf '%s\n' "$1" >factors
    "$pairs" factors >list 2>complaint
    [ $? = 2 ] || fail "not refused: $1"
    [ "$(wc -l <complaint)" = 1 ] && [ ! -s list ] || fail "not one line of complaint: $1"
}

# The gate's own files: complete, short, the same again, and the check sees what is missing or forbidden.
for file in "$gate"/*factors*.txt; do
    "$pairs" "$file" >list || fail "no list of $file"
    "$pairs" --check "$file" <list || fail "the list of $file is not complete"
    "$pairs" "$file" | cmp -s - list || fail "another list the second time"
    all=$("$pairs" --all "$file" | wc -l)
    [ "$(wc -l <list)" -lt "$all" ] || fail "the list of $file is not short"
    sed 1d list | "$pairs" --check "$file" 2>/dev/null && fail "the first line is not missed"
    sed '$d' list | "$pairs" --check "$file" 2>/dev/null && fail "the last line is not missed"
done

cat >factors <<'END'
a: 1 2   # three factors, of which
b: 1 2
c: 1 2
d: x y z
never: a=1 b=1 c=1
never: a=1 b=1 c!=1   # these two rules let a=1 and b=1 never meet
never: c=2 d=x|y
END
"$pairs" factors >list || fail "no list under rules"
"$pairs" --check factors <list || fail "rules make it incomplete"
grep -q 'a=1 b=1' list && fail "an impossible pair occurs"
grep -Eq 'c=2 d=[xy]' list && fail "a forbidden pair occurs"
[ "$("$pairs" --all factors | wc -l)" = 12 ] || fail "the product under rules"
{ cat list; echo "a=1 b=1 c=1 d=x"; } | "$pairs" --check factors 2>/dev/null &&
    fail "a forbidden combination passes"
{ cat list; echo "a=1 b=2 c=1"; } | "$pairs" --check factors 2>/dev/null &&
    fail "half a combination passes"

printf 'a: 1 2\nb: 1 2\nnever: a=1|2\n' >factors
[ -z "$("$pairs" factors)" ] || fail "a list where everything is forbidden"

refused 'a: 1 2'
refused 'a: 1 1
b: 1'
refused 'a: 1
b: 1
never: c=1'
refused 'a: 1
b: 1
never: a=2'
refused 'a: 1
b: 1
never: a=1 a=1'
refused 'a 1 2'
"$pairs" absent 2>/dev/null && fail "an absent file is read"
"$pairs" --every factors 2>/dev/null && fail "an unknown option is taken"

# Other awks, where there are any, give the same list.
"$pairs" "$gate/factors.txt" >list
for awk in gawk mawk "busybox awk" original-awk; do
    command -v ${awk%% *} >/dev/null || continue
    $awk 'BEGIN { exit 0 }' 2>/dev/null || continue
    $awk -v mode=pairs -v factors="$gate/factors.txt" -f "$gate/pairs.awk" | cmp -s - list ||
        fail "$awk gives another list"
    $awk -v mode=check -v factors="$gate/factors.txt" -f "$gate/pairs.awk" <list >/dev/null ||
        fail "$awk finds the list incomplete"
    echo "$awk agrees"
done
