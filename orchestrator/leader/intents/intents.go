package intents

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// CreateIntent creates an intent and takes it as far as it goes without people.
func (x *Pipeline) CreateIntent(ctx context.Context, r api.IntentRequest) (intent.State, error) {
	kind, known := manifests.Intents()[r.Kind]
	switch {
	case !known:
		return intent.State{}, fault.BadInput("intent_kind", "there is no kind of intent %q", r.Kind).WithHint("lattice intent create --help lists the kinds")
	case r.Key == "":
		return intent.State{}, fault.BadInput("bad_request", "an intent needs a key")
	case kind.Repo && r.Repo == "":
		return intent.State{}, fault.BadInput("no_repository", "an intent %s needs a repository", r.Kind).WithHint("--repo URL|PATH")
	}
	p, rules, err := x.makePlan(ctx, kind, intent.Plan{Repo: r.Repo, Input: r.Input, AgentEnv: r.AgentEnv, Routes: r.Routes})
	if err != nil {
		return intent.State{}, err
	}
	id := intent.ID(r.Key)
	before, err := x.loadIntent(id)
	if verdict := rules.Intent(r.Kind); err == nil && before.Run == "" && (verdict.Decision == lattice.Allow || r.Urgent && verdict.Urgent().Decision == lattice.Allow) {
		err = checkValues(p, r.Values) // its run starts at once
	}
	if err == nil && before.ID == "" {
		err = x.checkRate(ctx, rules, r.Kind, "")
	}
	if err != nil {
		return intent.State{}, err
	}
	request := x.runRequest(intent.State{ID: id, Subject: r.Subject, Plan: p})
	request.DryRun = true // a plan that cannot run is refused now
	if _, err := x.Executor.Start(ctx, request); err != nil {
		return intent.State{}, err
	}
	proposed := intent.Fact{Type: intent.FactProposed, ID: id, Kind: r.Kind, Subject: r.Subject, Signal: cmp.Or(r.Signal, "api"), Urgent: r.Urgent}
	if _, err := x.Facts.AddFact(ctx, audit.Entry{Kind: audit.Intent, Subject: audit.IntentOf(id), Key: "intent:" + id}, proposed, 0); err != nil {
		return intent.State{}, err
	}
	s, err := x.loadIntent(id)
	if err != nil {
		return s, err
	}
	if s.Kind != r.Kind || s.Plan.Version > 0 && !bytes.Equal(s.Plan.Input, p.Input) {
		if _, err := x.appendFact(ctx, s, intent.Fact{Type: intent.FactRefused, Reason: "a request with the same key asks for something else"}); err != nil {
			return s, err
		}
		return s, fault.Busy("intent_exists", "the key belongs to %s, which asks for something else", id).WithHint("choose another key")
	}
	if before.ID == "" {
		if err := x.checkRate(ctx, rules, r.Kind, id); err != nil {
			_, canceled := x.appendFact(ctx, s, intent.Fact{Type: intent.FactCanceled, Reason: err.Error()})
			return s, errors.Join(err, canceled)
		}
	}
	if err := x.makeNewest(ctx, intent.State{ID: id, Kind: r.Kind, Subject: r.Subject, Plan: p}, rules); err != nil {
		return s, err
	}
	return x.advanceIntent(ctx, s, &p, rules, r.Values)
}

// ResumeIntent takes the intent of a key as far as it goes without people, as it was planned, after a crash may have cut that off.
// found is false if no plan was recorded.
func (x *Pipeline) ResumeIntent(ctx context.Context, key string, values api.Values) (s intent.State, found bool, err error) {
	if s, err = x.loadIntent(intent.ID(key)); err != nil || s.Plan.Version == 0 {
		return s, false, err
	}
	_, rules, err := x.BaseOf(ctx, s.Plan.Repo)
	if err != nil {
		return s, true, err
	}
	s, err = x.advanceIntent(ctx, s, nil, rules, values)
	return s, true, err
}

