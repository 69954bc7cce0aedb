#!/bin/sh
# installed-runs.sh BUILD DEPS CMAKE MODELS: installs into an empty folder, then runs the program
# where the build folder and the downloads cannot be seen.
set -u
build=$1
deps=$2
cmake=$3
models=$4
here=$(mktemp -d /tmp/bmoe-install-XXXXXX) || exit 1
trap 'rm -rf "$here"' EXIT

"$cmake" --install "$build" --prefix "$here/prefix" >"$here/log" 2>&1 || { cat "$here/log"; exit 1; }
grep -E 'not installed' "$here/log"
cp "$models/tiny-moe-q4_0.gguf" "$here/model.gguf"

cat >"$here/run" <<RUN
set -eu
for folder in "$build" "$deps"; do
    if [ -d "\$folder" ]; then mount -t tmpfs none "\$folder"; fi
done
cd /
test ! -e "$build/CMakeCache.txt"
"$here/prefix/bin/bmoe" --version
"$here/prefix/bin/bmoe" -m "$here/model.gguf" -p "And it came to pass" -n 8
RUN
unshare -m true 2>/dev/null && exec_in="unshare -m" || exec_in="unshare -rm"
$exec_in true 2>/dev/null || {
    echo "no mount namespace can be made here, so the build folder cannot be hidden"
    exit 77
}
$exec_in sh "$here/run" || exit 1
