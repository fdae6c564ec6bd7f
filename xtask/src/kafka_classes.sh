# Makes classes.jsa in the directory that has Kafka's jars: starts a broker there, and ends it.
set -eu
directory=$1
work=$directory/first-start
rm -rf "$work" "$directory/classes.jsa"
mkdir "$work"
# Ports that nobody else has: both are asked for at the same time.
read -r plain controller < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*[each.getsockname()[1] for each in sockets])')
cat > "$work/server.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$plain,CONTROLLER://127.0.0.1:$controller
controller.listener.names=CONTROLLER
log.dirs=$work/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
END
java=(java -Xmx768m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn
    -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info)
"${java[@]}" -cp "$directory/jars/*" kafka.tools.StorageTool format --cluster-id AAAAAAAAAAAAAAAAAAAAAA \
    --config "$work/server.properties" > "$work/log" 2>&1
"${java[@]}" -XX:ArchiveClassesAtExit="$directory/classes.jsa" -cp "$directory/jars/*" kafka.Kafka "$work/server.properties" \
    > "$work/log" 2>&1 &
broker=$!
trap 'kill -KILL $broker 2> /dev/null || true' EXIT
until grep -q "Kafka Server started" "$work/log"; do
    kill -0 $broker || { cat "$work/log"; exit 1; }
    sleep 0.1
done
kill $broker
# Java ends with 128 + 15.
wait $broker || test $? = 143
test -s "$directory/classes.jsa"
rm -rf "$work"
