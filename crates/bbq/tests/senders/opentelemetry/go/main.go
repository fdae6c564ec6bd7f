// Sends numbered log records with OpenTelemetry's SDK for Go, and tells which of them the SDK was told are stored.
//
// Arguments: the protocol (http, http-gzip or grpc), the port of a server on this machine, and the number of records. A line of
// standard input is the number of the record before which to stop for the next line. For each batch that is stored, the program
// prints a line with its numbers, such as `stored 0-511`, and for each that the exporter gave up, `failed` and why. It ends when
// all are stored.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
)

const (
	// Only a server that does not come back takes longer.
	patience = time.Minute
	// A server that is killed comes back soon; the exporters themselves would wait 5 s.
	pause = 50 * time.Millisecond
)

// noting is an exporter that tells what another one was told is stored.
type noting struct {
	sdk.Exporter
	stored sync.WaitGroup
}

// Export hands a batch that the exporter gives up to it again, as an application does that wants to lose nothing: over HTTP the SDK
// gives up at once when a connection is refused or lost.
func (n *noting) Export(ctx context.Context, records []sdk.Record) error {
	for {
		err := n.Exporter.Export(ctx, records)
		if err == nil {
			fmt.Println("stored", ranges(records))
			n.stored.Add(-len(records))
			return nil
		}
		fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", " "))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// ranges returns the numbers of records in their order: `0-511`, or `0-99 200-300`.
func ranges(records []sdk.Record) string {
	var text strings.Builder
	first, last := 0, -1
	for _, record := range records {
		body := record.Body().AsString()
		number, err := strconv.Atoi(strings.TrimPrefix(body, "message "))
		if err != nil {
			panic("the SDK changed a record: " + body)
		}
		if last >= first && number != last+1 {
			fmt.Fprintf(&text, "%d-%d ", first, last)
			first = number
		} else if last < first {
			first = number
		}
		last = number
	}
	fmt.Fprintf(&text, "%d-%d", first, last)
	return text.String()
}

func exporter(protocol, address string) (sdk.Exporter, error) {
	switch protocol {
	case "http", "http-gzip":
		compression := otlploghttp.NoCompression
		if protocol == "http-gzip" {
			compression = otlploghttp.GzipCompression
		}
		return otlploghttp.New(
			context.Background(),
			otlploghttp.WithEndpoint(address),
			otlploghttp.WithInsecure(),
			otlploghttp.WithCompression(compression),
			otlploghttp.WithTimeout(patience),
			otlploghttp.WithRetry(otlploghttp.RetryConfig{
				Enabled: true, InitialInterval: pause, MaxInterval: pause, MaxElapsedTime: patience,
			}),
		)
	case "grpc":
		return otlploggrpc.New(
			context.Background(),
			otlploggrpc.WithEndpoint(address),
			otlploggrpc.WithInsecure(),
			otlploggrpc.WithTimeout(patience),
			otlploggrpc.WithRetry(otlploggrpc.RetryConfig{
				Enabled: true, InitialInterval: pause, MaxInterval: pause, MaxElapsedTime: patience,
			}),
		)
	}
	return nil, fmt.Errorf("no protocol: %s", protocol)
}

func run(protocol, port, count string) error {
	messages, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	real, err := exporter(protocol, "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	noting := &noting{Exporter: real}
	noting.stored.Add(messages)
	provider := sdk.NewLoggerProvider(sdk.WithProcessor(sdk.NewBatchProcessor(
		noting,
		// When its queue is full, the SDK drops records.
		sdk.WithMaxQueueSize(messages),
		sdk.WithExportInterval(10*time.Millisecond),
		sdk.WithExportTimeout(patience),
	)))
	logger := provider.Logger("orders")
	number := 0
	for lines := bufio.NewScanner(os.Stdin); number < messages && lines.Scan(); {
		stop, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		for ; number < stop; number++ {
			var record log.Record
			record.SetBody(attribute.StringValue(fmt.Sprintf("message %d", number)))
			logger.Emit(context.Background(), record)
		}
	}
	noting.stored.Wait()
	return provider.Shutdown(context.Background())
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: sender PROTOCOL PORT RECORDS")
		os.Exit(2)
	}
	// Whatever happens, nothing is left running.
	time.AfterFunc(2*patience, func() { panic("not all records are stored after " + (2 * patience).String()) })
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
