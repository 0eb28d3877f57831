package leader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/notify"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/redact"
)

// Notify says where people are told about runs.
type Notify struct {
	// Channels returns the channel of a name. Nil: there are none.
	Channels func(name string) (notify.Channel, error)
	// Default is the channel of notifications that name none; "" only shows them with their run.
	Default string
	// On lists the statuses of runs that people are told of: waiting, failed, succeeded.
	On []string
}

// notifier sends people the messages of skills, and notes about runs that wait or have ended.
type notifier struct {
	cfg    Notify
	sender *notify.Sender
	known  func(run string) *redact.Secrets // that no note about a run may hold
	log    zerolog.Logger
	stop   func() // ends the delivery and waits for its end
}

func newNotifier(cfg Notify, home home.Home, log zerolog.Logger) *notifier {
	if cfg.Channels == nil {
		cfg.Channels = func(name string) (notify.Channel, error) {
			return notify.Channel{}, fmt.Errorf("there is no channel %q", name)
		}
	}
	n := &notifier{cfg: cfg, log: log}
	n.sender = notify.NewSender(notify.NewSpool(home.Notifications()), cfg.Channels, n.record)
	return n
}

// record logs the fate of a note.
func (n *notifier) record(note notify.Note, err error) {
	switch {
	case err == nil:
		n.log.Info().Str("channel", note.Channel).Str("note", note.ID).Str("run_id", note.RunID).Msg("notified")
	default:
		n.log.Warn().Err(err).Str("channel", note.Channel).Str("note", note.ID).Str("run_id", note.RunID).Msg("notification not delivered")
	}
}

// send keeps the message of a NOTIFY_USER for its channel (action.Options.Notify).
func (n *notifier) send(a lattice.Action) error {
	var p protocol.NotifyUser
	if err := json.Unmarshal(a.Parameters, &p); err != nil {
		return &lattice.Refusal{Fault: protocol.Fault{Code: "bad_parameters", Message: "NOTIFY_USER takes channel, level, title, body and link"}}
	}
	p.Channel = cmp.Or(p.Channel, n.cfg.Default)
	if p.Channel == "" {
		return nil // it is shown with the run
	}
	if _, err := n.cfg.Channels(p.Channel); err != nil {
		return &lattice.Refusal{Fault: protocol.Fault{Code: "channel_unusable", Message: err.Error()}}
	}
	err := n.addNote(notify.Note{ID: lattice.DerivedKey("notify", a.RunID, a.Key), Channel: p.Channel, Level: cmp.Or(p.Level, protocol.LevelInfo), Title: p.Title, Body: p.Body, Link: p.Link, RunID: a.RunID, At: time.Now().UTC()})
	if no, ok := errors.AsType[*fault.Error](err); ok {
		return &lattice.Refusal{Fault: no.Fault}
	}
	return err
}

// watch adds notes about the run's status, which the snapshot of a run at rest has, before it is appended: a crash between
// the two at most tells people twice.
func (n *notifier) watch(run string, after lattice.Seq, entries []lattice.Entry) {
	if n.cfg.Default == "" || len(n.cfg.On) == 0 {
		return
	}
	i := slices.IndexFunc(entries, func(e lattice.Entry) bool { return e.Kind == lattice.EntryState })
	if i < 0 || slices.ContainsFunc(entries, isActionDecision) {
		return
	}
	rest, err := history.ReadRest(entries[i])
	if err != nil {
		return // the engine reads the snapshot as well, and reports it
	}
	status := rest.Status
	if status.Blocked() {
		status = lattice.Waiting
	}
	if !slices.Contains(n.cfg.On, string(status)) {
		return
	}
	note := notify.Note{Channel: n.cfg.Default, Level: protocol.LevelInfo, RunID: run, Title: fmt.Sprintf("%s %s", run, status), At: time.Now().UTC()}
	key := fmt.Sprint(after)
	switch status {
	case lattice.Waiting:
		if !lattice.AllTimed(rest.Waits) {
			note.Level, note.Title = protocol.LevelWarning, run+" waits for you"
		}
		var prompts, ids []string
		for _, w := range rest.Waits {
			prompts, ids = append(prompts, strings.TrimSpace(w.Prompt+" "+w.Until())), append(ids, w.ID)
		}
		note.Body = strings.Join(append(prompts, "lattice waiting "+run), "\n")
		key = strings.Join(ids, " ")
	case lattice.Failed:
		note.Level = protocol.LevelError
		if rest.Failure != nil {
			note.Body = rest.Failure.Message
		}
	}
	note.ID = lattice.DerivedKey("notify", run, string(status), key)
	if err := n.addNote(note); err != nil {
		n.log.Warn().Err(err).Str("run_id", run).Msg("notification not kept")
	}
}

// addNote keeps a note for its channel, without secrets.
func (n *notifier) addNote(note notify.Note) error {
	if n.known != nil {
		known := n.known(note.RunID)
		note.Title, note.Body, note.Link = known.Text(note.Title), known.Text(note.Body), known.Text(note.Link)
	}
	return n.sender.Add(note)
}

// isActionDecision reports whether an entry is about a noted action that a person decided on: the run stays as it is.
func isActionDecision(e lattice.Entry) bool {
	change, ok, err := lattice.ChangeAction(e)
	return err == nil && ok && change.Decided
}

// start begins to deliver; close ends it.
func (n *notifier) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		n.sender.Run(ctx)
	}()
}

// close delivers the notes that are due and ends the delivery.
func (n *notifier) close() {
	if n != nil && n.stop != nil {
		n.stop()
	}
}

// notifyingLog is the engine's log, with a note about each run that comes to rest.
type notifyingLog struct {
	driver.Log
	notifier *notifier
}

func (l notifyingLog) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	l.notifier.watch(run, after, entries)
	return l.Log.Append(ctx, run, after, entries)
}
