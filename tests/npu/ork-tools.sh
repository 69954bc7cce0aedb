#!/bin/sh
# The NPU tools called wrongly, with hostile files and without a place to write to: misuse is exit 2
# and a sentence on stderr, failure is 1, JSON stays JSON.
# ork-tools.sh FOLDER-OF-TOOLS JSON-CHECKER
set -u
tools=$1 json=$2 failed=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# expect STATUS WORD COMMAND...: exit status, and a word that stderr says ("" for nothing said).
expect() {
  want=$1 word=$2
  shift 2
  "$tools/$@" >"$dir/out" 2>"$dir/err" </dev/null
  got=$?
  if [ $got -ne "$want" ] || { [ -n "$word" ] && ! grep -q -- "$word" "$dir/err"; } ||
    { [ -z "$word" ] && [ -s "$dir/err" ]; }; then
    echo "$*: exit $got, not $want, or \"$word\" is not what it says:"
    head -3 "$dir/err"
    failed=1
  fi
}
# shapes STATUS WORD TEXT: a file for ork-bench on a simulator without threads.
shapes() {
  printf "$3" >"$dir/shapes"
  expect "$1" "$2" ork-bench --transport sim --sim threads=0 --repeat 1 "$dir/shapes"
}
# full COMMAND...: not all output fits, so it fails and says so.
full() {
  "$tools/$@" >/dev/full 2>"$dir/err" </dev/null
  if [ $? -eq 0 ] || ! grep -q "could not be written" "$dir/err"; then
    echo "$* > /dev/full: success, or nothing said"
    failed=1
  fi
}

for tool in ork-info ork-bench ork-regdump; do
  expect 0 "" $tool --help
  expect 2 bogus $tool --bogus
  full $tool --help
done

expect 2 abacus ork-info --transport abacus
expect 2 quirks ork-info --transport sim --sim quirks=7
expect 2 sim_options ork-info --transport vendor --sim cores=1
expect 2 extra ork-info extra
expect 0 "" ork-info --transport sim --sim quirks=clamp --selftest
full ork-info --transport sim
for call in --json "--json --selftest" "--json --transport sim --sim kernel=mainline --selftest"; do
  "$tools/ork-info" $call | "$json" transport || failed=1
done
"$tools/ork-info" --json --transport sim --selftest |
  "$json" device simulated hw_version drv_version n_cores n_domains iova_bytes selftest_i8 \
    selftest_i4 selftest_f16 selftest_m1 selftest_chain m_multiple submit_us || failed=1

expect 2 "FILE" ork-regdump
expect 2 "FILE" ork-regdump --type i8 --m 1 --n 32
expect 2 "number" ork-regdump --type i8 --m 0 --n 32 --k 32
expect 2 "number" ork-regdump --type i8 --m 4294967296 --n 32 --k 32
expect 2 "no type" ork-regdump --type i9 --m 1 --n 32 --k 32
expect 2 "one file" ork-regdump a b
expect 1 "programs" ork-regdump --type i8 --m 1048576 --n 4194304 --k 1048576
expect 1 "within" ork-regdump --type i8 --m 4294967295 --n 32 --k 32
expect 1 "within" ork-regdump --type f16 --m 1 --n 4294967295 --k 32
expect 1 "within" ork-regdump --type i4 --m 1 --n 32 --k 4294967295
expect 1 "No such file" ork-regdump "$dir/none"
expect 1 "directory" ork-regdump "$dir"
expect 0 "" ork-regdump /dev/null
head -c 12 /dev/urandom >"$dir/words"
expect 1 "8-byte" ork-regdump "$dir/words"
head -c 524288 /dev/urandom >"$dir/words"
expect 0 "" ork-regdump "$dir/words"
full ork-regdump "$dir/words"
head -c 524296 /dev/urandom >"$dir/words"
expect 1 "at most" ork-regdump "$dir/words"

expect 2 "1 to 3" ork-bench --cores 4
expect 2 "1000000" ork-bench --repeat 0
expect 2 "one file" ork-bench a b
expect 2 "abacus" ork-bench --transport abacus
expect 1 "No such file" ork-bench --transport sim "$dir/none"
expect 1 "directory" ork-bench --transport sim "$dir"
shapes 0 "" "# $(printf '%2000s' | tr ' ' x)\n\n \t\ni8 1 32 32"
shapes 2 "line 2" "i8 1 32 32\ni8 1 32\n"
shapes 2 "line 1" "i8 -1 32 32\n"
shapes 2 "line 1" "i8 1 32 32 0\n"
shapes 2 "line 1" "i8 1 32 32 1025\n"
shapes 2 "line 1" "i8 1 32 32 1 32 7\n"
shapes 2 "line 1" "i8 1 32 99999999999999999999\n"
shapes 2 "line 1" "i8 1\000 32 32\n"
shapes 2 "line 1" "$(printf '%3000s' | tr ' ' 9) 1 32 32\n"
shapes 1 "within" "i8 4194304 32 32\n"
shapes 1 "memory" "i8 1 4194304 1048576\n"
shapes 1 "GiB" "i8 1048576 4194304 32\n"
shapes 1 "GiB" "f16 1048576 16 4096\n"
shapes 1 "below the block" "i8 1 32 32 1 31\n"
shapes 1 "saturate" "i4 1 64 4096 1 4096\n"
full ork-bench --transport sim --repeat 1 "$dir/shapes"
exit $failed
