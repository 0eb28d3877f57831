// Package credentials hands secrets to calls, under leases. Start with [Vault]: Check and Grant answer a FETCH_CREDENTIAL, Env
// hands the secret to a call, and Log ends the leases of runs that wait or have ended.
//
// A lease is the fold of entries of the audit log, so it survives the process; the value of a secret does not, and is read
// from its provider again. The vault never writes a value anywhere: a call gets it in its environment.
package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// subject is the subject of the entries about secrets in the audit log.
const subject = "secrets"

// Vault owns the leases, and the values that were read (api.Secrets). It is safe for concurrent use.
type Vault struct {
	Facts   audit.Facts
	Sources map[string]secret.Source
	// ResolveRun returns the id of the run that a user means.
	ResolveRun func(id string) (string, error)
	// OutputOf opens the log of a run.
	OutputOf func(run string) io.Writer
	Logger   zerolog.Logger

	mu     sync.Mutex
	read   uint64 // guarded by mu, as below: sequence of the last entry in leases
	leases []secret.Lease
	values map[string]string // by lease, for as long as this process leads: redaction needs them after the lease
}

// foldNewFacts returns the leases. It holds no lock while it reads the entries that were appended since the last time. seq is that
// of the last one.
func (v *Vault) foldNewFacts(ctx context.Context) (leases []secret.Lease, seq uint64, err error) {
	err = audit.ApplyNew(ctx, v.Facts, subject, &v.mu, &v.read, func(e audit.Entry, f secret.Fact) { v.leases = secret.Apply(v.leases, e.At, f) })
	if err != nil {
		return nil, 0, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.leases), v.read, nil
}

// appendFact records a fact. Of several with one key only the first is recorded.
func (v *Vault) appendFact(ctx context.Context, key string, f secret.Fact, after uint64) error {
	_, err := v.Facts.AddFact(ctx, audit.Entry{Kind: audit.Secret, Subject: subject, Key: key}, f, after)
	return err
}

// refuseAction returns a refusal of an action.
func refuseAction(code, hint, format string, a ...any) error {
	return &lattice.Refusal{Fault: protocol.Fault{Code: code, Message: fmt.Sprintf(format, a...), Hint: hint}}
}

// Check refuses a request that cannot be granted.
func (v *Vault) Check(p protocol.FetchCredential) error {
	s, ok := v.Sources[p.Name]
	switch {
	case !ok:
		return refuseAction("secret_unknown", "add [secrets.NAME] to the settings; lattice secret ls lists those there are", "the settings have no secret %.64q", p.Name)
	case p.Scope != "" && !s.Scoped:
		return refuseAction("scope_unsupported", "ask without a scope, or use a helper program, which can make a narrower secret", "the secret %s cannot be limited to a scope: its provider is %s", s.Name, s.Provider)
	case p.TTLS < 0 || p.TTLS > s.TTL.Seconds():
		return refuseAction("lease_too_long", "ask for less, or set ttl of the secret in the settings", "a lease of %s holds for %v at most", s.Name, s.TTL)
	}
	return nil
}

