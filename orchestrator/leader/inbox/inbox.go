// Package inbox keeps the deliveries of code hosts until each was handled once. Start with [Inbox].
//
// A delivery is an entry of the audit log, with the id of the delivery as its key: of several with one id the first one is
// kept. It is on disk before the code host gets its answer. One goroutine handles the deliveries of each code host in the
// order in which they came, also after a restart. If the process ends between the effects of a delivery and the entry that
// says so, the delivery is handled again; its effects are idempotent.
package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// A delivery that cannot be handled is tried for maxAge; then the next one is handled.
const (
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	maxAge     = 24 * time.Hour
)

// maxReading bounds the time for the body of a delivery, readers the deliveries that are read at a time: each can take
// hook.MaxBody, before it is known who sent it.
const (
	maxReading = 10 * time.Second
	readers    = 4
)

// Host is a code host whose deliveries are taken.
type Host struct {
	// Secret returns the secret that signs its deliveries. Without one, none are taken.
	Secret func() (string, error)
	// Repositories are those that are served. Deliveries about others are ignored.
	Repositories []forge.Path
	// Client returns the connection to the code host, which is asked for comments at intervals of Poll; 0 asks never.
	Client func() (Client, error)
	Poll   time.Duration
}

// Inbox takes deliveries, and has them handled. Make it with New.
type Inbox struct {
	hosts  map[string]Host
	facts  *govern.Ledger
	handle func(ctx context.Context, host string, d hook.Delivery) (outcome string, err error)
	log    zerolog.Logger

	wake    chan struct{}
	reading chan struct{}
}

// New returns the inbox of code hosts, by name. handle carries out a delivery and says in a sentence what became of it. If it
// fails it is called again later.
func New(hosts map[string]Host, facts *govern.Ledger, handle func(ctx context.Context, host string, d hook.Delivery) (string, error), log zerolog.Logger) *Inbox {
	return &Inbox{hosts: hosts, facts: facts, handle: handle, log: log, wake: make(chan struct{}, 1), reading: make(chan struct{}, readers)}
}

// handled is the body of an entry that says what became of a delivery.
type handled struct {
	Through uint64 `json:"through"` // the number of the entry of the delivery
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
}

func subjectOfArrivals(host string) string { return "forge:" + host }
func subjectOfOutcomes(host string) string { return "forge-handled:" + host }

// ReceiveHook takes the delivery in a request for a code host.
func (in *Inbox) ReceiveHook(w http.ResponseWriter, r *http.Request, name string) error {
	host, known := in.hosts[name]
	if !known {
		return fault.NotFound("forge_not_found", "the settings of the leader have no code host %.32q", name).WithHint("add [forges.%s] to the settings, and start lattice serve again", name)
	}
	secret, err := host.Secret()
	if err != nil || secret == "" {
		in.log.Error().Err(err).Str("forge", name).Msg("a delivery came, and the secret of its webhook cannot be read")
		return fault.Denied("hook_secret", "the code host %s has no secret for webhooks", name).WithHint("set forges.%s.webhook_secret_env", name)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(maxReading)) // not every writer has one
	select {
	case in.reading <- struct{}{}:
		defer func() { <-in.reading }()
	case <-r.Context().Done():
		return r.Context().Err()
	}
	d, err := hook.Read(r, secret)
	if err != nil {
		return err
	}
	return in.Add(r.Context(), name, d)
}

// takesHooks reports whether the settings have a secret for the webhooks of a code host.
func (in *Inbox) takesHooks(name string) bool {
	secret, err := in.hosts[name].Secret()
	return err == nil && secret != ""
}

// Add keeps a delivery of a code host, unless nothing here uses it. It is on disk when Add returns.
func (in *Inbox) Add(ctx context.Context, name string, d hook.Delivery) error {
	served := slices.ContainsFunc(in.hosts[name].Repositories, d.Repo.Equal)
	if d.Kind == hook.Other || d.Kind != hook.Ping && !served {
		in.log.Debug().Str("forge", name).Str("event", d.Name).Stringer("repository", d.Repo).Bool("served", served).Msg("ignore a delivery")
		return nil
	}
	ctx = api.WithCaller(ctx, audit.Who{Name: "forge:" + name, UID: -1})
	if _, err := in.facts.AddFact(ctx, audit.Entry{Kind: audit.Delivery, Subject: subjectOfArrivals(name), Key: "delivery:" + name + ":" + d.ID}, d, store.Any); err != nil {
		return err
	}
	select {
	case in.wake <- struct{}{}:
	default: // it looks anyway
	}
	return nil
}