// makePlan returns the first version of a plan that has the repository, the input and the variables of asked, and the policy that
// holds for it.
func (x *Pipeline) makePlan(ctx context.Context, kind manifests.Intent, asked intent.Plan) (intent.Plan, policy.Policy, error) {
	flow, ok := manifests.Flow(kind.Flow)
	if !ok {
		return intent.Plan{}, policy.Policy{}, fmt.Errorf("there is no flow %s", kind.Flow)
	}
	sum := sha256.Sum256(flow)
	p := intent.Plan{Version: 1, Flow: kind.Flow, FlowSum: hex.EncodeToString(sum[:]), Repo: asked.Repo, Actions: kind.Actions, Keep: kind.Keep, AgentEnv: asked.AgentEnv, Routes: asked.Routes}
	members := map[string]json.RawMessage{}
	if len(asked.Input) > 0 {
		if err := json.Unmarshal(asked.Input, &members); err != nil {
			return p, policy.Policy{}, fault.BadInput("bad_input", "the input of an intent is one JSON object: %v", err)
		}
	}
	for name, value := range kind.Input {
		if _, given := members[name]; !given {
			members[name] = value
		}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		return p, policy.Policy{}, err
	}
	p.Input = raw
	var rules policy.Policy
	p.Base, rules, err = x.BaseOf(ctx, asked.Repo)
	return p, rules, err
}

// runRequest returns the request for the run of an intent.
func (x *Pipeline) runRequest(s intent.State) api.RunRequest {
	flow, _ := manifests.Flow(s.Plan.Flow)
	return api.RunRequest{Flow: flow, Input: s.Plan.Input, Key: runKey(s), Detach: true, Options: api.Options{
		FlowName: s.Plan.Flow, Repo: s.Plan.Repo, WorkItem: cmp.Or(s.Subject, s.ID), Keep: s.Plan.Keep, Intent: s.ID, Goal: manifests.Intents()[s.Kind].Does,
		AgentEnv: s.Plan.AgentEnv, Routes: s.Plan.Routes,
	}}
}

