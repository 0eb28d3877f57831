// Package environment keeps the changes of their environment that sprites propose, has them verified, and applies the
// accepted ones to later runs. Start with Register. Package proposal defines proposals and the rules by which they are
// accepted; the facts are entries of the audit log. It decides nothing by itself: a fresh run or a person does.
package environment

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/text"
)

// subject is that of the entries of the audit log about proposals.
const subject = "proposals"

// maxPerRun bounds how many proposals of one run are kept, so that a sprite cannot fill the store.
const maxPerRun = 20

// Run holds the members of a run that Register needs.
type Run struct {
	ID      string
	Repo    string
	Program json.RawMessage // ExecIR, as it was recorded
	Input   json.RawMessage
	Options api.Options
	Failed  string // the node of the flow itself that failed, "" when none did
}

// Register keeps the proposals of sprites (api.Proposals). It is safe for concurrent use.
type Register struct {
	Facts audit.Facts
	// LoadRun reads a run, OptionsOf the options that it was started with. ResolveRun finds the run that a user means.
	LoadRun    func(id string) (Run, error)
	OptionsOf  func(id string) (api.Options, error)
	ResolveRun func(id string) (string, error)
	// AdmitPerson fails if the caller is a program, which may not approve, and records that with body.
	AdmitPerson func(ctx context.Context, run, subject string, body map[string]any) error
	// StartRun begins a run.
	StartRun func(ctx context.Context, r api.RunRequest) (api.RunView, error)
	// ReadCI returns the verdict of a repository's CI about the commit that a run pushed last there; ok is false without one. It
	// may be nil.
	ReadCI func(ctx context.Context, run, repo string) (commit string, green, ok bool, err error)
	// OutputOf opens the log of a run.
	OutputOf func(run string) io.Writer
	Logger   zerolog.Logger

	mu     sync.Mutex
	read   uint64           // guarded by mu, as below: sequence of the last record in states
	states []proposal.State // in the order in which they were first proposed
}

// foldNewFacts folds the facts that were appended since the last time. It holds no lock while it reads them.
func (p *Register) foldNewFacts(ctx context.Context) ([]proposal.State, error) {
	err := audit.ApplyNew(ctx, p.Facts, subject, &p.mu, &p.read, p.applyFact)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.states), nil
}

// applyFact applies the fact of an entry to its proposal. It requires mu.
func (p *Register) applyFact(e audit.Entry, f proposal.Fact) {
	f.At, f.By = e.At, e.Who.String()
	i := slices.IndexFunc(p.states, func(s proposal.State) bool { return s.ID == f.ID })
	before := proposal.State{}
	if i >= 0 {
		before = p.states[i]
	}
	next, err := before.Next(f)
	switch {
	case err != nil: // of another version; it changes nothing
		p.Logger.Warn().Err(err).Uint64("entry", e.Seq).Msg("fact about a proposal left out")
	case i >= 0:
		p.states[i] = next
	default:
		p.states = append(p.states, next)
	}
}

// appendFact records a fact, with the person of ctx. A fact with the key of an earlier one is not recorded again.
func (p *Register) appendFact(ctx context.Context, key string, f proposal.Fact) error {
	_, err := p.Facts.AddFact(ctx, audit.Entry{Kind: audit.Proposal, Subject: subject, Key: key}, f, store.Any)
	return err
}

// findProposal returns the proposal that a user means: an id, or a unique prefix of one.
func (p *Register) findProposal(ctx context.Context, id string) (proposal.State, error) {
	all, err := p.foldNewFacts(ctx)
	if err != nil {
		return proposal.State{}, err
	}
	var found []proposal.State
	for _, s := range all {
		if id != "" && strings.HasPrefix(s.ID, id) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return proposal.State{}, fault.NotFound("proposal_not_found", "there is no proposal %q", id).WithHint("lattice proposal ls --all")
	case 1:
		return found[0], nil
	}
	return proposal.State{}, fault.BadInput("proposal_ambiguous", "%q could be %d proposals", id, len(found)).WithHint("write more of the id; lattice proposal ls --all lists them")
}

// Proposal returns one proposal, by its id or a unique prefix of that.
func (p *Register) Proposal(ctx context.Context, id string) (proposal.State, error) {
	return p.findProposal(ctx, id)
}

// Proposals lists the proposals.
func (p *Register) Proposals(ctx context.Context, which api.ProposalList) ([]proposal.State, error) {
	if which.Run != "" {
		id, err := p.ResolveRun(which.Run)
		if err != nil {
			return nil, err
		}
		which.Run = id
	}
	all, err := p.foldNewFacts(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(s proposal.State) bool {
		return which.Open && s.Status != proposal.Pending || which.Run != "" && !slices.Contains(s.Runs, which.Run)
	}), nil
}

