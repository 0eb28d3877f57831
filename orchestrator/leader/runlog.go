package leader

import (
	"context"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

// tellingLog is the engine's log, which also writes a line to the log of the process for each entry: at level info for the facts
// by which a run begins, pauses, goes on or goes back, at level debug for the others and for events. A line holds no text of
// a sprite but the type of its event.
type tellingLog struct {
	driver.Log
	logger zerolog.Logger
}

// turningPoints are the types of facts that are written at level info.
var turningPoints = []string{
	lattice.RunStarted{}.FactType(), lattice.RunForked{}.FactType(), lattice.Rewound{}.FactType(), lattice.PowerLost{}.FactType(),
	lattice.CallSuspended{}.FactType(), lattice.Answered{}.FactType(), lattice.CancelRequested{}.FactType(),
}

func (l tellingLog) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	seq, err := l.Log.Append(ctx, run, after, entries)
	if err == nil {
		for _, e := range entries {
			l.writeLine(run, e)
		}
	}
	return seq, err
}

func (l tellingLog) writeLine(run string, e lattice.Entry) {
	line := l.logger.Debug()
	if e.Kind == lattice.EntryFact && slices.Contains(turningPoints, e.Type) {
		line = l.logger.Info()
	}
	addRun(line, run)
	if len(e.Started) > 0 {
		line = line.Str("node", strings.Join(e.Started, " "))
	}
	if e.Sprite != "" {
		line = line.Str("sprite", e.Sprite)
	}
	if e.CallID != "" {
		line = line.Str("call_id", e.CallID).Str("span_id", tracecontext.CallSpan(e.CallID))
	}
	line.Str("kind", string(e.Kind)).Msg(e.Type)
}

// addRun adds the ids of a run and of its trace to a line.
func addRun(line *zerolog.Event, run string) *zerolog.Event {
	return line.Str("run_id", run).Str("trace_id", tracecontext.TraceID(run))
}
