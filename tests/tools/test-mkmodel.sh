#!/bin/sh
# Tests of bmoe-mkmodel. Run by CTest as: test-mkmodel.sh CASE [ARGUMENT]...
# with MKMODEL, MODEL_DECODES, ROUTING_STATS, SHARDS_EQUAL and BACKENDS in the environment.
set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# expect STATUS COMMAND...: the command ends with this status and at most one line of complaint.
expect() {
    status=$1
    shift
    "$@" 2>complaint
    got=$?
    cat complaint >&2
    [ "$got" = "$status" ] || fail "exit $got instead of $status: $*"
    [ "$(wc -l <complaint)" = 1 ] || fail "not one line of complaint: $*"
    [ ! -e out.gguf ] && [ ! -e out.gguf.part ] || fail "a file was left by: $*"
}

same_sum() {
    [ "$(sha256sum <"$1")" = "$(sha256sum <"$2")" ]
}

case $1 in
types-decode) # types-decode PRESET TYPE...
    preset=$2
    shift 2
    for type in "$@"; do
        "$MKMODEL" --preset "$preset" --type "$type" -o model.gguf || fail "$preset $type"
        "$MODEL_DECODES" model.gguf "$BACKENDS" || fail "$preset $type does not decode"
    done
    ;;
decodes) # decodes OPTION...
    shift
    "$MKMODEL" "$@" -o model.gguf || fail "$*"
    "$MODEL_DECODES" model.gguf "$BACKENDS" || fail "$* does not decode"
    ;;
same) # same PRESET: options and nothing else decide the bytes
    "$MKMODEL" --preset "$2" --threads 1 -o a.gguf || fail one thread
    "$MKMODEL" --preset "$2" --threads 1 -o b.gguf || fail one thread again
    "$MKMODEL" --threads 5 --preset "$2" -o c.gguf || fail five threads
    "$MKMODEL" --preset "$2" --seed 2 -o d.gguf || fail another seed
    "$MKMODEL" --preset "$2" --zipf 0 -o e.gguf || fail another exponent
    same_sum a.gguf b.gguf || fail "two runs differ"
    same_sum a.gguf c.gguf || fail "the number of threads matters"
    ! same_sum a.gguf d.gguf || fail "the seed does not matter"
    ! same_sum a.gguf e.gguf || fail "--zipf does not matter"
    ;;
routes) # routes TEXT OPTION...: like a real model, by the figures docs/mkmodel.md gives
    text=$2
    shift 2
    "$MKMODEL" "$@" -o model.gguf || fail "$*"
    "$ROUTING_STATS" model.gguf "$BACKENDS" "$text" 40:65 46:66 70:88 || fail "$* routes otherwise"
    "$MKMODEL" "$@" --zipf 0 -o model.gguf || fail "$* without preferences"
    ! "$ROUTING_STATS" model.gguf "$BACKENDS" "$text" 40:65 46:66 70:88 2>/dev/null ||
        fail "the preferences do nothing"
    ;;
shards)
    "$MKMODEL" -o whole.gguf && "$MKMODEL" --shards 4 -o set.gguf || fail writing
    "$SHARDS_EQUAL" whole.gguf set-0000?-of-00004.gguf || fail "four shards"
    "$MKMODEL" --shards 3 --empty-first -o set.gguf || fail writing
    "$SHARDS_EQUAL" whole.gguf set-0000?-of-00003.gguf || fail "an empty first shard"
    "$MKMODEL" --shards 51 -o set.gguf || fail writing
    "$SHARDS_EQUAL" whole.gguf set-000??-of-00051.gguf || fail "a shard for each tensor"
    "$MODEL_DECODES" set-00001-of-00004.gguf "$BACKENDS" || fail "four shards do not decode"
    "$MODEL_DECODES" set-00001-of-00003.gguf "$BACKENDS" || fail "an empty shard does not decode"
    "$MKMODEL" --seed 2 -o other.gguf || fail writing
    ! "$SHARDS_EQUAL" other.gguf set-0000?-of-00004.gguf 2>/dev/null || fail "the check is blind"
    ;;
