#!/bin/sh
# ggml-ork-tools.sh CASE LIBDIR BACKENDS PLUGIN [MODEL | MKMODEL]: the distribution's own programs with the
# plug-in, on the simulator. 77 where the program is not there.
set -u
case_=$1 libs=$2 backends=$3 plugin=$4 model=${5-}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset $(env | sed -n "s/^\(ORK_[A-Z_]*\)=.*/\1/p")
export OMP_WAIT_POLICY=passive # threads that spin take the cores from all other tests

# Bytes above ASCII and control characters made visible: a made model says anything.
fail() {
    echo "$1"
    for log in "$work"/*; do
        case $log in
        *.gguf | *' file' | */prefix) continue ;;
        esac
        echo "==> ${log##*/} <=="
        tail -n 40 "$log" | cat -v | cut -c 1-300
    done
    exit 1
}

# $1 and $2 are what two runs said, $1.err and $2.err their logs: equal, or the first byte that is
# not, the ends, and which products went elsewhere.
same() {
    cmp "$1" "$2" && return 0
    for said in "$1" "$2"; do
        echo "${said##*/}: ...$(tail -c 200 "$said" | cat -v)"
        sed -n 's/.*trace: \(.*\) (model.*/\1/p' "$said.err" >"$said.placed"
    done
    diff "$1.placed" "$2.placed" | head -n 20
    return 1
}

# The program named $1, in a prefix as packages lay it out or on the system.
find_tool() {
    root=${libs%/lib/*}
    triplet=${libs##*/}
    for at in "$root/bin" "$root/libexec/$triplet/ggml" /usr/bin "/usr/libexec/$triplet/ggml"; do
        [ -x "$at/$1" ] && { tool=$at/$1; return 0; }
    done
    echo "there is no $1 here"
    exit 77
}

# From the folder of the backends, where ggml looks for them; with the libraries' own loader, where
# they have one.
run() {
    loader=$(ls "$libs"/ld-linux*.so.* 2>/dev/null | head -n 1)
    if [ -n "$loader" ]; then
        (cd "$backends" && "$loader" --library-path "$libs:$libs/llama" "$tool" "$@")
    else
        (cd "$backends" && "$tool" "$@")
    fi
}

# run, with nothing to read, standard output to $3 and the log to $3.err; $2 is the last that counts.
#
# These programs hand their words and their log to a thread that they do not wait for when they end:
# on a busy machine the end is lost, with the CPU alone as well as with any device, and the exit
# status is 0. So an end without $2 is tried again, after $before_try; an exit status other than $1
# (0, or 1 for any error) never is.
before_try=:
run_whole() {
    status=$1 last=$2 said=$3
    shift 3
    for try in 1 2 3 4 5 6 7 8 9 10; do
        $before_try
        run "$@" >"$said" 2>"$said.err" </dev/null
        rc=$?
        [ $rc -lt 128 ] || fail "exit status $rc"
        [ "$status" = $((rc != 0)) ] || fail "exit status $rc"
        grep -qa "$last" "$said" "$said.err" && return 0
        echo "try $try of ${tool##*/} lost its end"
    done
    fail "${tool##*/} never said $last"
}

devices() {
    find_tool llama-bench
    export GGML_BACKEND_PATH="$plugin"
    ORK_TRANSPORT=sim run --list-devices >"$work/sim" 2>&1 || fail "llama-bench failed"
    grep -q '^  ORK0: RK3588 NPU simulator' "$work/sim" || fail "the simulator is not listed"
    [ "$(grep -c '^  ORK0:' "$work/sim")" = 1 ] || fail "the device is listed more than once"
    ORK_TRANSPORT=tin run --list-devices >"$work/tin" 2>&1 || fail "llama-bench failed"
    grep -q 'ork: no device: ORK_TRANSPORT=tin is not' "$work/tin" || fail "a wrong option is not named"
    grep -q '^  ORK0' "$work/tin" && fail "a wrong option gave a device"
    ls /dev/dri/card* /dev/accel/accel* >/dev/null 2>&1 && return 0
    run --list-devices >"$work/none" 2>&1 || fail "llama-bench failed"
    grep -q 'ORK0' "$work/none" && fail "a device without hardware"
    run --list-devices -v >"$work/why" 2>&1 || fail "llama-bench failed"
    [ "$(grep -c 'ork: no device:' "$work/why")" = 1 ] || fail "not one sentence that says why"
}

