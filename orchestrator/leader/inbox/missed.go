package inbox

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// A code host is asked for deliveries that failed this often. Each is attempted at most maxAttempts times.
const (
	missedPause = 5 * time.Minute
	maxAttempts = 5
)

// keeper is a Client of a code host that keeps its deliveries.
type keeper interface {
	Hooks(ctx context.Context, p forge.Path) ([]forge.Hook, error)
	forge.Redeliverer
}

// FetchMissed asks a code host to repeat the deliveries that failed, for example while no leader took them. A code host that
// keeps none is asked for comments.
func (in *Inbox) FetchMissed(ctx context.Context, name string) error {
	client, err := in.hosts[name].Client()
	if err != nil {
		return err
	}
	kept, ok := client.(keeper)
	if !ok {
		return in.Poll(ctx, name)
	}
	for _, p := range in.hosts[name].Repositories {
		hooks, err := kept.Hooks(ctx, p)
		if refused, ok := errors.AsType[*forge.Problem](err); ok && (refused.Status == http.StatusForbidden && !refused.Limited() || forge.IsNotFound(err)) {
			in.log.Debug().Err(err).Str("forge", name).Stringer("repository", p).Msg("only an administrator of the repository sees its deliveries")
			continue
		}
		if err != nil {
			return err
		}
		for _, h := range hooks {
			if !h.Active || !strings.HasSuffix(h.URL, "/hooks/"+name) {
				continue
			}
			all, err := kept.Deliveries(ctx, p, h.ID)
			if err != nil {
				return err
			}
			for _, d := range findMissed(all) {
				if err := kept.Redeliver(ctx, p, h.ID, d.ID); err != nil {
					return err
				}
				in.log.Info().Str("forge", name).Str("delivery", d.GUID).Msg("ask for a delivery again")
			}
		}
	}
	return nil
}

// findMissed returns the newest attempt of each delivery that never succeeded, the oldest first. all are attempts, the newest
// first.
func findMissed(all []forge.Delivery) (missed []forge.Delivery) {
	attempts, arrived := map[string]int{}, map[string]bool{}
	for _, d := range all {
		attempts[d.GUID]++
		arrived[d.GUID] = arrived[d.GUID] || d.OK
	}
	seen := map[string]bool{}
	for _, d := range all {
		if !seen[d.GUID] && !arrived[d.GUID] && attempts[d.GUID] < maxAttempts {
			missed = append(missed, d)
		}
		seen[d.GUID] = true
	}
	slices.Reverse(missed)
	return missed
}

// missedDue asks the code host for missed deliveries if that is due, and returns the time until it is due again; maxDelay if
// no webhooks are taken.
func (in *Inbox) missedDue(ctx context.Context, name string, next map[string]time.Time) time.Duration {
	if in.hosts[name].Client == nil || in.hosts[name].Poll != 0 || !in.takesHooks(name) {
		return maxDelay
	}
	if wait := time.Until(next[name]); wait > 0 {
		return wait
	}
	if err := in.FetchMissed(ctx, name); err != nil && ctx.Err() == nil {
		in.log.Warn().Err(err).Str("forge", name).Msg("ask a code host for missed deliveries")
	}
	next[name] = time.Now().Add(missedPause)
	return missedPause
}
