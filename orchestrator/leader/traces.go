package leader

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/trace"
)

// sendTrace sends the trace of a run that has ended, if there is a collector. It does not keep the run from being finished: a trace
// that was not sent can be sent by lattice trace.
func (l *Leader) sendTrace(id string) {
	if l.cfg.Traces == nil {
		return
	}
	l.drives.Go(func() {
		ctx := context.Background()
		v, err := l.Run(ctx, id)
		var entries []lattice.Entry
		if err == nil {
			err = l.Entries(ctx, id, 0, func(e lattice.Entry) error {
				entries = append(entries, e)
				return nil
			})
		}
		if err == nil {
			err = l.cfg.Traces.Send(ctx, trace.Fold(trace.Describe(v), entries))
		}
		if err != nil {
			addRun(l.cfg.Log.Warn().Err(err), id).Msg("send the trace")
		}
	})
}
