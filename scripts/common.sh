# What the scripts share; sourced by them with the repository's root as working directory.
#
#   say TEXT            a line for people, on stderr
#   fail TEXT           the same, and the end
#   need_tools NAME...  compiler, make, cmake and the commands named: present, or installed when
#                       root, or named with what to ask for
#   build PRESET        configure and build
#   run_tests NAME ARG...  ctest with ARGs; adds to the totals
#   totals              "N passed, N failed"; its status is non-zero when anything failed

passed=0
failed=0
skipped=0

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "$*"
    exit 1
}

# A compiler that can compile and link against a C library.
have_compiler() {
    command -v cc >/dev/null 2>&1 || return 1
    printf '#include <stdio.h>\n#include <pthread.h>\nint main(void) { return puts("") < 0; }\n' |
        cc -x c - -o /dev/null >/dev/null 2>&1
}

# The package of Debian that brings a command.
package_of() {
    case $1 in
    compiler) echo gcc libc6-dev ;;
    *) echo "$1" ;;
    esac
}

missing_tools() {
    have_compiler || echo compiler
    for tool in make cmake "$@"; do
        command -v "$tool" >/dev/null 2>&1 || echo "$tool"
    done
}

# Installs packages unless that would touch one that is installed already.
install_packages() {
    apt="apt-get -qq --no-upgrade --no-install-recommends"
    # shellcheck disable=SC2086 # options and lists of words
    plan=$(LC_ALL=C $apt -s install $1 2>/dev/null) || {
        say "apt knows no such packages yet; refreshing its lists."
        apt-get -qq update >/dev/null 2>&1
        plan=$(LC_ALL=C $apt -s install $1 2>&1) ||
            fail "apt-get cannot install $1 ($(printf '%s\n' "$plan" | grep -m 1 '^E:')); install them by hand and run this again."
    }
    touched=$(printf '%s\n' "$plan" | awk '$1 == "Remv" || ($1 == "Inst" && $3 ~ /^\[/) { printf " %s", $2 }')
    [ -z "$touched" ] ||
        fail "installing $1 would upgrade or remove$touched, so nothing was installed; bring the system up to date yourself (apt-get upgrade) and run this again."
    say "installing $1"
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $apt -y install $1 >/dev/null 2>&1 ||
        fail "apt-get could not install $1; run apt-get install $1 to see why."
}

need_tools() {
    tools=$(missing_tools "$@")
    [ -z "$tools" ] && return 0
    packages=$(for tool in $tools; do package_of "$tool"; done | xargs)
    if ! command -v apt-get >/dev/null 2>&1; then
        fail "missing here: $(echo $tools); install them with this system's package manager and run this again."
    fi
    if [ "$(id -u)" -ne 0 ]; then
        fail "missing here: $(echo $tools); have someone run as root: apt-get install $packages"
    fi
    install_packages "$packages"
    tools=$(missing_tools "$@")
    [ -z "$tools" ] || fail "still missing after installing $packages: $(echo $tools)."
}

jobs() {
    nproc 2>/dev/null || echo 2
}

# Builds go on quietly; a failure shows the end of what was said.
build() {
    mkdir -p build
    # shellcheck disable=SC2086
    cmake --preset "$1" ${BMOE_CMAKE_ARGS:-} >"build/$1.log" 2>&1 || {
        say "$(awk '/CMake Error/ { found = 1 } found && /^(--|Call Stack)/ { exit } found' \
            "build/$1.log" | tr -s ' \n' ' ' | sed 's/^CMake Error at [^ ]* (message): //')"
        fail "configuring failed; build/$1.log has it all."
    }
    grep -E '^-- (fetched|libllama)' "build/$1.log" | sed 's/^-- //' >&2
    cmake --build "build/$1" -j "$(jobs)" >>"build/$1.log" 2>&1 || {
        tail -n 30 "build/$1.log" >&2
        fail "building failed; build/$1.log has it all."
    }
    grep -E '^seam: ' "build/$1.log" >&2 || true
}

run_tests() {
    name=$1
    shift
    log=build/ctest-$name.log
    mkdir -p build
    ctest "$@" -j "$(jobs)" --output-on-failure >"$log" 2>&1
    status=$?
    line=$(grep -E 'tests? passed, .*failed out of' "$log" || true)
    bad=$(echo "$line" | sed -n 's/.*, \([0-9]*\) tests* failed out of .*/\1/p')
    all=$(echo "$line" | sed -n 's/.* out of \([0-9]*\).*/\1/p')
    none=$(grep -cE '\*\*\*Skipped' "$log" || true)
    if [ -z "$all" ]; then
        grep -q 'No tests were found' "$log" || status=1
        all=0
        bad=$((status != 0))
        [ "$bad" -ne 0 ] && all=1
    elif [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1
    fi
    [ "$bad" -eq 0 ] || cat "$log" >&2
    good=$((all - bad - none))
    say "$name: $good passed, $bad failed, $none skipped"
    grep -E '\*\*\*Skipped' "$log" | sed -E 's/.*: ([^ ]+) \.*.*Skipped.*/  skipped: \1/' >&2 || true
    passed=$((passed + good))
    failed=$((failed + bad))
    skipped=$((skipped + none))
}

totals() {
    [ "$skipped" -eq 0 ] || say "$skipped skipped, for what this machine has not"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
