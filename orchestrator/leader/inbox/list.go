package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/spritekit/fault"
)

// maxListed bounds the deliveries of a list, and the entries that are read for it.
const maxListed = 1000

// Deliveries lists the last deliveries of a code host, the newest first; of all code hosts if name is "". At most limit are listed,
// and never more than maxListed; 0 is that.
func (in *Inbox) Deliveries(_ context.Context, name string, limit int) ([]api.DeliveryView, error) {
	if _, known := in.hosts[name]; name != "" && !known {
		return nil, fault.NotFound("forge_not_found", "the settings of the leader have no code host %.32q", name).WithHint("add [forges.%s] to the settings, and start lattice serve again", name)
	}
	if limit <= 0 || limit > maxListed {
		limit = maxListed
	}
	views := []api.DeliveryView{}
	for host := range in.hosts {
		if name != "" && name != host {
			continue
		}
		some, err := in.listHost(host, limit)
		if err != nil {
			return nil, err
		}
		views = append(views, some...)
	}
	slices.SortStableFunc(views, func(a, b api.DeliveryView) int { return b.At.Compare(a.At) })
	return views[:min(limit, len(views))], nil
}

// listHost lists the last deliveries of one code host.
func (in *Inbox) listHost(host string, limit int) (views []api.DeliveryView, err error) {
	arrivals, err := in.facts.Store.LastAudits(subjectOfArrivals(host), 0, limit)
	if err != nil || len(arrivals) == 0 {
		return nil, problem.StoreProblem(err)
	}
	// The outcomes of these deliveries are behind the oldest of them. A delivery has one outcome.
	outcomes, err := in.facts.Store.LastAudits(subjectOfOutcomes(host), arrivals[len(arrivals)-1].Seq, 2*maxListed)
	if err != nil {
		return nil, problem.StoreProblem(err)
	}
	became := map[uint64]string{}
	for _, e := range outcomes {
		var h handled
		if err := json.Unmarshal(e.Body, &h); err != nil {
			return nil, fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		became[h.Through] = h.Outcome
	}
	settled := settledReviews{in, host, map[string]map[string]string{}}
	for _, e := range arrivals {
		var d hook.Delivery
		if err := json.Unmarshal(e.Body, &d); err != nil {
			return nil, fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		v := api.DeliveryView{Forge: host, ID: d.ID, At: e.At, Event: string(d.Kind), Action: d.Action, Repository: nameRepository(d.Repo), Number: d.Number, Sender: d.Sender.Login}
		v.Outcome, v.Handled = became[e.Seq]
		if d.Kind == hook.Review && v.Handled {
			if v.Outcome, err = settled.outcome(d, v.Outcome); err != nil {
				return nil, err
			}
		}
		views = append(views, v)
	}
	return views, nil
}

// settledReviews are the outcomes of reviews that were kept until their run waited for them, by pull request.
type settledReviews struct {
	*Inbox
	host  string
	known map[string]map[string]string
}

// outcome returns the outcome of a review, which is the first one unless the review was settled later.
func (s settledReviews) outcome(d hook.Delivery, first string) (string, error) {
	if s.Settled == nil {
		return first, nil
	}
	thread := fmt.Sprintf("%s#%d", d.Repo, d.Number)
	all, known := s.known[thread]
	if !known {
		var err error
		if all, err = s.Settled(s.host, d.Repo, d.Number); err != nil {
			return "", err
		}
		s.known[thread] = all
	}
	if later, ok := all[d.ID]; ok {
		return later, nil
	}
	return first, nil
}

func nameRepository(p forge.Path) string {
	if p == (forge.Path{}) {
		return ""
	}
	return p.String()
}
