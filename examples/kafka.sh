#!/bin/bash
# Numbered messages from an edge bbq through a central bbq to Apache Kafka, on this machine, with one command:
#
#     examples/kafka.sh
#
# It starts a Kafka broker, both bbq servers, sends, reads what is committed, and removes everything again. Set before it, if you want:
#     COUNT=N             how many messages, 20000 if not set
#     DIRECTORY=DIR       an empty directory where data, configurations and logs stay; else a temporary one
#     KAFKA=HOST:PORT     a broker that runs, without TLS and users; else one is started
#     KAFKA_HOME=DIR      Kafka as it is unpacked, for the broker and its tools; else the jars that `cargo xtask test` gets
#     BBQ=PATH            the program bbq, with the sink kafka:
# It needs bash and java.

set -uo pipefail
central=central-kafka.toml
. "$(dirname "${BASH_SOURCE[0]}")/chain.sh"

# A consumer that gets nothing for so long is at the end of what is committed.
quiet_ms=15000

find_jars() {
  local jars
  if [ -n "${KAFKA_HOME:-}" ]; then
    [ -d "$KAFKA_HOME/libs" ] || fail "KAFKA_HOME=$KAFKA_HOME has no directory libs, so it is not Kafka as it is unpacked"
    echo "$KAFKA_HOME/libs"
    return
  fi
  jars=$repository/target/kafka/jars
  [ -d "$jars" ] && echo "$jars" && return
  fail "there is no Kafka. Get version 4 from https://kafka.apache.org/downloads, unpack it, and set KAFKA_HOME to its directory; in
this repository, 'cargo xtask test' gets its jars, too. A broker that runs (KAFKA=HOST:PORT) is read by Kafka's tools as well."
}

kafka() {
  java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$jars/*" "$@"
}

make_topic() {
  # Waits for the broker.
  kafka org.apache.kafka.tools.TopicCommand --bootstrap-server "$broker" "$@" >"$work/topics.log" 2>&1
}

start_broker() {
  local port controller
  port=$(free_port)
  controller=$(free_port)
  broker=127.0.0.1:$port
  cat >"$work/server.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$work/kafka
# One broker has no replicas.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
END
  kafka kafka.tools.StorageTool format --cluster-id AAAAAAAAAAAAAAAAAAAAAA --config "$work/server.properties" \
    >"$work/format.log" 2>&1 || { cat "$work/format.log" >&2; fail "Kafka's storage cannot be formatted; see above"; }
  echo "starting a Kafka broker on port $port"
  start kafka java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$jars/*" kafka.Kafka "$work/server.properties"
  wait_until kafka connects "$broker"
}

command -v java >/dev/null || fail "there is no java, which Kafka needs; install version 17 or newer (Debian: default-jre-headless)"
jars=$(find_jars) || exit
begin || exit
broker=${KAFKA:-}
if [ -n "$broker" ]; then
  connects "$broker" 2>/dev/null || fail "nobody listens at KAFKA=$broker"
else
  start_broker
fi
topic=$run-logs
make_topic --create --topic "$topic" --partitions 3 || { cat "$work/topics.log" >&2; fail "Kafka does not make a topic; see above"; }
send_through_chain -e "s/127.0.0.1:9092/$broker/" -e "s/example-logs/$topic/g"
# The messages of one sender are in one partition, so they are in order.
kafka org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$broker" --topic "$topic" --from-beginning \
  --isolation-level read_committed --timeout-ms "$quiet_ms" 2>"$work/consumer.log" | check_once_and_in_order
result=${PIPESTATUS[1]}
# Of use if the broker was there before.
if [ -n "${KAFKA:-}" ]; then
  make_topic --delete --topic "$topic" && make_topic --delete --topic "$topic-bbq-progress" || result=1
fi
exit "$result"