// DecideProposal approves or rejects a proposal.
func (p *Register) DecideProposal(ctx context.Context, id string, d api.ProposalDecision) (proposal.State, error) {
	s, err := p.findProposal(ctx, id)
	if err != nil {
		return s, err
	}
	f := proposal.Fact{ID: s.ID, Comments: d.Comments}
	switch d.Decision {
	case lattice.Approve:
		f.Kind = proposal.Approved
	case lattice.Reject:
		f.Kind = proposal.Refused
	default:
		return s, fault.BadInput("bad_request", "a proposal is approved or rejected")
	}
	if s.Approval != nil && s.Approval.Approved == (f.Kind == proposal.Approved) {
		return s, nil
	}
	if f.Kind == proposal.Approved {
		run := s.Runs[len(s.Runs)-1]
		if err := p.AdmitPerson(ctx, run, audit.Run(run), map[string]any{"proposal": s.ID}); err != nil {
			return s, err
		}
	}
	if err := p.appendFact(ctx, "", f); err != nil {
		return s, err
	}
	return p.findProposal(ctx, s.ID)
}

// VerifyProposal starts a run of the flow that made the proposal, as far as the node that failed, in a fresh sprite with the
// change applied. The run's end is recorded with the proposal. If the repository's CI has accepted the change it starts none, and
// the view has no id.
func (p *Register) VerifyProposal(ctx context.Context, id string, r api.DriveRequest) (api.RunView, error) {
	s, err := p.findProposal(ctx, id)
	if err != nil {
		return api.RunView{}, err
	}
	waiting := s.Status == proposal.Pending
	if s, err = p.checkCI(ctx, s); err != nil || waiting && s.Status == proposal.Verified {
		return api.RunView{}, err
	}
	if !s.Adjustment.NeedsVerification() {
		return api.RunView{}, fault.BadInput("proposal_unverifiable", "%s is a question to a person", s.ID).WithHint("lattice proposal approve %s, or reject", s.ID)
	}
	of, err := p.LoadRun(s.Runs[len(s.Runs)-1])
	if err != nil {
		return api.RunView{}, err
	}
	flow := of.Program
	if of.Failed != "" {
		if flow, err = proposal.Truncate(flow, of.Failed); err != nil {
			return api.RunView{}, fault.Failed("proposal_unverifiable", "the run %s cannot be repeated: %v", of.ID, err)
		}
	}
	o := of.Options
	o.Trial, o.Sprite, o.OwnSprite, o.WorkItem = s.ID, "", false, ""
	o.Values = r.Values
	return p.StartRun(ctx, api.RunRequest{Flow: flow, Input: of.Input, Key: trialKey(s), Detach: r.Detach, Options: o})
}