# From an empty prefix, by its own component; here $plugin is cmake and $model the build folder.
installed() {
    find_tool llama-bench
    "$plugin" --install "$model" --component npu --prefix "$work/prefix" >"$work/log" 2>&1 ||
        fail "cmake --install failed"
    plugin=$(find "$work/prefix" -name libggml-ork.so)
    [ -n "$plugin" ] || fail "it is not installed"
    case $(readelf -d "$plugin" 2>/dev/null) in
    *RUNPATH* | *RPATH*) fail "it carries a path" ;;
    esac
    "$work/prefix/bin/ork-info" --transport sim >"$work/info" || fail "ork-info failed"
    GGML_BACKEND_PATH="$plugin" ORK_TRANSPORT=sim run --list-devices >"$work/sim" 2>&1
    grep -q '^  ORK0: RK3588 NPU simulator' "$work/sim" || fail "the simulator is not listed"
}

# The device goes away in the middle of a graph: an error of the program, and one sentence.
died() {
    find_tool llama-completion
    export GGML_BACKEND_PATH="$plugin" ORK_TRANSPORT=sim ORK_SIM=dead_after=150
    run_whole 1 'was not computed: ' "$work/out" -m "$model" -ngl 99 -t 2 -n 64 --temp 0 -no-cnv \
        -p "And it came to pass in those days"
    [ "$(grep -c 'was not computed: ' "$work/out.err")" = 1 ] || fail "not one sentence"
}

# Model $1 with every layer on the device: weights are packed, and two runs say the same.
says_the_same() {
    export ORK_TRACE=1
    for i in 1 2; do
        run_whole 0 'total time =' "$work/out$i" -m "$1" -ngl 99 -t 2 -c 256 -n 16 --temp 0 \
            -no-cnv -v -p "And it came to pass in those days, that"
    done
    log=$work/out1.err
    grep -q 'ORK0_PACKED model buffer size' "$log" || fail "no weight of $1 was packed"
    grep -qE 'offloaded ([0-9]+)/\1 layers' "$log" || fail "$1 is not all on the device"
    same "$work/out1" "$work/out2" || fail "two runs of $1 differ"
    [ "$(wc -c <"$work/out1")" -gt 42 ] || fail "$1 said nothing"
}

completion() {
    find_tool llama-completion
    export GGML_BACKEND_PATH="$plugin" ORK_TRANSPORT=sim
    says_the_same "$model"
}

# A small made model of each architecture; here $model is the program that makes them.
architectures() {
    find_tool llama-completion
    export GGML_BACKEND_PATH="$plugin" ORK_TRANSPORT=sim
    for preset in T1 T2 T3 T4 T5 T6 T7; do
        "$model" --preset $preset -o "$work/$preset.gguf" >/dev/null || fail "no model $preset"
        says_the_same "$work/$preset.gguf"
        rm "$work/$preset.gguf"
    done
}

# $perplexity, until the log says $1.
measure_perplexity() {
    last=$1
    shift
    run_whole 0 "$last" "$work/log" -m "$model" -t 2 -c 256 -f "$work/text" "$@"
    perplexity=$(cat "$work/log" "$work/log.err" |
        sed -n 's/.*Final estimate: PPL = \([0-9.]*\).*/\1/p')
}

# Text the model itself wrote.
write_text() {
    find_tool llama-perplexity
    find_tool llama-completion
    for seed in 1 2 3 4; do
        run_whole 0 'total time =' "$work/part" -m "$model" -t 2 -n 400 -s $seed --temp 1 -no-cnv \
            -p "And it came to pass"
        cat "$work/part" >>"$work/text"
    done
    find_tool llama-perplexity
}

# What each way of coding costs, and that no int4 sum reached its bound. Of int8 1 % is allowed, of
# int4 by groups what it was when it was measured and half as much again.
quality() {
    write_text
    measure_perplexity 'Final estimate'
    cpu=$perplexity
    echo "codes, rotated, perplexity (CPU $cpu), over it in percent, saturated cells; simulator"
    export GGML_BACKEND_PATH="$plugin" ORK_TRANSPORT=sim ORK_STATS=1
    while read -r quant group most; do
        for rotate in 0 1; do
            export ORK_QUANT=$quant ORK_GROUP=$group ORK_ROTATE=$rotate
            measure_perplexity 'saturated cells' -ngl 99
            npu=$perplexity
            cells=$(sed -n 's/.*; \([0-9]*\) saturated cells.*/\1/p' "$work/log.err")
            over=$(awk -v a="$cpu" -v b="$npu" 'BEGIN { printf "%.2f", (b / a - 1) * 100 }')
            echo "$quant $group, $rotate, $npu, $over, $cells"
            [ "$cells" = 0 ] || fail "saturated cells"
            awk -v a="$over" -v b="$most" 'BEGIN { exit !(a <= b) }' || fail "more than $most %"
        done
    done <<EOF
w8a8 128 1
w4a4-channel 128 10
w4a4 128 14
w4a4 64 12
w4a4 32 10
EOF
}