// FollowInBackground handles deliveries, and returns a function that ends that and waits for the end.
func (in *Inbox) FollowInBackground() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.followHosts(ctx)
	}()
	return func() { cancel(); <-done }
}

// followHosts handles deliveries until ctx ends.
func (in *Inbox) followHosts(ctx context.Context) {
	failures := map[string]int{} // of the oldest delivery of each code host, in a row
	next, polls, missed := map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
	for ctx.Err() == nil {
		pause := maxDelay
		for _, name := range slices.Sorted(maps.Keys(in.hosts)) {
			pause = min(pause, in.pollDue(ctx, name, polls), in.missedDue(ctx, name, missed))
			if wait := time.Until(next[name]); wait > 0 {
				pause = min(pause, wait)
				continue
			}
			if err := in.HandleAll(ctx, name); err == nil {
				failures[name] = 0
			} else if ctx.Err() == nil {
				delay := min(firstDelay<<min(failures[name], 20), maxDelay)
				failures[name]++
				next[name] = time.Now().Add(delay)
				pause = min(pause, delay)
				in.log.Warn().Err(err).Str("forge", name).Dur("again_in", delay).Msg("handle a delivery")
			}
		}
		select {
		case <-ctx.Done():
		case <-in.wake:
		case <-time.After(pause):
		}
	}
}

// HandleAll handles the deliveries of a code host that were not handled, up to the first that fails. The goroutine of the inbox calls it; no other
// goroutine may call it then.
func (in *Inbox) HandleAll(ctx context.Context, name string) error {
	var last handled
	switch e, ok, err := in.facts.Store.LastAudit(subjectOfOutcomes(name)); {
	case err != nil:
		return problem.StoreProblem(err)
	case ok:
		if err := json.Unmarshal(e.Body, &last); err != nil {
			return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
	}
	return in.facts.AuditEntries(ctx, subjectOfArrivals(name), last.Through, func(e audit.Entry) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var d hook.Delivery
		if err := json.Unmarshal(e.Body, &d); err != nil {
			return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		outcome, err := in.handle(ctx, name, d)
		if err != nil {
			if time.Since(e.At) < maxAge || ctx.Err() != nil {
				return err
			}
			outcome = "given up: " + err.Error()
		}
		_, err = in.facts.AddFact(ctx, audit.Entry{Kind: audit.Delivery, Subject: subjectOfOutcomes(name)}, handled{Through: e.Seq, ID: d.ID, Outcome: outcome}, store.Any)
		return err
	})
}

// Deliveries lists the deliveries of a code host, the newest first; of all code hosts if name is "". At most limit are listed,
// 0 are all.
func (in *Inbox) Deliveries(ctx context.Context, name string, limit int) ([]api.DeliveryView, error) {
	if _, known := in.hosts[name]; name != "" && !known {
		return nil, fault.NotFound("forge_not_found", "the settings of the leader have no code host %.32q", name).WithHint("add [forges.%s] to the settings, and start lattice serve again", name)
	}
	views := []api.DeliveryView{}
	for host := range in.hosts {
		if name != "" && name != host {
			continue
		}
		became := map[uint64]string{}
		err := in.facts.AuditEntries(ctx, subjectOfOutcomes(host), 0, func(e audit.Entry) error {
			var h handled
			err := json.Unmarshal(e.Body, &h)
			became[h.Through] = h.Outcome
			return err
		})
		if err != nil {
			return nil, err
		}
		err = in.facts.AuditEntries(ctx, subjectOfArrivals(host), 0, func(e audit.Entry) error {
			var d hook.Delivery
			err := json.Unmarshal(e.Body, &d)
			outcome, done := became[e.Seq]
			views = append(views, api.DeliveryView{Forge: host, ID: d.ID, At: e.At, Event: string(d.Kind), Action: d.Action, Repository: nameRepository(d.Repo), Number: d.Number, Sender: d.Sender.Login, Handled: done, Outcome: outcome})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(views, func(a, b api.DeliveryView) int { return b.At.Compare(a.At) })
	if limit > 0 && len(views) > limit {
		views = views[:limit]
	}
	return views, nil
}

func nameRepository(p forge.Path) string {
	if p == (forge.Path{}) {
		return ""
	}
	return p.String()
}
