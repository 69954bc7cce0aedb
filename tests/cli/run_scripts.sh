#!/bin/sh
# run_scripts.sh BMOE FILE...: runs the cases in the files against the program and compares what it
# wrote. A case is a command and what follows it:
#
#   # a comment
#   $ bmoe -m fake: -p hi        the command, a line of shell; $t is an empty folder per file
#   > text                       a line of standard output, exactly
#   ! bmoe: wo*                  a line of standard error, a shell pattern; [ ? * are special
#   ? 2                          the exit status (default 0)
#
# "brief" is a filter for the lines of a session: it leaves the figures of an answer out.
#
# Output that is not listed fails the case. Exits 77 when a file asks for something that is not
# here ("& WORDS" is a command that must succeed, else the file is skipped).
set -u
bmoe=$(realpath "$1")
shift
failed=0
passed=0
skipped=0
wanted=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Compares standard error line by line with the patterns.
match_errors() {
    exec 3<"$work/want.err" 4<"$work/err"
    while IFS= read -r pattern <&3; do
        IFS= read -r written <&4 || return 1
        # shellcheck disable=SC2254
        case $written in $pattern) ;; *) return 1 ;; esac
    done
    ! IFS= read -r written <&4 && [ -z "$written" ]
}

finish_case() {
    [ -n "$command" ] || return 0
    (
        bmoe() { "$bmoe" "$@"; }
        brief() {
            sed -E 's/,"n_prompt":.*/}/; s/"wall_ms":[^,]*,"io_ms".*"delta_r/"delta_r/; s/"wall_ms":[^,]*,//
                s/,"read_mib":.*/}/; s/"load_s":[^,]*,//'
        }
        eval "$command"
    ) >"$work/out" 2>"$work/err" </dev/null
    got=$?
    if [ "$got" = "$status" ] && cmp -s "$work/out" "$work/want.out" && match_errors; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $file: $command"
        echo "  status $got, wanted $status"
        sed 's/^/  out: /' "$work/out"
        sed 's/^/  err: /' "$work/err"
        echo "  wanted:"
        sed 's/^/  out: /' "$work/want.out"
        sed 's/^/  err: /' "$work/want.err"
    fi
}

begin_case() {
    command=$1
    status=0
    : >"$work/want.out"
    : >"$work/want.err"
}

for file in "$@"; do
    t=$work/t
    rm -rf "$t"
    mkdir "$t"
    export t
    begin_case ""
    while IFS= read -r line; do
        case $line in
        '& '*)
            if ! (eval "${line#??}") >/dev/null 2>&1; then
                skipped=$((skipped + 1))
                break
            fi
            ;;
        '$ '*)
            finish_case
            begin_case "${line#??}"
            ;;
        '> '* | '>') printf '%s\n' "${line#>}" | sed 's/^ //' >>"$work/want.out" ;;
        '! '* | '!') printf '%s\n' "${line#!}" | sed 's/^ //' >>"$work/want.err" ;;
        '? '*) status=${line#??} ;;
        '' | '#'*) ;;
        *)
            echo "$file: not understood: $line"
            failed=$((failed + 1))
            ;;
        esac
    done <"$file"
    finish_case
    command=
    wanted=$((wanted + $(grep -c '^\$ ' "$file")))
done
if [ "$skipped" = 0 ] && [ $((passed + failed)) -ne "$wanted" ]; then
    echo "$wanted cases, of which $((passed + failed)) ran"
    failed=$((failed + 1))
fi
echo "$passed passed, $failed failed, $skipped files skipped"
[ "$failed" = 0 ] || exit 1
[ "$passed" != 0 ] || exit 77
