package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spritekit/lattice/orchestrator/intent"
)

// Schedules is what a leader does about schedules, which the settings name.
type Schedules interface {
	Schedules(ctx context.Context) ([]ScheduleView, error)
	// RunSchedule creates the intent of a schedule now, once for each key.
	RunSchedule(ctx context.Context, name, key string) (intent.State, error)
}

// ScheduleView is a schedule with what became of it.
type ScheduleView struct {
	Name string     `json:"name"`
	Cron string     `json:"cron"`
	Zone string     `json:"zone"`
	Kind string     `json:"kind"`
	Repo string     `json:"repo,omitempty"`
	Next *time.Time `json:"next,omitempty"`
	// Known says that a leader that serves has taken the schedule up: from then on due times count.
	Known      bool       `json:"known"`
	LastDue    *time.Time `json:"last_due,omitempty"` // of LastIntent
	LastIntent string     `json:"last_intent,omitempty"`
	Reason     string     `json:"reason,omitempty"` // why the last due time created none
}

func routeSchedules(mux *http.ServeMux, s Schedules) {
	mux.HandleFunc("GET /v1/schedules", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.Schedules(r.Context())
		reply(w, out, err)
	})
	mux.HandleFunc("POST /v1/schedule/run", func(w http.ResponseWriter, r *http.Request) {
		out, err := s.RunSchedule(r.Context(), r.FormValue("name"), r.FormValue("key"))
		reply(w, out, err)
	})
}

// Schedules lists the schedules of the leader's settings.
func (c *Client) Schedules(ctx context.Context) ([]ScheduleView, error) {
	return call[[]ScheduleView](ctx, c, "GET", "/v1/schedules", nil, nil)
}

// RunSchedule creates the intent of a schedule now.
func (c *Client) RunSchedule(ctx context.Context, name string) (intent.State, error) {
	return call[intent.State](ctx, c, "POST", "/v1/schedule/run", url.Values{"name": {name}, "key": {newKey()}}, nil)
}