// runKey returns the key of the run of an intent, by which starting it twice is the same as starting it once.
func runKey(s intent.State) string {
	sum := sha256.Sum256([]byte(s.ID + "\x00" + s.Digest))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// checkValues refuses to start the run of a plan without the values of its variables.
func checkValues(p intent.Plan, values api.Values) error {
	for _, name := range p.AgentEnv {
		if values.Secrets[name] == "" {
			return fault.BadInput("agent_env_missing", "the plan passes %s to agents, which is not set here", name).WithHint("export %s=…", name)
		}
	}
	return nil
}

// advanceIntent takes an intent as far as it goes without people. p is its first plan, nil if it has one.
func (x *Pipeline) advanceIntent(ctx context.Context, s intent.State, p *intent.Plan, rules policy.Policy, values api.Values) (intent.State, error) {
	verdict := rules.Intent(s.Kind)
	if s.Urgent {
		verdict = verdict.Urgent()
	}
	for {
		var f intent.Fact
		switch {
		case s.Status == intent.Proposed:
			f = intent.Fact{Type: intent.FactClassified, Class: string(verdict.Class), Rule: verdict.Rule.String()}
		case s.Status == intent.Classified && s.Plan.Version == 0 && p != nil:
			f = intent.Fact{Type: intent.FactPlanned, Plan: p}
		case s.Status == intent.Classified && s.Plan.Version > 0 && s.Decision == "":
			if err := x.noteAsks(ctx, s, verdict.Decision); err != nil {
				return s, err
			}
			f = intent.Fact{Type: intent.FactGated, Decision: verdict.Decision, Rule: verdict.Rule.String(), Reason: verdict.Reason}
		case s.Status == intent.Classified && s.Decision == lattice.Allow:
			return x.startRun(ctx, s, values)
		case s.Status == intent.Executing || s.Status == intent.Waiting:
			return x.startRun(ctx, s, values)
		default:
			return s, nil
		}
		var err error
		if s, err = x.appendFact(ctx, s, f); err != nil {
			return s, err
		}
	}
}

func personOf(ctx context.Context) *audit.Who {
	w := govern.PersonOf(ctx)
	return &w
}

// startRun records the run of an intent and starts it. After a crash in between it is started again, with the same key.
func (x *Pipeline) startRun(ctx context.Context, s intent.State, values api.Values) (intent.State, error) {
	if err := checkValues(s.Plan, values); err != nil {
		if s.Run != "" {
			if _, unknown := x.Executor.Run(ctx, s.Run); unknown == nil {
				return s, nil // it has its values
			}
		}
		return s, err
	}
	for s.Run == "" { // until this fact is recorded, or another process started it
		var err error
		if s, err = x.appendFact(ctx, s, intent.Fact{Type: intent.FactStarted, Run: "run_" + runKey(s), Digest: s.Digest}); err != nil {
			return s, err
		}
	}
	if s.Status != intent.Executing {
		return s, nil
	}
	if err := x.cancelOlder(ctx, s, func(intent.State) bool { return true }); err != nil {
		return s, err
	}
	r := x.runRequest(s)
	r.Values = values
	if _, err := x.Executor.Start(ctx, r); err != nil {
		return s, fmt.Errorf("start the run of %s: %w", s.ID, err)
	}
	return s, nil
}

// Intents lists up to limit intents that are older than the intent before, the newest first. "" begins with the newest, 0 are all.
func (x *Pipeline) Intents(ctx context.Context, before string, limit int) ([]intent.State, error) {
	if before != "" {
		s, err := x.findIntent(before)
		if err != nil {
			return nil, err
		}
		before = s.ID
	}
	ids, err := x.Facts.Store.Intents(before, limit)
	if err != nil {
		return nil, problem.StoreProblem(err)
	}
	all := []intent.State{}
	for _, id := range ids {
		s, err := x.loadIntent(id)
		if err == nil {
			s, err = x.recordOutcome(ctx, s)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Intent returns an intent with the outcome of its run.
func (x *Pipeline) Intent(ctx context.Context, id string) (intent.State, error) {
	s, err := x.findIntent(id)
	if err != nil {
		return s, err
	}
	return x.recordOutcome(ctx, s)
}

// Outcome returns an intent, and the output of its run if that succeeded.
func (x *Pipeline) Outcome(ctx context.Context, id string) (intent.State, json.RawMessage, error) {
	s, err := x.Intent(ctx, id)
	if err != nil || s.Status != intent.Succeeded {
		return s, nil, err
	}
	v, err := x.Executor.Run(ctx, s.Run)
	return s, v.Outputs, err
}

// recordOutcome records the outcome of the run of an intent.
func (x *Pipeline) recordOutcome(ctx context.Context, s intent.State) (intent.State, error) {
	if s.Status != intent.Executing && s.Status != intent.Waiting {
		return s, nil
	}
	v, err := x.Executor.Run(ctx, s.Run)
	if p := fault.As(err); p != nil && p.Exit == protocol.ExitNotFound {
		return s, nil // it was recorded and not started: approve starts it
	}
	if err != nil {
		return s, err
	}
	var f intent.Fact
	switch v.Status {
	case lattice.Succeeded, lattice.Failed, lattice.Canceled:
		f = intent.Fact{Type: intent.FactEnded, Status: intent.Status(v.Status), Run: s.Run}
		if v.Error != nil {
			f.Reason = v.Error.Message
		}
	case lattice.Waiting, lattice.Blocked, lattice.BlockedWaitingForUser:
		if s.Status == intent.Waiting {
			return s, nil
		}
		f = intent.Fact{Type: intent.FactWaiting, Run: s.Run}
	default:
		if s.Status == intent.Executing {
			return s, nil
		}
		f = intent.Fact{Type: intent.FactResumed, Run: s.Run}
	}
	return x.appendFact(ctx, s, f)
}

// DecideIntent approves, rejects or cancels an intent.
func (x *Pipeline) DecideIntent(ctx context.Context, id string, d api.IntentDecision) (intent.State, error) {
	s, err := x.Intent(ctx, id)
	if err != nil {
		return s, err
	}
	switch d.Decision {
	case "approve":
		return x.approvePlan(ctx, s, d)
	case "reject":
		if s.Status == intent.Rejected {
			return s, nil
		}
		return x.appendFact(ctx, s, intent.Fact{Type: intent.FactRejected, Reason: d.Reason})
	case "cancel":
		return x.cancelIntent(ctx, s, d)
	}
	return s, fault.BadInput("bad_request", "an intent is approved, rejected or canceled")
}

func (x *Pipeline) cancelIntent(ctx context.Context, s intent.State, d api.IntentDecision) (intent.State, error) {
	if s.Status == intent.Canceled {
		return s, nil
	}
	if s.Status == intent.Executing || s.Status == intent.Waiting {
		_, err := x.Executor.Cancel(ctx, s.Run, personOf(ctx).Name)
		if p := fault.As(err); err != nil && (p == nil || p.Exit != protocol.ExitNotFound) {
			return s, err
		}
		if s, err = x.recordOutcome(ctx, s); err != nil || s.Status.Ended() {
			return s, err
		}
	}
	return x.appendFact(ctx, s, intent.Fact{Type: intent.FactCanceled, Reason: d.Reason})
}

// approvePlan records a person's approval of the present plan, and starts the run if it suffices.
func (x *Pipeline) approvePlan(ctx context.Context, s intent.State, d api.IntentDecision) (intent.State, error) {
	if s.Status == intent.Executing || s.Status == intent.Waiting {
		return x.startRun(ctx, s, d.Values)
	}
	if s.Status != intent.Gated && len(s.Approvals) > 0 && strings.HasPrefix(s.Digest, d.Plan) {
		return s, nil // it was approved before
	}
	if s.Status != intent.Gated {
		state := string(s.Status)
		if s.Reason != "" {
			state += ", " + s.Reason
		}
		return s, fault.Busy("intent_state", "%s is %s; there is nothing to approve", s.ID, state).WithHint("lattice intent show %s", s.ID)
	}
	if err := x.refuseSuperseded(ctx, s); err != nil {
		return s, err
	}
	if d.Plan != "" && !strings.HasPrefix(s.Digest, d.Plan) {
		if _, err := x.appendFact(ctx, s, intent.Fact{Type: intent.FactRefused, Digest: d.Plan, Reason: "the approval names another plan"}); err != nil {
			return s, err
		}
		return s, fault.Busy("plan_changed", "the plan of %s is version %d with the digest %.12s, not %.12s", s.ID, s.Plan.Version, s.Digest, d.Plan).WithHint("lattice intent show %s", s.ID)
	}
	fresh, rules, err := x.makePlan(ctx, manifests.Intents()[s.Kind], s.Plan)
	if err != nil {
		return s, err
	}
	fresh.Version = s.Plan.Version
	if fresh.Digest() != s.Digest { // the repository or the flow moved: people saw another plan
		fresh.Version++
		if s, err = x.appendFact(ctx, s, intent.Fact{Type: intent.FactPlanned, Plan: &fresh}); err != nil {
			return s, err
		}
		return s, fault.Busy("plan_changed", "the plan of %s has changed: version %d begins with the commit %.12s", s.ID, s.Plan.Version, s.Plan.Base).WithHint("lattice intent show %s; then approve again", s.ID)
	}
	verdict := rules.Intent(s.Kind)
	if verdict.Decision == lattice.Deny {
		return s, fault.Denied("denied_by_policy", "%s", verdict.Reason).WithHint("the rule is %s", verdict.Rule)
	}
	for s.Status == intent.Gated { // until this approval is recorded, or another one suffices
		approvers, requesters := peopleOf(s, verdict.Approve.Expires)
		more, reason := govern.Admit(ctx, rules, verdict, requesters, approvers)
		if reason != "" {
			if s, err = x.appendFact(ctx, s, intent.Fact{Type: intent.FactRefused, Digest: s.Digest, Reason: reason}); err != nil {
				return s, err
			}
			return s, fault.Denied("approval_denied", "%s", reason).WithHint("lattice policy explain %s", s.Kind)
		}
		if more <= 0 { // its run starts at once
			if err := checkValues(s.Plan, d.Values); err != nil {
				return s, err
			}
		}
		before := len(s.Approvals)
		if s, err = x.appendFact(ctx, s, intent.Fact{Type: intent.FactApproved, Digest: s.Digest, Reason: d.Reason}); err != nil {
			return s, err
		}
		if !slices.ContainsFunc(s.Approvals[min(before, len(s.Approvals)):], func(a intent.Approval) bool { return policy.IsSame(a.Who, govern.PersonOf(ctx)) }) {
			continue // another fact came first
		}
		if more > 0 {
			return s, fault.New(protocol.ExitWaiting, "approval_incomplete", "your approval of %s is recorded; it needs %d more", s.ID, more).WithHint("another person: lattice intent approve %s", s.ID)
		}
		return x.startRun(ctx, s, d.Values)
	}
	if s.Status != intent.Executing && s.Status != intent.Waiting {
		return s, fault.Busy("intent_state", "%s is %s; there is nothing to approve", s.ID, s.Status).WithHint("lattice intent show %s", s.ID)
	}
	return x.startRun(ctx, s, d.Values)
}

// peopleOf returns who approved the present plan, as far as that holds, and who asked for it.
func peopleOf(s intent.State, expires policy.Duration) (approvers, requesters []audit.Who) {
	for _, a := range s.Approvals {
		if govern.Holds(a.At, expires) {
			approvers = append(approvers, a.Who)
		}
	}
	if s.ProposedBy != nil {
		requesters = append(requesters, *s.ProposedBy)
	}
	return approvers, requesters
}

// Covers reports whether people approved a plan that names an action, for the run of an intent.
func (x *Pipeline) Covers(id, run, action string) (bool, error) {
	s, err := x.loadIntent(id)
	return s.Run == run && len(s.Approvals) > 0 && slices.Contains(s.Plan.Actions, action), err
}
