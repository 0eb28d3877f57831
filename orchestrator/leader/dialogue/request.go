package dialogue

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
)

// request is something that a person decides: a wait of a run, or an intent whose plan people have to approve.
type request struct {
	run    string
	wait   lattice.Wait
	intent *intent.State // nil for a wait
	digest string        // of all that the comment about it shows, which an approval names
}

const (
	digestLength = 24 // of the digests of plans in comments; an approval binds the whole digest
	leastDigest  = 12 // from this length on, a word of hexadecimal digits is a digest
)

// newRequest returns the request that a wait of a run is.
func newRequest(run string, w lattice.Wait) request {
	return request{run: run, wait: w, digest: presence.Digest(run, w)}
}

// requestsOf returns the waits of runs, and the intents that wait.
func requestsOf(runs []api.RunView, gated []intent.State) (all []request) {
	for _, r := range runs {
		for _, w := range r.Waits {
			all = append(all, newRequest(r.RunID, w))
		}
	}
	for _, s := range gated {
		all = append(all, request{intent: &s, digest: s.Digest[:min(digestLength, len(s.Digest))]})
	}
	return all
}

// key returns the key of the comment about a request.
func (q request) key() string {
	if q.intent != nil {
		return waitPosts + q.intent.ID + ":" + q.digest
	}
	return waitPosts + q.run + ":" + q.wait.ID + ":" + q.digest
}

// question returns the comment about a request, and the part of it that stays when it is decided.
func (q request) question() (body, prompt string) {
	if q.intent != nil {
		p := q.proposal()
		return presence.Proposed(p), p.Prompt
	}
	return presence.Question(q.run, q.wait), q.wait.Prompt
}

// proposal returns the part of an intent that a comment shows. It has only the names of files; the digest binds their content.
func (q request) proposal() presence.Proposal {
	s := q.intent
	p := presence.Proposal{Intent: s.ID, Kind: s.Kind, Does: manifests.Intents()[s.Kind].Does, Digest: q.digest, Repo: s.Plan.Repo, Base: s.Plan.Base, Actions: s.Plan.Actions, Variables: s.Plan.AgentEnv, Input: s.Plan.Input}
	input := map[string]any{}
	if json.Unmarshal(s.Plan.Input, &input) != nil {
		return p
	}
	if prompt, ok := input["prompt"].(string); ok {
		p.Prompt = prompt
		delete(input, "prompt")
	}
	var files []bundleFile
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

// findRequest returns the decision that a person makes. An approval names the digest of the approved request; a rejection may name one, and
// a ticked box belongs to one.
func findRequest(a asked, all []request, by string) (aim, error) {
	named, reason := a.Text, ""
	if a.Verb == comment.Reject {
		named, reason = "", a.Text
		word, rest, _ := strings.Cut(a.Text, " ")
		if comment.IsDigest(word) && (len(word) >= leastDigest || slices.ContainsFunc(all, func(q request) bool { return q.has(word) })) {
			named, reason = word, strings.TrimSpace(rest)
		}
	}
	var found []request
	for _, q := range all {
		switch {
		case a.box != "" && q.digest != a.box:
		case a.Verb == comment.Answer && q.intent == nil, a.Verb == comment.Reject && named == "", a.Verb != comment.Answer && q.has(named):
			found = append(found, q)
		}
	}
	switch n := len(found); {
	case n == 0 && a.Verb == comment.Approve:
		return aim{}, fault.Failed("not_waiting", "nothing waits for an approval with the digest %s; it may have changed, or was decided", named)
	case n == 0 && a.Verb == comment.Reject && named != "":
		return aim{}, fault.Failed("not_waiting", "nothing with the digest %s waits for a decision", named)
	case n == 0:
		return aim{}, fault.Failed("not_waiting", "nothing waits for a decision")
	case n > 1:
		return aim{}, fault.BadInput("several_waits", "%d requests wait; /lattice reject DIGEST names one, and lattice waiting lists them: lattice answer RUN --wait ID answers one", n)
	}
	q := found[0]
	if q.intent != nil && a.Verb == comment.Approve && !q.proposal().Fits() {
		return aim{}, fault.Failed("not_waiting", "the plan of %s is longer than a comment shows: lattice intent show %[1]s, then lattice intent approve %[1]s", q.intent.ID)
	}
	if q.intent != nil {
		return aim{Intent: q.intent.ID, Plan: q.intent.Digest, Reason: reason}, nil
	}
	t := aim{Run: q.run, Decision: &api.DecideRequest{WaitID: q.wait.ID, By: by, Detach: true}}
	switch a.Verb {
	case comment.Approve:
		t.Decision.Decision = lattice.Approve
	case comment.Reject:
		t.Decision.Decision, t.Decision.Comments = lattice.Reject, reason
	default:
		inputs, err := comment.Fill(a.Text, q.wait.Expected, q.wait.Optional)
		if err != nil {
			return aim{}, fault.BadInput("bad_answer", "%v", err)
		}
		t.Decision.Decision, t.Decision.Inputs = lattice.Answer, inputs
	}
	return t, nil
}

// has reports whether a person names a request by its digest or the beginning of it.
func (q request) has(named string) bool {
	whole := q.digest
	if q.intent != nil {
		whole = q.intent.Digest
	}
	return comment.IsDigest(named) && strings.HasPrefix(whole, named)
}

// decideIntent decides about an intent. A decision that does not hold any more is refused, and trying it again is pointless.
func (d *Dialogue) decideIntent(ctx context.Context, a asked, t aim) error {
	decision := api.IntentDecision{Decision: string(a.Verb), Plan: t.Plan, Reason: t.Reason, Values: d.Hosts[a.Host].values()}
	_, err := d.Runs.DecideIntent(ctx, t.Intent, decision)
	if refused := fault.As(err); refused != nil && slices.Contains([]string{"plan_changed", "superseded", "intent_state"}, refused.Code) {
		final := *refused
		final.Retryable = false
		return &final
	}
	return err
}

// values returns the values of the variables that the settings hand to agents. A run gets those that it names; others of the leader stay
// with it.
func (h Host) values() api.Values { return api.Values{Secrets: h.Secrets} }

// isQuestion returns the request about which a comment with this text asks in a thread.
func (d *Dialogue) isQuestion(ctx context.Context, t Thread, text string) (q request, ok bool, err error) {
	runs, err := runsOf(ctx, d.Runs, d.Facts, t, shownRuns)
	if err != nil {
		return q, false, err
	}
	gated, err := d.Runs.GatedIntents(ctx, t.String())
	if err != nil {
		return q, false, err
	}
	for _, q := range requestsOf(runs, gated) {
		body, _ := q.question()
		if unixLines(forge.MarkerOf("post", t.String()+" "+q.key()).Add(body)) == unixLines(text) {
			return q, true, nil
		}
	}
	return q, false, nil
}
