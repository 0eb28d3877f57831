package api

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spritekit/lattice/orchestrator/api/stream"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Service is the interface of a leader. Errors that a user can act on are *fault.Error; all others are reported
// as internal. Run ids may be unique prefixes, "" means the last run.
type Service interface {
	Storage
	Artifacts
	Travel
	Review
	PastFiles
	Actions
	Audit
	Budgets
	Proposals
	Intents
	Schedules
	Secrets
	Access
	Deliveries
	Boards
	Loops
	Fleet
	Flows
	Usage
	Sandboxes
	Hello() Hello
	Start(ctx context.Context, r RunRequest) (RunView, error)
	Runs(ctx context.Context, which RunList) ([]RunView, error)
	Run(ctx context.Context, id string) (RunView, error)
	// Program returns the ExecIR document that a run executes.
	Program(ctx context.Context, id string) (json.RawMessage, error)
	// Entries calls yield for the run's facts and events after a position, oldest first, until yield fails.
	Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
	// Outline is Entries with a bounded number of events between two facts.
	Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
	// Watch is Entries followed by new entries and views, until the run is not driven.
	Watch(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error
	// WatchOutline is Watch with Outline in the place of Entries.
	WatchOutline(ctx context.Context, id string, after lattice.Seq, yield func(WatchLine) error) error
	// Tail is Watch that does not end when the run is not driven. Its items are shared with other readers.
	Tail(ctx context.Context, id string, after lattice.Seq, yield func([]*Item) error) error
	// Changes calls yield for each change behind a position, and then for each new one, until ctx or the leadership ends.
	Changes(ctx context.Context, after stream.Position, yield func(stream.Update) error) error
	Drive(ctx context.Context, id string, r DriveRequest) (RunView, error) // go on with an interrupted run; a no-op when someone does
	Stop(ctx context.Context, id string) (RunView, error)                  // stop driving; the run stays resumable
	Cancel(ctx context.Context, id, by string) (RunView, error)
	Decide(ctx context.Context, id string, d DecideRequest) (DecideReply, error)
	// Log reads the output of skills that is not an event, of all nodes or of one.
	Log(ctx context.Context, id, node string, offset int64) (io.ReadCloser, error)
	// Scrub takes the keys that agents were handed over out of their files in a sprite.
	Scrub(ctx context.Context, sprite string) error
	// HandOver ends the leadership when it returns nil, and changes nothing when it does not or ctx ends.
	HandOver(ctx context.Context, to HandoverRequest) (Handover, error)
}
