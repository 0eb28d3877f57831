package intents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/schedule"
)

// Schedule says when which intent is created.
type Schedule struct {
	Cron     schedule.Cron
	Text     string // of Cron; "" if only pushes count
	OnPush   bool   // see RunPushed
	Zone     *time.Location
	Cooldown time.Duration
	Request  api.IntentRequest // without a key
	// Severity is the weight of a check that fails, "" if nothing follows. Repairs says that a remedy follows, Urgent that it
	// starts without a person, and Remedy is its request, without key; its kind is that of the table, unless it has one.
	Severity        string
	Repairs, Urgent bool
	Remedy          api.IntentRequest
}

// Scheduler creates the intents of schedules (api.Schedules). Its last act for a schedule is the last entry of the audit log
// about it, so that a restart neither loses nor repeats a due time: an intent has the due time as its key, and the entry about it
// is appended only if no other came between.
type Scheduler struct {
	All    map[string]Schedule
	Facts  *govern.Ledger
	Create func(ctx context.Context, r api.IntentRequest) (intent.State, error)
	// Outcome returns an intent, and the output of its run if that succeeded.
	Outcome func(ctx context.Context, id string) (intent.State, json.RawMessage, error)
	// Wake makes Follow look before the next minute; it has room for one value.
	Wake   chan struct{}
	Logger zerolog.Logger
	Now    func() time.Time // nil: time.Now
}

// scheduleEntry is the body of an audit entry about a schedule.
type scheduleEntry struct {
	Cron string `json:"cron"`
	// Until is the time up to which due times are dealt with.
	Until   time.Time  `json:"until"`
	Intent  string     `json:"intent_id,omitempty"` // the last one that was created
	Created *time.Time `json:"created,omitempty"`   // its due time
	Reason  string     `json:"reason,omitempty"`    // why none was created
	// Of a schedule with a severity; see remedies.go.
	Checked  string     `json:"checked,omitempty"` // the last intent whose outcome is known
	Health   string     `json:"health,omitempty"`
	Remedy   string     `json:"remedy_intent,omitempty"`
	Remedied *time.Time `json:"remedied,omitempty"`
	Note     string     `json:"note,omitempty"`
}

func subjectOf(name string) string { return "schedule:" + name }

// loadLast returns the last entry about a schedule, and its number; 0 if there is none.
func (s *Scheduler) loadLast(name string) (scheduleEntry, uint64, error) {
	var last scheduleEntry
	e, ok, err := s.Facts.Store.LastAudit(subjectOf(name))
	if err != nil {
		return last, 0, problem.StoreProblem(err)
	}
	if !ok {
		return last, 0, nil
	}
	if err := json.Unmarshal(e.Body, &last); err != nil {
		return last, 0, fmt.Errorf("read audit entry %d: %w", e.Seq, err)
	}
	return last, e.Seq, nil
}

func (s *Scheduler) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// appendEntry records the outcome of a schedule. If another process was faster, its entry holds.
func (s *Scheduler) appendEntry(ctx context.Context, name string, after uint64, e scheduleEntry) error {
	_, err := s.Facts.AddFact(ctx, audit.Entry{Kind: audit.Schedule, Subject: subjectOf(name)}, e, after)
	if errors.Is(err, lattice.ErrConflict) {
		return nil
	}
	return err
}
