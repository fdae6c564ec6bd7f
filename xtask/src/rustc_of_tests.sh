#!/bin/bash
# What cargo calls instead of rustc for packages of the workspace in `cargo xtask test`: the first word is rustc.
#
# It builds test programs and examples with fewer optimizations, in a fifth of the time; cargo's profiles cannot tell them from libraries
# and programs. These remain as they are, as they are packaged and measured. So does the example that counts instructions.
rustc=$1
shift
name='' before='' is_test='' is_example='' level=1
for word; do
    case $before in
        --crate-name) name=$word ;;
        --out-dir) [ "${word##*/}" != examples ] || is_example=yes ;;
    esac
    case $word in
        --test) is_test=yes ;;
        # Tests from outside call what is optimized. Unit tests are a library of their own, which computes.
        tests/*.rs | */tests/*.rs) level=0 ;;
    esac
    before=$word
done
if [ "$is_test$is_example" = '' ] || [ "$name" = instructions ]; then
    exec "$rustc" "$@"
fi
words=()
for word; do
    [ "$word" != opt-level=3 ] || word=opt-level=$level
    words+=("$word")
done
# Without the optimization over all units of a program, either.
exec "$rustc" "${words[@]}" -C lto=off
