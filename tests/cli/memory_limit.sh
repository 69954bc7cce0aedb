#!/bin/sh
# The plan that a run prints is kept: in a memory control group (version 1 or 2) with the planned
# bytes + 3 % + 16 MiB as its limit the same command writes the same text, never meets the limit, and
# nothing of it is killed. memory_limit.sh BMOE MODEL; exits 77 where no such group can be made.
set -u
bmoe=$1
model=$2
work=$(mktemp -d) || exit 1
group=
cleanup() {
    [ -z "$group" ] || rmdir "$group"
    rm -rf "$work"
}
trap cleanup EXIT

# The limit's file, and where a group counts how often it was met and what was killed for it.
make_group() {
    for kind in "/sys/fs/cgroup/memory memory.limit_in_bytes" "/sys/fs/cgroup memory.max"; do
        group=${kind% *}/bmoe-limit-$$
        limit=$group/${kind#* }
        mkdir "$group" 2>/dev/null || continue
        [ -w "$limit" ] && echo 4294967296 2>/dev/null >"$limit" && return 0
        rmdir "$group"
    done
    group=
    return 1
}
times_met() {
    if [ -e "$group/memory.failcnt" ]; then
        cat "$group/memory.failcnt"
        sed -n 's/^oom_kill //p' "$group/memory.oom_control"
    else
        sed -n 's/^max //p; s/^oom_kill //p' "$group/memory.events"
    fi | awk '{ n += $1 } END { print n + 0 }'
}
make_group || {
    echo "no memory control group can be made here"
    exit 77
}
export limit group

failed=0
for mode in "--moe-stream --cache-mb 2 --place move" "--moe-stream --cache-mb 2 --place copy" \
    "--moe-stream --cache-mb 2 --place none" "--no-moe-stream"; do
    # shellcheck disable=SC2086 # words
    set -- -m "$model" -t 2 -n 12 -p "And it came to pass in those days" $mode
    "$bmoe" "$@" >"$work/free" 2>"$work/said" || {
        cat "$work/said"
        exit 1
    }
    planned=$(sed -n 's/^bmoe: plan: .*at most \([0-9]*\).*/\1/p' "$work/said")
    [ -n "$planned" ] || exit 1
    echo $(((planned * 103 / 100 + 16) * 1048576)) >"$limit" || exit 1
    before=$(times_met)
    # The shell enters the group and becomes the program.
    sh -c 'echo $$ >"$group/cgroup.procs" && exec "$@"' sh "$bmoe" "$@" >"$work/limited" \
        2>"$work/said"
    status=$?
    met=$(($(times_met) - before))
    echo "$mode: planned $planned MiB, exit $status, limit met $met times"
    if [ $status != 0 ] || [ $met != 0 ] || ! cmp "$work/free" "$work/limited"; then
        cat "$work/said"
        failed=1
    fi
done
exit $failed
