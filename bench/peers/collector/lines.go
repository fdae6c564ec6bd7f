package main

import (
	"context"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/plog"
)

// The exporter "lines" writes the text of each log record to a file, a line each, with one write for each request: what bbq's file sink does
// with them, unsynced. So it is known when all have arrived, at less cost than any exporter that encodes them again.
type linesConfig struct {
	Path  string                                                   `mapstructure:"path"`
	Queue configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
}

func newLinesFactory() exporter.Factory {
	defaults := func() component.Config {
		return &linesConfig{Queue: configoptional.Default(exporterhelper.NewDefaultQueueConfig())}
	}
	stability := exporter.WithLogs(newLines, component.StabilityLevelDevelopment)
	return exporter.NewFactory(component.MustNewType("lines"), defaults, stability)
}

func newLines(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Logs, error) {
	lines := config.(*linesConfig)
	file, err := os.OpenFile(lines.Path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	push := func(_ context.Context, logs plog.Logs) error {
		_, err := file.Write(texts(logs))
		return err
	}
	shutdown := func(context.Context) error { return file.Close() }
	return exporterhelper.NewLogs(
		ctx, set, config, push,
		exporterhelper.WithQueue(lines.Queue),
		exporterhelper.WithShutdown(shutdown),
	)
}

func texts(logs plog.Logs) []byte {
	var out []byte
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				out = append(out, record.Body().Str()...)
				out = append(out, '\n')
			}
		}
	}
	return out
}
