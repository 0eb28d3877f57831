package api

import (
	"context"
	"net/http"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/intent"
)

// Schedules lists and runs the schedules of the settings.
type Schedules interface {
	Schedules(ctx context.Context) ([]ScheduleView, error)
	// RunSchedule creates the intent of a schedule now, once for each key.
	RunSchedule(ctx context.Context, name, key string) (intent.State, error)
}

// ScheduleView is a schedule with its last outcome.
type ScheduleView struct {
	Name string `json:"name"`
	Cron string `json:"cron"` // "" if only pushes count
	// OnPush says that pushes to the repository's default branch count.
	OnPush bool       `json:"on_push,omitempty"`
	Zone   string     `json:"zone"`
	Kind   string     `json:"kind"`
	Repo   string     `json:"repo,omitempty"`
	Next   *time.Time `json:"next,omitempty"`
	// Known says that a leader that serves has taken the schedule up: from then on due times count.
	Known      bool       `json:"known"`
	LastDue    *time.Time `json:"last_due,omitempty"` // of LastIntent
	LastIntent string     `json:"last_intent,omitempty"`
	Reason     string     `json:"reason,omitempty"` // why the last due time created none
	// Of a schedule with a severity: the outcome of the last check, and the last intent that repairs.
	Severity string `json:"severity,omitempty"`
	Health   string `json:"health,omitempty"` // healthy, failing or unknown
	Remedy   string `json:"remedy_intent,omitempty"`
	Note     string `json:"note,omitempty"` // why a failing check led to no new remedy
}

func scheduleRoutes(s Schedules) []route.Route {
	return []route.Route{
		route.ListAll("/schedules", "List the schedules of the settings.", route.After, func(v ScheduleView) string { return v.Name }, func(r *http.Request) ([]ScheduleView, error) { return s.Schedules(r.Context()) }),
		route.AcceptKey(route.Post(route.Operator, "/schedules/{id}/run", "Create the intent of a schedule now.",
			func(r *http.Request, in ScheduleRun) (intent.State, error) {
				return s.RunSchedule(r.Context(), r.PathValue("id"), route.Key(r, in.Key))
			})),
	}
}

// ScheduleRun is the body of a request to create the intent of a schedule now.
type ScheduleRun struct {
	Key string `json:"key"` // creates it once
}

// Schedules lists the schedules of the leader's settings.
func (c DecisionCalls) Schedules(ctx context.Context) ([]ScheduleView, error) {
	return callList[ScheduleView](ctx, c.connection, Root+"/schedules", nil)
}

// RunSchedule creates the intent of a schedule now.
func (c DecisionCalls) RunSchedule(ctx context.Context, name string) (intent.State, error) {
	return call[intent.State](ctx, c.connection, "POST", path("schedules", name, "run"), nil, ScheduleRun{Key: newKey()})
}