// VerifyAll starts trials for the proposals of a failed run that had none yet.
func (p *Register) VerifyAll(ctx context.Context, run string) {
	all, err := p.Proposals(ctx, api.ProposalList{Run: run, Open: true})
	for _, s := range all {
		if s.Trial == nil && slices.Contains(s.Needs, "verification") {
			_, failed := p.VerifyProposal(ctx, s.ID, api.DriveRequest{Detach: true})
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		p.Logger.Warn().Err(err).Str("run_id", run).Msg("proposals not tried")
	}
}

// trialKey returns the key of the next trial of a proposal, so that asking twice starts one run.
func trialKey(s proposal.State) string {
	last := ""
	if s.Trial != nil {
		last = s.Trial.Run
	}
	sum := sha256.Sum256([]byte(s.ID + " " + last))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// ciTimeout bounds how long a run waits for code hosts to tell of their CI.
const ciTimeout = 10 * time.Second

// checkCI asks the repository's CI about the newest run that made a proposal and pushed, if the proposal lacks such a verdict, and
// records it. It returns the proposal as it is then.
func (p *Register) checkCI(ctx context.Context, s proposal.State) (proposal.State, error) {
	if p.ReadCI == nil || !s.AwaitsCI() || !slices.Contains(s.Needs, "verification") {
		return s, nil
	}
	asked, cancel := context.WithTimeout(ctx, ciTimeout)
	defer cancel()
	for _, run := range slices.Backward(s.Runs) {
		commit, green, ok, err := p.ReadCI(asked, run, s.Repo)
		switch {
		case err != nil:
			return s, err
		case !ok:
			continue
		case s.CI != nil && s.CI.Commit == commit && s.CI.OK == green:
			return s, nil
		}
		if err := p.appendFact(ctx, "", proposal.Fact{Kind: proposal.Checked, ID: s.ID, Run: run, Commit: commit, OK: green}); err != nil {
			return s, err
		}
		return p.findProposal(ctx, s.ID)
	}
	return s, nil
}

// Adjust returns the flow with the accepted changes for the run's repository in it, and notes them in the run's options. A
// trial has the change that it tries, and those that are in its flow already.
func (p *Register) Adjust(ctx context.Context, flow json.RawMessage, o *api.Options) (json.RawMessage, error) {
	if o.Trial == "" {
		o.Environment, o.Domains = nil, nil
	}
	all, err := p.foldNewFacts(ctx)
	if err != nil {
		return nil, err
	}
	for i, s := range all {
		if o.Trial == "" && s.Repo == o.Repo && s.Status == proposal.Pending {
			if all[i], err = p.checkCI(ctx, s); err != nil {
				p.Logger.Warn().Err(err).Str("proposal", s.ID).Msg("CI not read")
			}
		}
	}
	var list []proposal.Adjustment
	for _, s := range all {
		if o.Trial == "" && s.Applies(o.Repo) || o.Trial != "" && s.ID == o.Trial {
			list = append(list, s.Adjustment)
		}
	}
	changed, applied, err := proposal.Apply(flow, list)
	if err != nil {
		return nil, err
	}
	for _, a := range applied {
		o.Environment = append(slices.Clip(o.Environment), a.String())
	}
	if domains := proposal.Domains(list); len(domains) > 0 {
		o.Environment = append(slices.Clip(o.Environment), "let the sprite reach "+strings.Join(domains, " "))
		o.Domains = append(slices.Clip(o.Domains), domains...)
	}
	return changed, nil
}

// Log is the engine's log of one run. It records the proposals among the run's events, and the outcome of a run that tries
// a proposal, before they are appended: after a crash between the two they are recorded again, and count once.
type Log struct {
	driver.Log
	Register *Register
}

// Append records the proposals that entries mention, and appends the entries.
func (l Log) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	for _, e := range entries {
		var err error
		switch {
		case e.Kind == lattice.EntryEvent && e.Type == string(protocol.TypeEnvironmentProposal) && len(e.Problems) == 0 && session.Proposes(e.Flags):
			err = l.Register.takeProposal(ctx, run, e)
		case e.Kind == lattice.EntryState && slices.Contains(e.Flags, lattice.FlagEnded):
			err = l.Register.recordOutcome(ctx, run, e)
		}
		if err != nil {
			return 0, err
		}
	}
	return l.Log.Append(ctx, run, after, entries)
}

// recordOutcome records the outcome of a run that tried a proposal; the entry is the run's last snapshot.
func (p *Register) recordOutcome(ctx context.Context, run string, e lattice.Entry) error {
	o, err := p.OptionsOf(run)
	if err != nil || o.Trial == "" {
		return err
	}
	rest, err := history.ReadRest(e)
	if err != nil {
		return err
	}
	if rest.Status == lattice.Canceled {
		return nil // it says nothing about the change
	}
	s, err := p.findProposal(ctx, o.Trial)
	if err != nil || s.Trial != nil && s.Trial.Run == run {
		return err
	}
	f := proposal.Fact{Kind: proposal.Tried, ID: s.ID, Run: run, OK: rest.Status == lattice.Succeeded}
	if rest.Failure != nil {
		f.Detail = rest.Failure.Message
	}
	return p.appendFact(ctx, "proposal tried:"+run, f)
}

// refuseProposal records that a proposal was refused, and says so in the run's log. A run has at most maxPerRun such entries.
func (p *Register) refuseProposal(ctx context.Context, run string, e lattice.Entry, code, reason string) error {
	fmt.Fprintf(p.OutputOf(run), "proposal refused: %s\n", reason)
	entries := 0
	err := p.Facts.AuditEntries(ctx, audit.Run(run), 0, func(e audit.Entry) error {
		if e.Kind == audit.ProposalRefused {
			entries++
		}
		return nil
	})
	if err != nil || entries >= maxPerRun {
		return err
	}
	body := map[string]string{"call_id": e.CallID, "code": code, "reason": text.Head(reason, 300)}
	_, err = p.Facts.AddFact(ctx, audit.Entry{Kind: audit.ProposalRefused, Subject: audit.Run(run), Key: "proposal-refused:" + run + ":" + e.Dedupe}, body, store.Any)
	return err
}

// takeProposal records a proposal, or refuses it.
func (p *Register) takeProposal(ctx context.Context, run string, e lattice.Entry) error {
	var event struct {
		Payload json.RawMessage `json:"payload"`
	}
	err := json.Unmarshal(e.Body, &event)
	if err != nil {
		return nil // the event has a problem, which its entry names
	}
	opened, err := protocol.Event{Type: protocol.TypeEnvironmentProposal, Payload: event.Payload}.Open()
	if err != nil {
		return nil
	}
	made := opened.(protocol.EnvironmentProposal)
	if _, err := proposal.Parse(made.SuggestedAdjustment); err != nil {
		return p.refuseProposal(ctx, run, e, "bad_proposal", err.Error())
	}
	o, err := p.OptionsOf(run)
	if err != nil {
		return fmt.Errorf("record a proposal of %s: %w", run, err)
	}
	all, err := p.foldNewFacts(ctx)
	if err != nil {
		return err
	}
	id, count := proposal.ID(o.Repo, made), 0
	for _, s := range all {
		if slices.Contains(s.Runs, run) {
			count++
		}
	}
	if count >= maxPerRun {
		return p.refuseProposal(ctx, run, e, "too_many_proposals", fmt.Sprintf("a run makes at most %d", maxPerRun))
	}
	if o.Trial == id {
		return nil // the trial of a change may make the proposal again
	}
	err = p.appendFact(ctx, "proposed:"+run+":"+e.Dedupe, proposal.Fact{Kind: proposal.Proposed, ID: id, Repo: o.Repo, Run: run, Proposal: &made})
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		return fmt.Errorf("record a proposal of %s: %w", run, err)
	}
	return nil
}
