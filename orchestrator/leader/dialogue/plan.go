package dialogue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/gather"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
)

// planTask creates the intent that lets an agent answer an issue.
func (d *Dialogue) planTask(ctx context.Context, a asked) (intent.State, error) {
	g, err := gather.Read(ctx, a.Source)
	if err != nil {
		return intent.State{}, err
	}
	bundle, err := g.Bundle(ctx)
	if err != nil {
		return intent.State{}, err
	}
	r := d.Hosts[a.Host].Plan
	input := map[string]any{}
	if len(r.Input) > 0 {
		if err := json.Unmarshal(r.Input, &input); err != nil {
			return intent.State{}, err
		}
	}
	input["title"], input["body"], input["context"] = g.Title, g.Text(), bundle
	if r.Input, err = json.Marshal(input); err != nil {
		return intent.State{}, err
	}
	r.Kind, r.Subject, r.Signal = "issue_triage", a.Thread.String(), "forge"
	r.Key = a.key()
	return d.Runs.CreateIntent(ctx, r)
}

// key returns the key of the intent of a command.
func (a asked) key() string { return fmt.Sprintf("forge/%s/%d/%d", a.Host, a.Comment, a.Line) }

const projectFlow = "plan-tasks"

// AgentInput names the members of the input in the settings that hold for every flow with an agent.
func AgentInput() []string {
	return []string{"agent", "agent_command", "agent_model", "agent_limits", "agent_timeout_s"}
}

// planProject creates the intent that divides a document of the repository into epics and tasks. The issue in which a person asks for it
// is that of the project. The tasks of the last round keep their keys.
func (d *Dialogue) planProject(ctx context.Context, a asked) (intent.State, error) {
	runs, err := thread.FindRuns(ctx, d.Runs, d.Facts, a.Thread, 0)
	if err != nil {
		return intent.State{}, err
	}
	repo, err := a.client.Repository(ctx, a.Repo)
	if err != nil {
		return intent.State{}, err
	}
	r := d.Hosts[a.Host].Plan
	preset, input := map[string]any{}, map[string]any{"document": a.Text, "number": a.Number, "known": knownTasks(runs, a.Text)}
	if len(r.Input) > 0 {
		if err := json.Unmarshal(r.Input, &preset); err != nil {
			return intent.State{}, err
		}
	}
	for _, name := range AgentInput() {
		if v, ok := preset[name]; ok {
			input[name] = v
		}
	}
	if r.Input, err = json.Marshal(input); err != nil {
		return intent.State{}, err
	}
	r.Kind, r.Subject, r.Signal, r.Repo, r.Key = "project_plan", a.Thread.String(), "forge", repo.CloneURL, a.key()
	return d.Runs.CreateIntent(ctx, r)
}

// knownTasks returns the tasks of the newest run about a document that succeeded, among the runs of a thread, the newest first.
func knownTasks(runs []api.RunView, document string) []json.RawMessage {
	for _, r := range runs {
		var last struct {
			Document string            `json:"document"`
			Tasks    []json.RawMessage `json:"tasks"`
		}
		if r.Flow == projectFlow && r.Status == lattice.Succeeded && json.Unmarshal(r.Outputs, &last) == nil && last.Document == document {
			return last.Tasks
		}
	}
	return []json.RawMessage{}
}
