package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/trace"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

func newTraceCmd(env *setup.Env) *cobra.Command {
	var send bool
	cmd := connect.NewQueryCmd(env, "trace [RUN]", "Print a run as an OpenTelemetry trace, or send it to a collector", "  lattice trace run_0123 >trace.json\n  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 lattice trace run_0123 --send", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			exporter, err := trace.Configure(env.Getenv, env.Version)
			if err != nil {
				return err
			}
			if send && exporter == nil {
				return fault.BadInput("trace_not_configured", "no collector is named").WithHint("export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318")
			}
			v, err := c.Run(ctx, cli.Optional(list))
			if err != nil {
				return err
			}
			spans, err := readSpans(ctx, c, v)
			if err != nil {
				return err
			}
			if !send {
				text, err := trace.Encode(spans, "lattice", env.Version)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(env.Out, "%s\n", text)
				return err
			}
			if err := exporter.Send(ctx, spans); err != nil {
				return err
			}
			return env.PrintResult(map[string]any{"run_id": v.RunID, "trace_id": tracecontext.TraceID(v.RunID), "spans": len(spans)},
				"sent %s of trace %s", cli.Count(len(spans), "span", "spans"), tracecontext.TraceID(v.RunID))
		})
	cmd.Long = `Print a run as an OpenTelemetry trace in the JSON form of OTLP: the run, its steps, and their calls of skills and models. A trace has
names, times and figures, and no text of sprites or models. Of a run that goes on, it has the spans that have ended.

With --send, the trace goes to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, over HTTP. If that variable is set for the leader,
such as lattice serve, it sends the trace of each run that ends. A trace that is sent again has the same ids. Skills and agents in
sprites get TRACEPARENT, so that their own spans belong to the call's; exec.run passes it on with env_allow. OTEL_EXPORTER_OTLP_HEADERS and OTEL_SERVICE_NAME have effect as well.
` + cli.ExitCodes
	cmd.Flags().BoolVar(&send, "send", false, "send the trace to the collector of OTEL_EXPORTER_OTLP_ENDPOINT")
	return cmd
}

// readSpans reads the journal of a run.
func readSpans(ctx context.Context, c *connect.Conn, v api.RunView) ([]trace.Span, error) {
	var entries []lattice.Entry
	err := c.Entries(ctx, v.RunID, 0, func(e lattice.Entry) error {
		entries = append(entries, e)
		return nil
	})
	return trace.Fold(trace.Describe(v), entries), err
}
