// Sends numbered log records with OpenTelemetry's SDK for Node, and tells which of them the SDK was told are stored.
//
// Arguments: the protocol (http, json or grpc), the port of a server on this machine, and the number of records. A line of standard
// input is the number of the record before which to stop for the next line. For each batch that is stored, the program prints a
// line with its numbers, such as `stored 0-511`, and for each that the exporter gave up, `failed` and why. It ends when all are
// stored.

import { createInterface } from 'node:readline';

import { OTLPLogExporter as GrpcExporter } from '@opentelemetry/exporter-logs-otlp-grpc';
import { OTLPLogExporter as JsonExporter } from '@opentelemetry/exporter-logs-otlp-http';
import { OTLPLogExporter as ProtobufExporter } from '@opentelemetry/exporter-logs-otlp-proto';
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs';

// Only a server that does not come back takes longer.
const PATIENCE_MS = 60_000;
// A server that is killed comes back soon.
const PAUSE_MS = 50;
const EXPORTERS = {
  http: (address) => new ProtobufExporter({ url: `http://${address}/v1/logs`, timeoutMillis: PATIENCE_MS }),
  json: (address) => new JsonExporter({ url: `http://${address}/v1/logs`, timeoutMillis: PATIENCE_MS }),
  grpc: (address) => new GrpcExporter({ url: `http://${address}`, timeoutMillis: PATIENCE_MS }),
};

// The numbers of records in their order: `0-511`, or `0-99 200-300`.
function ranges(records) {
  const found = [];
  for (const { body } of records) {
    const number = Number(body.replace('message ', ''));
    const last = found.at(-1);
    if (last?.[1] === number - 1) {
      last[1] = number;
    } else {
      found.push([number, number]);
    }
  }
  return found.map(([first, last]) => `${first}-${last}`).join(' ');
}

// An exporter that tells what another one was told is stored.
class Noting {
  constructor(exporter, messages) {
    this.exporter = exporter;
    this.missing = messages;
    this.allStored = new Promise((resolve) => (this.resolve = resolve));
  }

  // Hands a batch that the exporter gives up to it again, as an application does that wants to lose nothing: over gRPC the SDK gives
  // up at once, over HTTP after 5 retries.
  export(records, done) {
    this.exporter.export(records, (result) => {
      if (result.code !== 0) {
        console.log(`failed ${String(result.error).replaceAll('\n', ' ')}`);
        setTimeout(() => this.export(records, done), PAUSE_MS);
        return;
      }
      console.log(`stored ${ranges(records)}`);
      this.missing -= records.length;
      done(result);
      if (this.missing === 0) {
        this.resolve();
      }
    });
  }

  forceFlush() {
    return this.exporter.forceFlush();
  }

  shutdown() {
    return this.exporter.shutdown();
  }
}

const [protocol, port, count] = process.argv.slice(2);
const messages = Number(count);
// Whatever happens, nothing is left running.
const alarm = setTimeout(() => {
  console.error(`not all records are stored after ${2 * PATIENCE_MS} ms`);
  process.exit(1);
}, 2 * PATIENCE_MS);
const noting = new Noting(EXPORTERS[protocol](`127.0.0.1:${port}`), messages);
const processor = new BatchLogRecordProcessor({
  exporter: noting,
  // When its queue is full, the SDK drops records.
  maxQueueSize: messages,
  scheduledDelayMillis: 10,
  exportTimeoutMillis: PATIENCE_MS,
});
const provider = new LoggerProvider({ processors: [processor] });
const logger = provider.getLogger('orders');
let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
  for (const stop = Number(line); number < stop; number += 1) {
    logger.emit({ body: `message ${number}` });
  }
  if (number >= messages) {
    break;
  }
}
// An open input would keep the program running.
process.stdin.destroy();
await noting.allStored;
await provider.shutdown();
clearTimeout(alarm);
