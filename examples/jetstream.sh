#!/bin/bash
# Numbered messages from an edge bbq through a central bbq to NATS JetStream, on this machine, with one command:
#
#     examples/jetstream.sh
#
# It starts nats-server, both bbq servers, sends, reads the stream, and removes everything again. Set before it, if you want:
#     COUNT=N             how many messages, 20000 if not set
#     DIRECTORY=DIR       an empty directory where data, configurations and logs stay; else a temporary one
#     NATS=HOST:PORT      a server with JetStream that runs, without credentials; else one is started
#     NATS_SERVER=PATH    the program to start; else the one of `cargo xtask test`, or the one on the PATH
#     BBQ=PATH            the program bbq, with the sink nats:
# It needs bash and python3.

set -uo pipefail
central=central-jetstream.toml
. "$(dirname "${BASH_SOURCE[0]}")/chain.sh"

find_nats_server() {
  local program programs=("$repository/target/nats/nats-server" "$(command -v nats-server)" /usr/sbin/nats-server)
  [ -z "${NATS_SERVER:-}" ] || programs=("$NATS_SERVER")
  for program in "${programs[@]}"; do
    [ -x "$program" ] && echo "$program" && return
  done
  fail "there is no nats-server${NATS_SERVER:+ at $NATS_SERVER}. Get version 2.12 or newer from https://github.com/nats-io/nats-server/releases,
or by 'go install github.com/nats-io/nats-server/v2@latest', and put it on the PATH or set NATS_SERVER=PATH; or set NATS=HOST:PORT
for one that runs."
}

read_stream() {
  python3 "$here/read_jetstream.py" "$broker" "$run" "$@"
}

command -v python3 >/dev/null || fail "there is no python3, which reads the stream; install it"
begin || exit
broker=${NATS:-}
if [ -n "$broker" ]; then
  connects "$broker" 2>/dev/null || fail "nobody listens at NATS=$broker"
else
  nats_server=$(find_nats_server) || exit
  broker=127.0.0.1:$(free_port)
  echo "starting $("$nats_server" --version)"
  start nats-server "$nats_server" --addr 127.0.0.1 --port "${broker##*:}" --jetstream --store_dir "$work/nats"
  wait_until nats-server connects "$broker"
fi
send_through_chain -e "s/127.0.0.1:4222/$broker/" -e "s/EXAMPLE/$run/" -e "s/example\./$run./"
# An older server cannot do what a newer one does; bbq's log says what holds then.
grep -h 'duplicate window' "$work/central.log"
read_stream | check_once_and_in_order
result=$?
# Of use if the server was there before.
read_stream --delete || result=1
exit "$result"