refuses)
    expect 2 "$MKMODEL"
    expect 2 "$MKMODEL" --layers 2
    expect 2 "$MKMODEL" -o
    expect 2 "$MKMODEL" --layers 2x -o out.gguf
    expect 2 "$MKMODEL" --layers 0 -o out.gguf
    expect 2 "$MKMODEL" --experts 1025 -o out.gguf
    expect 2 "$MKMODEL" --experts 8 --used 9 -o out.gguf
    expect 2 "$MKMODEL" --arch lfm2moe --embd 130 -o out.gguf
    expect 2 "$MKMODEL" --arch gemma4 --layers 5 -o out.gguf
    expect 2 "$MKMODEL" --heads 5 -o out.gguf
    expect 2 "$MKMODEL" --fused -o out.gguf
    expect 2 "$MKMODEL" --mtp -o out.gguf
    expect 2 "$MKMODEL" --arch gpt-oss --tied -o out.gguf
    expect 2 "$MKMODEL" --vocab 259 -o out.gguf
    expect 2 "$MKMODEL" --zipf nan -o out.gguf
    expect 2 "$MKMODEL" --zipf -1 -o out.gguf
    expect 2 "$MKMODEL" --preset T99 -o out.gguf
    expect 2 "$MKMODEL" --arch llama -o out.gguf
    expect 2 "$MKMODEL" --preset T1 --arch gemma4 -o out.gguf
    expect 2 "$MKMODEL" --type Q9_9 -o out.gguf
    expect 2 "$MKMODEL" --type-for Q4_0 -o out.gguf
    expect 2 "$MKMODEL" --type-for 'nothing*=Q4_0' -o out.gguf
    expect 2 "$MKMODEL" --shared-ff 64 -o out.gguf
    expect 2 "$MKMODEL" --shards 500 -o out.gguf
    expect 2 "$MKMODEL" --empty-first -o out.gguf
    expect 2 "$MKMODEL" --frobnicate -o out.gguf
    expect 2 "$MKMODEL" stray -o out.gguf
    expect 1 "$MKMODEL" --chat-template absent.txt -o out.gguf
    "$MKMODEL" --help >help || fail "help is a failure"
    grep -q T1 help || fail "help does not list the presets"
    ;;
full)
    expect 1 "$MKMODEL" -o /dev/full
    [ -c /dev/full ] || fail "/dev/full is gone"
    expect 1 "$MKMODEL" -o absent/out.gguf
    mkdir folder
    expect 1 "$MKMODEL" -o folder
    (
        ulimit -f 1000
        expect 1 "$MKMODEL" -o out.gguf
        expect 1 "$MKMODEL" --shards 3 -o set.gguf
    ) || exit 1
    [ -z "$(ls | grep gguf)" ] || fail "files are left: $(ls)"
    ;;
types)
    "$MKMODEL" --type Q4_K_M --type-for '*.attn_k.weight=Q5_1' \
        --type-for 'blk.1.ffn_*_exps.weight=MXFP4' --list >list || fail listing
    grep -q 'blk.0.attn_k.weight *q5_1 ' list || fail "a rule for all layers"
    grep -q 'blk.1.ffn_up_exps.weight *mxfp4 ' list || fail "a rule for one layer"
    grep -q 'blk.0.ffn_up_exps.weight *q4_K ' list || fail "the mix's type"
    grep -q '^output.weight *q6_K ' list || fail "the mix's better type"
    "$MKMODEL" --type Q4_K --embd 288 --list >list 2>notice || fail listing
    grep -q 'blk.0.ffn_up_exps.weight *q5_0 ' list || fail "the fall-back"
    grep -q 'blk.0.ffn_down_exps.weight *q4_K ' list || fail "a row that fits"
    grep -q 'q5_0.*q4_K' notice || fail "the fall-back is silent"
    ;;
*)
    fail "no case $1"
    ;;
esac
echo "ok: $*"
