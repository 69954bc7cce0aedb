#!/bin/sh
# The program with a device by its name: device_by_name.sh BMOE PLUGIN MODEL. What is printed must be
# the same whatever becomes of the device.
set -eu
bmoe=$1 model=$3
export GGML_BACKEND_PATH="$2" FAKE_DEVICE_NAME=HTP0 OMP_WAIT_POLICY=passive
unset GGML_HEXAGON_HOSTBUF
t=$(mktemp -d)
trap 'rm -r "$t"' EXIT

text=$(printf 'And it came to pass in those days, that there went out a decree. %.0s' 1 2 3 4)

run() {
    "$bmoe" -m "$model" -p "$text" -n 8 --ubatch 64 "$@" >"$t/out" 2>"$t/said" || {
        echo "exit $? with $*" >&2
        cat "$t/said" >&2
        exit 1
    }
    [ -f "$t/plain" ] || cp "$t/out" "$t/plain"
    cmp "$t/plain" "$t/out"
}

expect() { # WHETHER PATTERN
    if grep -q -- "$2" "$t/said"; then found=yes; else found=no; fi
    [ "$found" = "$1" ] || {
        echo "expected '$2' ($1):" >&2
        cat "$t/said" >&2
        exit 1
    }
}

run
expect no HTP0
run --prefill-device HTP0
expect yes 'set GGML_HEXAGON_HOSTBUF=1 for HTP0'
expect yes 'prefill on HTP0: pieces of 32 to 64 tokens'
expect no 'warning'
run --prefill-device htp0
expect yes 'prefill on HTP0'
run --prefill-device auto
expect yes 'prefill on HTP0'
expect yes 'set GGML_HEXAGON_HOSTBUF=1 for HTP0'
GGML_HEXAGON_HOSTBUF=0 run --prefill-device HTP0
expect no 'set GGML_HEXAGON_HOSTBUF'
run --prefill-device HTP7
expect yes "there is no device 'HTP7' (devices: HTP0); all is computed on the CPU"
FAKE_DEVICE_NAME=GPU0 run --prefill-device auto
expect yes 'prefill on GPU0'
expect no 'set GGML_HEXAGON_HOSTBUF'
FAKE_DEVICE_NAME=GPU0 "$bmoe" --list-devices >"$t/out"
grep -q '^GPU0' "$t/out"
