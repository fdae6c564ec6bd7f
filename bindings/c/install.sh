#!/bin/sh
# Builds and installs libbbq: the static and the shared library, the headers, and the files for pkg-config and CMake's
# find_package. DESTDIR is put in front of every path, for packages.
set -eu

usage() {
    echo "usage: $0 [--prefix DIR] [--libdir DIR] [--libraries DIR]"
    echo "  --prefix DIR     where to install: /usr/local unless given"
    echo "  --libdir DIR     where the libraries go, below the prefix: lib unless given"
    echo "  --libraries DIR  install libbbq.so and libbbq.a from this directory instead of building them"
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
prefix=/usr/local
libdir=lib
libraries=
built=

while [ $# -gt 0 ]; do
    case $1 in
    --prefix | --libdir | --libraries)
        if [ $# -lt 2 ]; then
            usage >&2
            exit 2
        fi
        case $1 in
        --prefix) prefix=$2 ;;
        --libdir) libdir=$2 ;;
        *) libraries=$2 ;;
        esac
        shift 2
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
done

case $prefix in
/*) ;;
*) prefix=$(pwd)/$prefix ;;
esac

# From the directory of the libraries to the prefix: CMake's files find the headers by it, wherever all of it is moved.
up=$(printf '%s' "$libdir" | sed 's|[^/][^/]*|..|g')
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
# The soname is set in build.rs.
soname=libbbq.so.0

if [ -z "$libraries" ]; then
    (cd "$root" && cargo build --release --locked -p bbq-c)
    libraries=$(cd "$root" && cd "${CARGO_TARGET_DIR:-target}/release" && pwd)
    built=yes
fi

filled() {
    sed -e "s|@PREFIX@|$prefix|g" -e "s|@LIBDIR@|$libdir|g" -e "s|@UP@|$up|g" -e "s|@VERSION@|$version|g" -e "s|@SONAME@|$soname|g" "$here/$1" >"$2"
    chmod 644 "$2"
}

to=${DESTDIR:-}$prefix
install -d "$to/include" "$to/$libdir/pkgconfig" "$to/$libdir/cmake/bbq"
install -m 644 "$here/include/bbq.h" "$here/include/bbq.hpp" "$here/include/bbq_spdlog.hpp" "$to/include/"
install -m 644 "$libraries/libbbq.a" "$to/$libdir/libbbq.a"
if [ -n "$built" ]; then
    # Half of it is for debuggers: nearly all of that is of Rust's own library.
    "${STRIP:-strip}" --strip-debug --strip-unneeded "$to/$libdir/libbbq.a"
fi
install -m 755 "$libraries/libbbq.so" "$to/$libdir/libbbq.so.$version"
ln -sf "libbbq.so.$version" "$to/$libdir/$soname"
ln -sf "$soname" "$to/$libdir/libbbq.so"
filled bbq.pc.in "$to/$libdir/pkgconfig/bbq.pc"
filled cmake/bbq-config.cmake.in "$to/$libdir/cmake/bbq/bbq-config.cmake"
filled cmake/bbq-config-version.cmake.in "$to/$libdir/cmake/bbq/bbq-config-version.cmake"
echo "bbq $version is in $to"
