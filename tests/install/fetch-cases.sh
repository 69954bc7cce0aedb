#!/bin/sh
# fetch-cases.sh FETCH_DEPS: what scripts/fetch-deps says when it cannot, in front of an apt that
# only pretends: one sentence, exit 1, and nothing left behind.
set -u
fetch=$1
here=$(mktemp -d /tmp/bmoe-fetch-XXXXXX) || exit 1
trap 'rm -rf "$here"' EXIT
mkdir "$here/bin"
for tool in sh awk cat chmod cp dirname getconf grep head id ls mkdir mktemp mv rm sed sort basename; do
    ln -s "$(command -v $tool)" "$here/bin/$tool"
done

# The pretended apt. UPDATE is what `update` prints, LISTS is what it downloads, VERSION is what the
# lists offer.
cat >"$here/apt-get" <<'FAKE'
#!/bin/sh
case "$*" in
*indextargets*) [ -z "${NO_SOURCES:-}" ] && echo "http://mirror.invalid/debian here main Packages" ;;
*update*)
    echo "$UPDATE"
    lists=$(sed -n 's/^Dir::State::lists "\(.*\)";/\1/p' "$APT_CONFIG")
    [ -z "${LISTS:-}" ] || : >"$lists/x_$LISTS"
    ;;
*download*) echo "E: pretended failure"; exit 100 ;;
esac
exit 0
FAKE
cat >"$here/apt-cache" <<'FAKE'
#!/bin/sh
[ -z "${VERSION:-}" ] || echo "Version: $VERSION"
FAKE
cat >"$here/dpkg" <<'FAKE'
#!/bin/sh
case $1 in
--print-architecture) echo amd64 ;;
--compare-versions) awk -v a="$2" -v b="$4" -v op="$3" \
    'BEGIN { exit !(op == "ge" ? a + 0 >= b + 0 : a + 0 < b + 0) }' ;;
esac
FAKE
for tool in apt-config dpkg-deb; do printf '#!/bin/sh\n' >"$here/$tool"; done
chmod +x "$here"/apt-* "$here"/dpkg*

bad=0
expect() { # title words... : the sentence that the last run must have said
    title=$1
    shift
    said=$(PATH=$here/bin UPDATE=${UPDATE:-} sh "$fetch" llama "$here/out/llama" 2>&1)
    rc=$?
    lines=$(printf '%s\n' "$said" | grep -c .)
    left=$(ls -A "$here/out" 2>/dev/null)
    if [ $rc -ne 1 ] || [ "$lines" -ne 1 ] || [ -n "$left" ] ||
        ! printf '%s' "$said" | grep -q "$*"; then
        printf 'FAILED %s: exit %s, said: %s, left: %s\n' "$title" $rc "$said" "$left"
        bad=1
    fi
}

expect "no apt" "this system has no apt-get"
for tool in apt-get apt-cache apt-config dpkg dpkg-deb; do ln -s "$here/$tool" "$here/bin/$tool"; done
export UPDATE LISTS VERSION NO_SOURCES
NO_SOURCES=1 UPDATE= LISTS= VERSION=
expect "no sources" "no package source"
NO_SOURCES= UPDATE="W: Failed to fetch: Temporary failure resolving 'mirror.invalid'"
expect "no network" "no package mirror can be reached"
UPDATE="E: The repository 'http://mirror.invalid/debian forky Release' does not have a Release file."
expect "suites moved" "none of the suites forky sid"
UPDATE="E: Release file is expired (invalid since 3d)."
expect "expired" "suite forky of the mirror is out of date: .*Check-Valid-Until"
UPDATE="E: The signatures of http://mirror.invalid are not good."
expect "apt's own complaint" "apt does not accept suite forky of the mirror (The signatures"
UPDATE= LISTS=InRelease
expect "architecture" "suite forky sid has no libllama-dev for amd64"
LISTS=Packages
expect "no package" "suite forky sid has no libllama-dev for amd64"
VERSION=1:0.6.1-1
expect "too old" "has libllama 0.6.1-1, and 0.7 is needed"
VERSION=1:0.7.0-1
expect "download" "downloading from suite forky failed (E: pretended failure)"
[ $bad -eq 0 ] && echo "every case is one sentence"
exit $bad
