// Package inbox keeps the deliveries of code hosts until each was handled once. Start with [Inbox].
//
// A delivery is an entry of the audit log, with the id of the delivery as its key: of several with one id the first one is
// kept. It is on disk before the code host gets its answer. One goroutine handles the deliveries about each issue or pull request in
// the order in which they came, also after a restart. If one fails, the later ones of its issue wait for it, and no others do. If
// the process ends between the effects of a delivery and the entry that says so, the delivery is handled again; its effects are
// idempotent. Deliveries stay in the log: they are the evidence for the decisions in it, and each has some hundred bytes.
package inbox

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
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
	// Settled returns the outcomes of deliveries about a pull request that were first kept, by their ids; nil if there are none.
	Settled func(host string, p forge.Path, number int64) (map[string]string, error)

	wake    chan struct{}
	reading chan struct{}

	mu      sync.Mutex
	refused map[string]bool // keys of the entries about deliveries that were refused
}

// New returns the inbox of code hosts, by name. handle carries out a delivery and returns a sentence about its outcome. If it
// fails it is called again later.
func New(hosts map[string]Host, facts *govern.Ledger, handle func(ctx context.Context, host string, d hook.Delivery) (string, error), log zerolog.Logger) *Inbox {
	return &Inbox{hosts: hosts, facts: facts, handle: handle, log: log, wake: make(chan struct{}, 1), reading: make(chan struct{}, readers), refused: map[string]bool{}}
}

// handled is the body of the entry about the outcome of a delivery.
type handled struct {
	Through uint64 `json:"through"` // the number of the entry of the delivery
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	// Open is a number below which all deliveries are handled; 0 in older entries, where all are handled up to Through.
	Open uint64 `json:"open,omitempty"`
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
		return errors.Join(err, in.recordRefusal(r.Context(), name, err))
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
	ctx = caller.With(ctx, audit.Who{Name: "forge:" + name, UID: -1})
	if _, err := in.facts.AddFact(ctx, audit.Entry{Kind: audit.Delivery, Subject: subjectOfArrivals(name), Key: "delivery:" + name + ":" + d.ID}, d, store.Any); err != nil {
		return err
	}
	select {
	case in.wake <- struct{}{}:
	default: // it looks anyway
	}
	return nil
}
