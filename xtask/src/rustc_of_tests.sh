#!/bin/bash
# What cargo calls instead of rustc for packages of the workspace in `cargo xtask test`: the first word is rustc.
#
# It builds test programs and examples with fewer optimizations, in less than half of the time; cargo's profiles cannot tell them from
# libraries and programs. These remain as they are, as they are packaged and measured. So does the example that counts instructions.
rustc=$1
shift
name='' before='' is_test='' is_example=''
for word; do
    case $before in
        --crate-name) name=$word ;;
        --out-dir) [ "${word##*/}" != examples ] || is_example=yes ;;
    esac
    [ "$word" != --test ] || is_test=yes
    before=$word
done
if [ "$is_test$is_example" = '' ] || [ "$name" = instructions ]; then
    exec "$rustc" "$@"
fi
words=()
for word; do
    [ "$word" != opt-level=3 ] || word=opt-level=1
    words+=("$word")
done
# Without the optimization over all units of a program, either.
exec "$rustc" "${words[@]}" -C lto=off