# Within 1 % of the CPU's.
perplexity() {
    write_text
    measure_perplexity 'Final estimate'
    cpu=$perplexity
    export GGML_BACKEND_PATH="$plugin" ORK_TRANSPORT=sim
    measure_perplexity 'Final estimate' -ngl 99
    npu=$perplexity
    echo "perplexity: CPU $cpu, ORK0 (simulator, W8A8) $npu"
    awk -v a="$cpu" -v b="$npu" 'BEGIN { exit !(a > 1 && b > 1 && b / a < 1.01 && a / b < 1.01) }' ||
        fail "they differ by more than 1 %"
}

# The file as it was before the run whose end was lost.
restore_pack() {
    rm -f "$ORK_PACK"
    [ ! -f "$work/kept file" ] || cp "$work/kept file" "$ORK_PACK"
}

# The same words from a file of packed weights; a byte of it changed: one sentence, and anew.
pack() {
    find_tool llama-completion
    before_try=restore_pack
    export GGML_BACKEND_PATH="$plugin" ORK_TRANSPORT=sim ORK_PACK="$work/pack file" ORK_STATS=1
    for i in 1 2 3 4; do
        [ $i = 1 ] || cp "$ORK_PACK" "$work/kept file"
        [ $i = 3 ] && printf X | dd of="$work/kept file" bs=1 seek=100000 conv=notrunc 2>/dev/null
        run_whole 0 'packed and put there' "$work/out$i" -m "$model" -ngl 99 -t 2 -n 4 --temp 0 \
            -no-cnv -p "And it came"
        same "$work/out1" "$work/out$i" || fail "run $i says something else"
        grep -o 'stats: [0-9]* matrices taken from .*' "$work/out$i.err" || fail "nothing was counted"
    done
    grep -q 'stats: 0 matrices taken' "$work/out1.err" || fail "taken from nowhere"
    grep -q 'there.$' "$work/out1.err" && grep -q ', 0 packed' "$work/out1.err" && fail "nothing was kept"
    grep -q ', 0 packed and put' "$work/out2.err" || fail "packed again"
    [ "$(grep -c 'pack file is made anew' "$work/out3.err")" = 1 ] || fail "not one sentence of damage"
    grep -q ', 0 packed and put' "$work/out3.err" && fail "the damage was not packed again"
    grep -q 'is made anew' "$work/out4.err" && fail "damaged once more"
    return 0
}

# What ggml's own test of backends says of operation $1 in the shapes $2: none is wrong, and at least
# $3 are supported.
ops_are_right() {
    run test -b ORK0 -o "$1" -p "$2" >"$work/$1" 2>&1 || fail "$1 failed"
    passed=$(sed -n 's/.* \([0-9]*\)\/\1 tests passed.*/\1/p' "$work/$1" | head -n 1)
    echo "$1: ${passed:-0} cases supported and right"
    [ "${passed:-0}" -ge "$3" ] || fail "fewer than $3"
}

# Without the shapes whose operands take the tool gigabytes.
backend_ops() {
    find_tool test-backend-ops
    export GGML_BACKEND_PATH="$plugin" ORK_TRANSPORT=sim ORK_MIN_ROWS=1 # none by the host
    ops_are_right RMS_NORM . 16
    ops_are_right NORM . 15
    ops_are_right MUL . 5
    ops_are_right MUL_MAT ',n=[0-9]{1,6},' 824
    ops_are_right MUL_MAT_ID 'b=[01],m=([0-9]{1,3}|[1-3][0-9]{3}),' 571
}

case $case_ in
devices | completion | architectures | perplexity | quality | pack | died | installed | backend_ops) "$case_" ;;
*) echo "no case $case_"; exit 2 ;;
esac
