package dialogue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/spritekit/fault"
)

// A plan that an agent made for an issue becomes an intent, which waits for the approval of a person unless the policy says
// otherwise. Its run carries the plan out in a pull request. The intent belongs to the person who asked for the plan.

// Offer creates the intent that carries out the plan of a run, once, and returns it. It has no id if the run has no plan for an issue. An
// error with a message for people says which settings are missing.
func (d *Dialogue) Offer(ctx context.Context, t thread.Thread, run api.RunView) (s intent.State, err error) {
	plan := thread.PlanOf(run)
	if plan == "" {
		return s, nil
	}
	host := d.Hosts[t.Host]
	key := "plan/" + run.RunID
	s, err = d.Runs.Intent(ctx, intent.ID(key))
	switch p := fault.As(err); {
	case err == nil && s.Plan.Version > 0 && s.Status != intent.Proposed && s.Status != intent.Classified:
		return s, nil
	case err == nil: // a crash cut its creation off
		s, found, err := d.Runs.ResumeIntent(ctx, key, host.values())
		if err != nil || found {
			return s, err
		}
	case p == nil || p.Code != "intent_not_found":
		return s, err
	}
	asked, err := d.Runs.Intent(ctx, run.IntentID)
	if err != nil || asked.ProposedBy == nil {
		return intent.State{}, err
	}
	client, err := host.Client()
	if err != nil {
		return intent.State{}, err
	}
	issue, err := client.Issue(ctx, t.Repo, t.Number)
	if err != nil {
		return intent.State{}, err
	}
	if issue.Pull { // its own run does the work
		return intent.State{}, fault.Failed("not_waiting", "in a pull request of lattice, a review that asks for changes says what to carry out; it can quote the plan")
	}
	repo, err := client.Repository(ctx, t.Repo)
	if err != nil {
		return intent.State{}, err
	}
	r := host.Work
	if r.Input, err = d.workInput(ctx, t, repo.CloneURL, plan, asked.Plan.Input); err != nil {
		return intent.State{}, err
	}
	r.Kind, r.Subject, r.Signal, r.Key, r.Repo = "pr_create_from_plan", t.String(), "forge", key, repo.CloneURL
	return d.Runs.CreateIntent(caller.With(ctx, *asked.ProposedBy), r)
}

// workInput returns the input of the run that carries out a plan: that of the settings, the plan, and the title and the context with
// which the agent made it.
func (d *Dialogue) workInput(ctx context.Context, t thread.Thread, repo, plan string, planned json.RawMessage) (json.RawMessage, error) {
	host := d.Hosts[t.Host]
	if host.WorkLacks != "" {
		return nil, fault.Failed("work_settings", "%s", host.WorkLacks)
	}
	var issue struct {
		Title   string          `json:"title"`
		Context json.RawMessage `json:"context"`
	}
	if err := json.Unmarshal(planned, &issue); err != nil {
		return nil, err
	}
	input := map[string]any{"title": issue.Title, "body": fmt.Sprintf("Closes #%d.\n\n%s", t.Number, presence.Block(plan))}
	if len(issue.Context) > 0 {
		input["context"] = issue.Context
	}
	preset := map[string]any{}
	if len(host.Work.Input) > 0 {
		if err := json.Unmarshal(host.Work.Input, &preset); err != nil {
			return nil, err
		}
	}
	maps.Copy(input, preset)
	input["prompt"] = fmt.Sprintf("Carry out this plan for the issue %q:\n\n%s", issue.Title, plan)
	if _, told := preset["test_command"]; !told {
		names, err := d.Files(ctx, repo)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(names, manifests.SuggestsTests) {
			return nil, fault.Failed("work_settings", `nothing in the repository tells how it is tested: set work = { test_command = "make test" } in [forges.%s] of the settings, or add .spritekit/test.json to the repository`, t.Host)
		}
	}
	return json.Marshal(input)
}
