#!/bin/sh
# Writes the models of the gates into a folder, once: models.sh MKMODEL FOLDER. They are made anew
# when bmoe-mkmodel, this file or the factors are others than made them.
set -eu
mkmodel=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
cd "$folder"
made_by=$(cat "$mkmodel" "$here/models.sh" "$here/factors.txt" | cksum)
[ "$(cat made-by 2>/dev/null)" != "$made_by" ] || exit 0
rm -f ./*.gguf made-by

"$here/pairs" --all "$here/factors.txt" | awk '!seen[$1 $2]++ { print $1, $2 }' |
    while read -r arch type; do
        arch=${arch#arch=}
        type=${type#type=}
        # A tied head in a type that ggml never repacks: docs/gates.md says why. As few layers as
        # have one of each kind, and two with experts, so that the smallest budget evicts.
        options=
        case $arch in
        gemma4) options="--type-for token_embd.weight=F16" ;;
        lfm2moe) options="--type-for token_embd.weight=F16 --layers 4" ;;
        nemotron_h_moe) options="--layers 6" ;;
        qwen35moe) options="--layers 4" ;;
        qwen3moe | deepseek2) options="--layers 3" ;;
        gpt-oss) options="--layers 2" ;;
        esac
        # shellcheck disable=SC2086 # words or none
        "$mkmodel" --arch "$arch" --type "$type" $options -o "$arch-$type.gguf" 2>notice ||
            { cat notice >&2; exit 1; }
    done
rm -f notice
"$mkmodel" --preset T1 --shards 4 -o shards.gguf
"$mkmodel" --preset T2 --layers 4 --shards 3 --empty-first -o empty.gguf
"$mkmodel" --preset T1 --tied -o tied.gguf
"$mkmodel" --preset T2 --layers 4 --fused -o fused.gguf
"$mkmodel" --preset T8 -o dense.gguf
echo "$made_by" >made-by
