#!/bin/bash
# Numbered messages from an edge bbq through a central bbq to a bucket of S3, on this machine, with one command:
#
#     examples/s3.sh
#
# It starts versitygw, which is an S3 server over a directory, and both bbq servers, sends, reads the objects of the bucket, and removes
# everything again. Set before it, if you want:
#     COUNT=N             how many messages, 20000 if not set
#     DIRECTORY=DIR       an empty directory where data, configurations, logs and the bucket stay; else a temporary one
#     VERSITYGW=PATH      the program to start; else the one of `cargo xtask test`, or the one on the PATH
#     BBQ=PATH            the program bbq, with the sink s3:
# It needs bash and zstd.

set -uo pipefail
central=central-s3.toml
. "$(dirname "${BASH_SOURCE[0]}")/chain.sh"

find_versitygw() {
  local program programs=("$repository/target/versitygw/versitygw" "$(command -v versitygw)")
  [ -z "${VERSITYGW:-}" ] || programs=("$VERSITYGW")
  for program in "${programs[@]}"; do
    [ -x "$program" ] && echo "$program" && return
  done
  fail "there is no versitygw${VERSITYGW:+ at $VERSITYGW}. Get it from https://github.com/versity/versitygw/releases, or by
'go install github.com/versity/versitygw/cmd/versitygw@latest', and put it on the PATH or set VERSITYGW=PATH."
}

# The texts of the messages, lane by lane: the names of a lane's objects are in its order.
read_bucket() {
  find "$work/buckets" -name '*.ndjson.zst' -print0 | sort -z | xargs -0 -r zstd -dcq | sed -n 's/.*"message":"\([^"]*\)".*/\1/p'
}

command -v zstd >/dev/null || fail "there is no zstd, which unpacks the objects; install it"
begin || exit
versitygw=$(find_versitygw) || exit
broker=127.0.0.1:$(free_port)
export AWS_ACCESS_KEY_ID=example AWS_SECRET_ACCESS_KEY=$RANDOM$RANDOM$RANDOM
mkdir -p "$work/buckets/example-logs" "$work/attributes"
echo "starting versitygw on port ${broker##*:}"
ROOT_ACCESS_KEY_ID=$AWS_ACCESS_KEY_ID ROOT_SECRET_ACCESS_KEY=$AWS_SECRET_ACCESS_KEY \
  start versitygw "$versitygw" --quiet --port "$broker" posix --sidecar "$work/attributes" "$work/buckets"
wait_until versitygw connects "$broker"
send_through_chain -e "s/127.0.0.1:9000/$broker/"
read_bucket | check_once_and_in_order
