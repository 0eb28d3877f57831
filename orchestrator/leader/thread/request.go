package thread

import (
	"encoding/json"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Request is something that a person decides: a wait of a run, or an intent whose plan people have to approve.
type Request struct {
	Run    string
	Wait   lattice.Wait
	Intent *intent.State // nil for a wait
	Digest string        // of all that the comment about it shows, which an approval names
}

const digestLength = 24 // of the digests of plans in comments; an approval binds the whole digest

// NewRequest returns the request that a wait of a run is.
func NewRequest(run string, w lattice.Wait) Request {
	return Request{Run: run, Wait: w, Digest: presence.Digest(run, w)}
}

// ListRequests returns the waits of runs, and the intents that wait.
func ListRequests(runs []api.RunView, gated []intent.State) (all []Request) {
	for _, r := range runs {
		for _, w := range r.Waits {
			all = append(all, NewRequest(r.RunID, w))
		}
	}
	for _, s := range gated {
		all = append(all, Request{Intent: &s, Digest: s.Digest[:min(digestLength, len(s.Digest))]})
	}
	return all
}

// Key returns the key of the comment about a request.
func (q Request) Key() string {
	if q.Intent != nil {
		return WaitPosts + q.Intent.ID + ":" + q.Digest
	}
	return WaitPosts + q.Run + ":" + q.Wait.ID + ":" + q.Digest
}

// Question returns the comment about a request, and the part of it that stays when it is decided.
func (q Request) Question() (body, prompt string) {
	if q.Intent != nil {
		p := q.Proposal()
		return presence.Proposed(p), p.Prompt
	}
	return presence.Question(q.Run, q.Wait), q.Wait.Prompt
}

// Fits reports whether the comment about a request shows it as a whole. An approval of another one is not given in a comment.
func (q Request) Fits() bool {
	if q.Intent != nil {
		return q.Proposal().Fits()
	}
	return presence.Fits(q.Wait)
}

// Proposal returns the part of an intent that a comment shows. It has only the names of files; the digest binds their content.
func (q Request) Proposal() presence.Proposal {
	s := q.Intent
	p := presence.Proposal{Intent: s.ID, Kind: s.Kind, Does: manifests.Intents()[s.Kind].Does, Digest: q.Digest, Repo: s.Plan.Repo, Base: s.Plan.Base, Actions: s.Plan.Actions, Variables: s.Plan.AgentEnv, Input: s.Plan.Input}
	input := map[string]any{}
	if json.Unmarshal(s.Plan.Input, &input) != nil {
		return p
	}
	if prompt, ok := input["prompt"].(string); ok {
		p.Prompt = prompt
		delete(input, "prompt")
	}
	var files []struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	if raw, err := json.Marshal(input["context"]); err == nil && json.Unmarshal(raw, &files) == nil && len(files) > 0 {
		names := make([]string, len(files))
		for i, f := range files {
			names[i] = f.Path
		}
		input["context"] = names
	}
	if raw, err := json.Marshal(input); err == nil {
		p.Input = raw
	}
	return p
}
