# What the examples share: an edge bbq and a central bbq on this machine, and numbered messages through both. Not a program:
# jetstream.sh and kafka.sh read it. They end only what they have started, and write only to $work.

# How many messages are sent.
count=${COUNT:-20000}
# Names this run's messages, and what it makes in a broker.
run=bbq-example-$$
# How long a server may take until it is ready.
patience_seconds=60

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(dirname "$here")
pids=()
temporary=

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Also after a failure, and after Ctrl-C. The newest process first: a broker outlives those that write to it.
clean_up() {
  local pid
  for ((index = ${#pids[@]} - 1; index >= 0; index--)); do
    pid=${pids[index]}
    kill -TERM "$pid" 2>/dev/null || continue
    # A server that cannot hand on what it has would take its time.
    for ((tenths = 0; tenths < 30; tenths++)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  done
  [ -z "$temporary" ] || rm -rf "$temporary"
}

# The directory of everything that the run writes: DIRECTORY, which is kept, or a temporary one.
begin() {
  case $count in '' | *[!0-9]* | 0) fail "COUNT is '$count', and must be a number above 0" ;; esac
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  if [ -n "${DIRECTORY:-}" ]; then
    mkdir -p "$DIRECTORY"
    work=$(cd "$DIRECTORY" && pwd)
    [ -z "$(ls -A "$work")" ] || fail "$work is not empty: name another DIRECTORY, or none"
  else
    temporary=$(mktemp -d)
    work=$temporary
  fi
  : >"$work/check.log"
  bbq=$(find_bbq)
}

# BBQ, or the program of this repository, or the one that is installed. With every sink.
find_bbq() {
  local program programs=("$repository/target/release/bbq" "$(command -v bbq)")
  [ -z "${BBQ:-}" ] || programs=("$BBQ")
  for program in "${programs[@]}"; do
    [ -x "$program" ] || continue
    "$program" config check "$here/$central" >/dev/null 2>>"$work/check.log" && echo "$program" && return
  done
  cat "$work/check.log" >&2
  fail "there is no bbq with this sink${BBQ:+ at $BBQ}: run 'cargo build --release --features full' in $repository, or set BBQ=PATH"
}

# Whether somebody listens on HOST:PORT.
connects() {
  (exec 3<>"/dev/tcp/${1%:*}/${1##*:}")
}

# A port of loopback on which nobody listens.
free_port() {
  local port
  for ((attempt = 0; attempt < 100; attempt++)); do
    port=$((10000 + RANDOM % 20000))
    connects "127.0.0.1:$port" 2>/dev/null || { echo "$port"; return; }
  done
  fail "no port is free"
}

# Starts a program in $work, with its output in a log there: start NAME COMMAND...
start() {
  local name=$1
  shift
  (cd "$work" && exec "$@") >"$work/$name.log" 2>&1 </dev/null &
  pids+=($!)
}

# Waits until a condition holds, while the program runs that was started last: wait_until NAME COMMAND...
wait_until() {
  local name=$1
  shift
  for ((tenths = 0; tenths < 10 * patience_seconds; tenths++)); do
    "$@" 2>/dev/null && return
    kill -0 "${pids[-1]}" 2>/dev/null || { cat "$work/$name.log" >&2; fail "$name ended by itself; its log is above"; }
    sleep 0.1
  done
  cat "$work/$name.log" >&2
  fail "$name is not ready after $patience_seconds s; its log is above"
}

# Starts a bbq server with a file of this directory, in which sed replaces addresses and names: serve NAME FILE SED...
serve() {
  local name=$1 file=$2
  shift 2
  sed "$@" "$here/$file" >"$work/$name.toml"
  NO_COLOR=1 start "$name" "$bbq" serve --config "$name.toml"
  wait_until "$name" grep -q ' ready ' "$work/$name.log"
}

# Stops the server that was started last, in order: it hands on what it has, and ends.
stop_last() {
  local pid=${pids[-1]} name=$1
  kill -TERM "$pid"
  wait "$pid" || { cat "$work/$name.log" >&2; fail "$name failed; its log is above"; }
  unset 'pids[-1]'
}

# Starts both servers, sends the messages, and stops the servers in order, which empties their spools. The arguments are for the sed
# of the central configuration.
send_through_chain() {
  local edge_port central_port
  edge_port=$(free_port)
  central_port=$(free_port)
  # The page of the admin stays off here: its ports may be those of a bbq that runs.
  serve central "$central" -e "s/127.0.0.1:7800/127.0.0.1:$central_port/" -e 's/^admin = .*/admin = "off"/' "$@"
  serve edge edge.toml -e "s/127.0.0.1:7800/127.0.0.1:$central_port/" -e 's/^admin = .*/admin = "off"/' \
    -e "s|^listen = .*|listen = [\"bbq+tcp://127.0.0.1:$edge_port\"]|"
  echo "sending $count messages: bbq send -> edge (port $edge_port) -> central (port $central_port) -> $broker"
  seq -f "$run %.0f" "$count" | "$bbq" send --to "bbq://127.0.0.1:$edge_port" || fail "bbq send failed"
  stop_last edge
  stop_last central
}

# Reads the messages of the broker from standard input, and checks that each one of this run is there once, and in order.
check_once_and_in_order() {
  awk -v run="$run" -v count="$count" '
    $1 == run {
      if ($2 != next_number + 1 && !wrong) wrong = "message " $2 " came after message " next_number + 0
      next_number = $2
      found++
    }
    END {
      if (!wrong && found != count) wrong = found + 0 " of " count " messages are there"
      if (wrong) { print "WRONG: " wrong; exit 1 }
      print count " messages are there, each once and in order"
    }'
}