// Grant makes the lease that an approved FETCH_CREDENTIAL asks for. The same request again has the same lease.
func (v *Vault) Grant(ctx context.Context, a lattice.Action, p protocol.FetchCredential) ([]byte, error) {
	if err := v.Check(p); err != nil {
		return nil, err
	}
	s := v.Sources[p.Name]
	ttl := s.TTL
	if p.TTLS > 0 {
		ttl = time.Duration(p.TTLS * float64(time.Second))
	}
	id := "lease_" + lattice.DerivedKey("lease", a.RunID, a.Key)[:20]
	value, err := v.resolveSecret(ctx, s, secret.Request{Name: p.Name, Scope: p.Scope, Purpose: p.Purpose, Run: a.RunID}, id)
	if err != nil {
		return nil, refuseAction("secret_unavailable", "lattice secret test "+s.Name, "the secret %s cannot be read: %v", s.Name, err)
	}
	v.keepValue(id, value)
	terms := &secret.Terms{Run: a.RunID, Sprite: a.Sprite, Variable: s.Variable, Skills: s.Skills, Scope: p.Scope, Purpose: p.Purpose, Expires: time.Now().Add(ttl).UTC(), Uses: s.Uses}
	if err := v.appendFact(ctx, "leased:"+id, secret.Fact{Kind: secret.Leased, Name: s.Name, Lease: id, Terms: terms}, store.Any); err != nil {
		return nil, err
	}
	leases, _, err := v.foldNewFacts(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(leases, func(l secret.Lease) bool { return l.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("the lease %s was not recorded", id)
	}
	return json.Marshal(map[string]any{"lease": id, "expires_at": leases[i].Expires, "variable": leases[i].Variable})
}

// resolveSecret reads a secret, and records if that fails.
func (v *Vault) resolveSecret(ctx context.Context, s secret.Source, r secret.Request, lease string) (string, error) {
	value, err := s.Resolve(ctx, r)
	if err != nil && ctx.Err() == nil {
		err = errors.Join(err, v.appendFact(ctx, "", secret.Fact{Kind: secret.Failed, Name: s.Name, Lease: lease, Reason: err.Error()}, store.Any))
	}
	return value, err
}

// keepValue remembers a value that was read.
func (v *Vault) keepValue(lease, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.values == nil {
		v.values = map[string]string{}
	}
	v.values[lease] = value
}

// Env returns the variables with secrets for a call: those that its env_allow names, while their lease holds. Each one is
// recorded before it is handed over; the reason why one is not is told in the run's log.
func (v *Vault) Env(ctx context.Context, c lattice.Call) ([]string, error) {
	var in struct {
		EnvAllow []string `json:"env_allow"`
	}
	if len(v.Sources) == 0 || json.Unmarshal(c.Input, &in) != nil || len(in.EnvAllow) == 0 {
		return nil, nil
	}
	var env, names []string
	for _, variable := range in.EnvAllow {
		value, err := v.handOver(ctx, c, variable)
		if err != nil {
			return nil, err
		}
		if value != "" {
			env = append(env, variable+"="+value)
			names = append(names, variable)
		}
	}
	if len(env) > 0 {
		env = append(env, protocol.LeasedVariable+"="+strings.Join(names, ","))
	}
	return env, nil
}

// handOver records that a call gets the secret of a variable, and returns it; "" if it does not get it.
func (v *Vault) handOver(ctx context.Context, c lattice.Call, variable string) (string, error) {
	for {
		leases, seq, err := v.foldNewFacts(ctx)
		if err != nil {
			return "", err
		}
		var last *secret.Lease // the newest one, or the newest that holds
		reason := ""
		for i := range leases {
			if l := &leases[i]; l.Run == c.RunID && l.Variable == variable {
				why := l.Refuse(time.Now(), c.ID, c.Skill, c.Sprite)
				if last == nil || why == "" || reason != "" {
					last, reason = l, why
				}
			}
		}
		if last == nil {
			return "", nil
		}
		value := ""
		if reason == "" {
			if value, err = v.valueOf(ctx, *last); err != nil {
				reason = err.Error()
			}
		}
		f := secret.Fact{Kind: secret.Used, Name: last.Name, Lease: last.ID, Call: c.ID, Skill: c.Skill}
		if reason != "" {
			f.Kind, f.Reason = secret.Withheld, reason
			fmt.Fprintf(v.OutputOf(c.RunID), "%s does not get the secret %s: %s\n", c.Skill, last.Name, reason)
			return "", v.appendFact(ctx, "withheld:"+last.ID+":"+c.ID, f, store.Any)
		}
		if slices.Contains(last.Calls, c.ID) {
			return value, nil
		}
		if err := v.appendFact(ctx, "used:"+last.ID+":"+c.ID, f, seq); !errors.Is(err, lattice.ErrConflict) { // else another call was faster
			return value, err
		}
	}
}

// valueOf returns the value of a lease, which another process may have read.
func (v *Vault) valueOf(ctx context.Context, l secret.Lease) (string, error) {
	v.mu.Lock()
	value := v.values[l.ID]
	v.mu.Unlock()
	s, ok := v.Sources[l.Name]
	switch {
	case !ok:
		return "", fmt.Errorf("the settings have no secret %s any more", l.Name)
	case value != "":
		return value, nil
	}
	value, err := v.resolveSecret(ctx, s, secret.Request{Name: l.Name, Scope: l.Scope, Purpose: l.Purpose, Run: l.Run}, l.ID)
	if err == nil {
		v.keepValue(l.ID, value)
	}
	return value, err
}

// recallValue returns the value of a lease, so that it can be looked for, or "" if it is not known: after a restart a helper
// would return another value, and a provider that failed once is not asked again.
func (v *Vault) recallValue(ctx context.Context, l secret.Lease) string {
	v.mu.Lock()
	value, asked := v.values[l.ID]
	v.mu.Unlock()
	if asked || v.Sources[l.Name].Provider == "helper" {
		return value
	}
	value, err := v.valueOf(ctx, l)
	if err == nil {
		return value
	}
	if ctx.Err() == nil {
		v.Logger.Warn().Err(err).Str("run", l.Run).Str("name", l.Name).Msg("a secret of the run cannot be looked for")
		v.keepValue(l.ID, "")
	}
	return ""
}

// ListHolders lists the runs of the leases that have not ended.
func (v *Vault) ListHolders() (runs []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, l := range v.leases {
		if l.State(time.Now()) != "expired" && l.Ended.IsZero() {
			runs = append(runs, l.Run)
		}
	}
	return runs
}

// Values returns the secrets that calls of a run were handed, by the names under which they may be reported.
func (v *Vault) Values(ctx context.Context, run string) map[string]string {
	if len(v.Sources) == 0 {
		return nil
	}
	leases, _, err := v.foldNewFacts(ctx)
	if err != nil {
		v.Logger.Warn().Err(err).Str("run", run).Msg("leases of the run")
		return nil
	}
	out := map[string]string{}
	for _, l := range leases {
		if l.Run != run {
			continue
		}
		if value := v.recallValue(ctx, l); value != "" {
			out["the secret "+l.Name+" of "+l.ID] = value
		}
	}
	return out
}

// endLeases revokes the leases of a run that hold.
func (v *Vault) endLeases(ctx context.Context, run, reason string) error {
	if len(v.Sources) == 0 {
		return nil
	}
	_, err := v.revokeLeases(ctx, reason, func(l secret.Lease) bool { return l.Run == run })
	return err
}

func (v *Vault) revokeLeases(ctx context.Context, reason string, match func(secret.Lease) bool) (ended []secret.Lease, err error) {
	leases, _, err := v.foldNewFacts(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		if !match(l) || !l.Ended.IsZero() || !time.Now().Before(l.Expires) {
			continue
		}
		if err := v.appendFact(ctx, "revoked:"+l.ID, secret.Fact{Kind: secret.Revoked, Name: l.Name, Lease: l.ID, Reason: reason}, store.Any); err != nil {
			return ended, err
		}
		ended = append(ended, l)
	}
	return ended, nil
}

// Log is the engine's log of one run. It ends the leases of the run before an entry is appended after which the run waits or
// has ended, or its files are those of an earlier moment.
type Log struct {
	driver.Log
	Vault *Vault
}

// Append ends leases as entries demand, and appends the entries.
func (l Log) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	for _, e := range entries {
		if reason := reasonToEnd(e); reason != "" {
			if err := l.Vault.endLeases(ctx, run, reason); err != nil {
				return 0, err
			}
		}
	}
	return l.Log.Append(ctx, run, after, entries)
}

// reasonToEnd returns the reason why leases end with an entry, "" if they go on.
func reasonToEnd(e lattice.Entry) string {
	if e.Kind == lattice.EntryFact {
		var suspended struct {
			Request *protocol.ActionRequest `json:"request"`
		}
		if e.Type == (lattice.CallSuspended{}).FactType() && json.Unmarshal(e.Body, &suspended) == nil && suspended.Request != nil && suspended.Request.Action == protocol.ActionFetchCredential {
			return "" // a run may hold several leases: asking for a further one ends none
		}
		return map[string]string{"CallSuspended": "a call waits", "Rewound": "the run was rewound", "PowerLost": "the power was lost"}[e.Type]
	}
	var state struct {
		Status lattice.RunStatus `json:"status"`
		Waits  []lattice.Wait    `json:"waits"`
	}
	if e.Kind != lattice.EntryState || json.Unmarshal(e.Body, &state) != nil {
		return ""
	}
	switch state.Status {
	case lattice.Pending, lattice.Running, "":
		return ""
	case lattice.Succeeded, lattice.Failed, lattice.Canceled:
		return "the run ended"
	}
	other := func(w lattice.Wait) bool { return w.Action == nil || w.Action.Name != protocol.ActionFetchCredential }
	if state.Status == lattice.Waiting && len(state.Waits) > 0 && !slices.ContainsFunc(state.Waits, other) {
		return ""
	}
	return "the run waits"
}

// keepListed is how long a lease that has ended is listed. The audit log keeps its entries.
const keepListed = 30 * 24 * time.Hour

// Secrets lists the secrets of the settings with their active leases. With all it lists those that ended in the last 30 days as
// well, and secrets that only they name.
func (v *Vault) Secrets(ctx context.Context, all bool) ([]api.SecretView, error) {
	leases, _, err := v.foldNewFacts(ctx)
	if err != nil {
		return nil, err
	}
	views := map[string]*api.SecretView{}
	for name, s := range v.Sources {
		view := &api.SecretView{Name: name, Provider: s.Provider, From: s.From, Variable: s.Variable, Skills: s.Skills, TTL: s.TTL.String(), Uses: s.Uses}
		if err := s.Check(); err != nil {
			view.Problem = err.Error()
		}
		views[name] = view
	}
	now := time.Now()
	for _, l := range leases {
		state := l.State(now)
		if state != "active" && (!all || now.Sub(endOf(l)) > keepListed) {
			continue
		}
		if views[l.Name] == nil {
			views[l.Name] = &api.SecretView{Name: l.Name, Problem: "the settings do not name it any more"}
		}
		views[l.Name].Leases = append(views[l.Name].Leases, api.LeaseView{Lease: l, State: state})
	}
	out := []api.SecretView{}
	for _, name := range slices.Sorted(maps.Keys(views)) {
		out = append(out, *views[name])
	}
	return out, nil
}

// endOf returns when a lease ended or ends.
func endOf(l secret.Lease) time.Time {
	if !l.Ended.IsZero() {
		return l.Ended
	}
	return l.Expires
}

// TestSecret reads a secret from its provider, and records that.
func (v *Vault) TestSecret(ctx context.Context, name string) (api.SecretView, error) {
	all, err := v.Secrets(ctx, true)
	if err != nil {
		return api.SecretView{}, err
	}
	s, ok := v.Sources[name]
	i := slices.IndexFunc(all, func(w api.SecretView) bool { return w.Name == name })
	if !ok || i < 0 {
		return api.SecretView{}, fault.NotFound("secret_unknown", "the settings have no secret %.64q", name).WithHint("lattice secret ls")
	}
	_, err = v.resolveSecret(ctx, s, secret.Request{Name: name, Purpose: "lattice secret test"}, "")
	if err != nil {
		return all[i], fault.Failed("secret_unavailable", "the secret %s cannot be read: %v", name, err).WithHint("correct [secrets.%s] in the settings", name)
	}
	all[i].Problem, all[i].Resolves = "", true
	return all[i], v.appendFact(ctx, "", secret.Fact{Kind: secret.Tested, Name: name}, store.Any)
}

// RevokeSecrets ends leases: one by its id, those of a secret, or those of a run.
func (v *Vault) RevokeSecrets(ctx context.Context, of string) ([]secret.Lease, error) {
	leases, _, err := v.foldNewFacts(ctx)
	if err != nil {
		return nil, err
	}
	match := func(l secret.Lease) bool { return l.ID == of || l.Name == of }
	if !slices.ContainsFunc(leases, match) && v.Sources[of].Name == "" {
		run, err := v.ResolveRun(of)
		if err != nil || strings.HasPrefix(of, "lease_") {
			return nil, fault.NotFound("lease_not_found", "%.64q is neither a lease, nor a secret, nor a run", of).WithHint("lattice secret ls")
		}
		match = func(l secret.Lease) bool { return l.Run == run }
	}
	return v.revokeLeases(ctx, "by a person", match)
}
