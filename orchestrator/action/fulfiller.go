// Package action decides about the external effects that sprites ask for, and performs them outside (DESIGN 18-21).
// Start with Fulfiller: Inspect turns a request into a verdict and a binding, Do performs the bound action.
//
//	judge     asks package policy which actions are allowed, asked about or denied
//	parameters  the actions, and their parameters
//	target      the repository of an action
//	key       makes doing an action twice the same as doing it once
//	parts     actions of several repositories
//	publish     the actions at a code host
//	note        the signed statements that go with a push
//	binding   the content that an approval covers; Do refuses when the world no longer matches it
//
// Everything in a request is hostile. Parameters are decoded strictly, the call's own grant is checked, files are
// fetched from one folder of the sprite with a limit and a digest, and a bundle is verified by package worktree before
// a person ever sees it. A request that cannot be granted is a Deny with "code: reason", never an error; an error means
// "could not find out" and leaves the request open. OPEN_PR, POST_COMMENT and LABEL_ISSUE are performed if lattice is
// connected to the code host of the repository; else a person performs them.
package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Files reads a file of a sprite from an offset in bytes. An error that matches fs.ErrNotExist means that there is no
// such file; any other, that it could not be read now. The caller closes the reader.
type Files interface {
	ReadFrom(ctx context.Context, sprite, path string, offset int64) (io.ReadCloser, error)
}

// Pusher verifies and performs pushes; see package worktree. All methods are safe to repeat.
type Pusher interface {
	Inspect(ctx context.Context, q worktree.Request) (worktree.Push, error)
	Push(ctx context.Context, p worktree.Push) (worktree.PushResult, error)
	Patch(ctx context.Context, q worktree.Request) (worktree.Patch, error)
}

// Options configures New. All but PolicyOf and MaxBundle are required.
type Options struct {
	Git   Pusher
	Files Files
	// RepoOf returns the repository that a run works on (URL or absolute path), and the name under which its branch
	// lattice/<name> lands in a local one. ok is false when the run has none.
	RepoOf func(runID string) (spec, name string, ok bool)
	// AgentEnv returns the names of the environment variables that a run's agent gets; git does not. It may be nil.
	AgentEnv func(runID string) []string
	Dir      string // where verified bundles are kept
	// Secrets returns values that no proposal of a run may hold, by the names under which they are reported. It may be nil.
	Secrets func(runID string) map[string]string
	// Notify sends the message of a NOTIFY_USER; nil only shows it with the run.
	Notify func(a lattice.Action) error
	// Credentials grants leases of secrets; nil: there are no secrets.
	Credentials Credentials
	// Publisher performs actions at code hosts; nil: there are no code hosts.
	Publisher Publisher
	// PolicyOf returns the policy that holds for a run; nil: the default. An error means that it could not be read.
	PolicyOf func(ctx context.Context, runID string) (policy.Policy, error)
	// Before returns how many other actions of a name a run has asked for that were not denied; nil: none.
	Before func(runID, name, key string) (int, error)
	// Planned reports whether people approved a plan that names an action, for a run; nil: never.
	Planned func(runID, name string) (bool, error)
	// Statement returns the newest signed statement of a run about a commit, or the one with a digest if that is not "". It may be nil:
	// there are none.
	Statement func(ctx context.Context, runID, commit, digest string) (s lattice.Attested, ok bool, err error)
	// Record records a judged action before anything else learns of it; nil: nothing.
	Record    func(ctx context.Context, j Judged) error
	MaxBundle int64 // bytes; 0 = 512 MiB
}

// Credentials grants leases. Its refusals are of type *lattice.Refusal.
type Credentials interface {
	// Check refuses a request that cannot be granted.
	Check(p protocol.FetchCredential) error
	// Grant makes the lease, once for each key of an action, and returns its reference as JSON.
	Grant(ctx context.Context, a lattice.Action, p protocol.FetchCredential) ([]byte, error)
}

// noCredentials is where there are no secrets.
type noCredentials struct{}

func (noCredentials) Check(p protocol.FetchCredential) error {
	return newRefusal("secret_unknown", "add [secrets.NAME] to the settings", "the settings have no secret %.64q", p.Name)
}

func (c noCredentials) Grant(_ context.Context, _ lattice.Action, p protocol.FetchCredential) ([]byte, error) {
	return nil, c.Check(p)
}

// Judged is an action with the decision about it.
type Judged struct {
	Action   lattice.Action
	Verdict  policy.Verdict  // of the policy
	Decision lattice.Verdict // Verdict's, or a stricter one
	Reason   string          // of a denial, as "code: message"
}

// Fulfiller answers and performs actions. It is safe for concurrent use.
type Fulfiller struct {
	git      Pusher
	repoOf   func(string) (string, string, bool)
	hidden   func(string) []string
	secrets  func(string) map[string]string
	notify   func(lattice.Action) error
	policyOf func(context.Context, string) (policy.Policy, error)
	before   func(runID, name, key string) (int, error)
	planned  func(runID, name string) (bool, error)
	record   func(context.Context, Judged) error
	attested func(ctx context.Context, runID, commit, digest string) (lattice.Attested, bool, error)
	leases   Credentials
	bundles  bundles

	publisher Publisher
}

// New makes a Fulfiller.
func New(o Options) *Fulfiller {
	if o.PolicyOf == nil {
		o.PolicyOf = func(context.Context, string) (policy.Policy, error) { return policy.New(""), nil }
	}
	if o.MaxBundle <= 0 {
		o.MaxBundle = 512 << 20
	}
	if o.AgentEnv == nil {
		o.AgentEnv = func(string) []string { return nil }
	}
	if o.Secrets == nil {
		o.Secrets = func(string) map[string]string { return nil }
	}
	if o.Before == nil {
		o.Before = func(string, string, string) (int, error) { return 0, nil }
	}
	if o.Planned == nil {
		o.Planned = func(string, string) (bool, error) { return false, nil }
	}
	if o.Record == nil {
		o.Record = func(context.Context, Judged) error { return nil }
	}
	if o.Statement == nil {
		o.Statement = func(context.Context, string, string, string) (lattice.Attested, bool, error) {
			return lattice.Attested{}, false, nil
		}
	}
	if o.Notify == nil {
		o.Notify = func(lattice.Action) error { return nil }
	}
	if o.Credentials == nil {
		o.Credentials = noCredentials{}
	}
	if o.Publisher == nil {
		o.Publisher = noPublisher{}
	}
	return &Fulfiller{publisher: o.Publisher, leases: o.Credentials, git: o.Git, repoOf: o.RepoOf, hidden: o.AgentEnv, secrets: o.Secrets, notify: o.Notify, policyOf: o.PolicyOf, before: o.Before, planned: o.Planned, record: o.Record, attested: o.Statement, bundles: bundles{files: o.Files, dir: o.Dir, limit: o.MaxBundle}}
}

// Binding is the content that an approval of PUSH_BRANCH or OPEN_PR binds: remote, branch, base, head and diff digest (in Push), by
// way of one bundle. Old is the destination's value that the push will replace. OPEN_PR has a place as well, and the other
// actions at a code host have only that. For the further repositories of an action see [Parts].
type Binding struct {
	worktree.Push
	Placed
	Bundle string `json:"bundle"` // path of the verified copy
	SHA256 string `json:"sha256"`
	// Statement is the sha256 of the signed statement about Head that is pushed as a git note, "" for none.
	Statement string `json:"statement,omitempty"`
}

// Result is the outcome of PUSH_BRANCH.
type Result struct {
	Ref    string              `json:"ref"`
	Branch string              `json:"branch"`
	Head   string              `json:"head"`
	Old    string              `json:"old"`
	Status worktree.PushStatus `json:"status"`
	URL    string              `json:"url"`
}

// Inspect examines action a and returns a verdict. The returned action has Key and, unless denied, Binding set. The
// string is the reason of a denial, as "code: message".
func (f *Fulfiller) Inspect(ctx context.Context, c lattice.Call, a lattice.Action) (lattice.Action, lattice.Verdict, string, error) {
	j, err := f.judge(ctx, c, a)
	if err == nil {
		err = f.record(ctx, j)
	}
	if err != nil {
		return j.Action, "", "", fmt.Errorf("inspect %s: %w", a.Name, err)
	}
	return j.Action, j.Decision, j.Reason, nil
}

// judgePart judges an action of one repository, before which the request has others of its name.
func (f *Fulfiller) judgePart(ctx context.Context, c lattice.Call, a lattice.Action, before int) (Judged, error) {
	a.Key = Key(a.CallID, a.Name, a.Parameters)
	known := secret.NewKnown(f.secrets(a.RunID))
	rules, verdict, err := f.checkRequest(ctx, c, a, before)
	if name := known.FindIn(string(a.Parameters)); err == nil && name != "" {
		err = secretInChange(name, "its parameters")
	}
	if err == nil {
		err = checkTexts(a.Parameters)
	}
	decision := verdict.Decision
	var hidden invisible
	if err == nil {
		hidden.lookInParameters(a.Parameters)
		a.Binding, err = bindWarnings(hidden.warnings())
	}
	switch {
	case err != nil:
	case a.Name == protocol.ActionFetchCredential:
		_, err = f.decodeCredential(a)
	case a.Name == protocol.ActionPushBranch, AtForge(a.Name):
		connected := true
		if AtForge(a.Name) {
			a, connected, err = f.bindPlace(ctx, a, hidden.warnings())
		}
		ask := len(hidden.places) > 0
		switch {
		case err != nil:
		case !connected:
			a.ByHand, ask = true, true // lattice cannot perform it, so a person has to, even if the policy allows it
		case a.Name == protocol.ActionPushBranch, a.Name == protocol.ActionOpenPR:
			a, err = f.bindPush(ctx, a, review(reviewSecrets(known, &hidden, &ask), rules, &ask))
			if err == nil && verdict.Notes {
				a, err = f.bindStatement(ctx, a, known)
			}
		}
		if ask {
			decision = lattice.Ask
		}
	}
	if err == nil && verdict.Staged {
		err = newRefusal("staged", "the rule is "+verdict.Rule.String(), "the policy stages %s: it is shown and not performed", a.Name)
	}
	j := Judged{Action: a, Verdict: verdict, Decision: decision}
	if no, ok := errors.AsType[*lattice.Refusal](err); ok {
		j.Decision, j.Reason, j.Action.Binding, err = lattice.Deny, formatRefusal(no), nil, nil
	}
	return j, err
}

// checkRequest is the part of Inspect that needs only the request.
func (f *Fulfiller) checkRequest(ctx context.Context, c lattice.Call, a lattice.Action, before int) (policy.Policy, policy.Verdict, error) {
	// A request of a skill that an agent calls counts as the agent's, and is checked against the grants of its skills.
	kind, known := kinds[a.Name]
	needed := kind.permission
	if known && !isGranted(c.Permissions, needed) && !isGranted(c.Below, needed) {
		hint := fmt.Sprintf("add %q to permissions in the skill.json of %s; a run that names its permissions needs --allow %s, too", needed, c.Skill, needed)
		if c.Below != nil { // an agent may use the grants of the run
			hint = "start the run with --allow " + needed
		}
		return policy.Policy{}, policy.Verdict{}, newRefusal("permission_denied", hint, "%s needs the permission %s, which this call was not granted", a.Name, needed)
	}
	var invalid error
	if known {
		invalid = checkParameters(a.Name, a.Parameters)
	}
	rules, v, err := f.askPolicy(ctx, a, before)
	switch {
	case err == nil && !known:
		err = newRefusal("unsupported", "", "the action %.64q is not supported", a.Name)
	case err == nil:
		err = invalid
	}
	return rules, v, err
}

// decodeCredential reads the parameters of a FETCH_CREDENTIAL, whose form was checked, and checks them against the settings.
func (f *Fulfiller) decodeCredential(a lattice.Action) (p protocol.FetchCredential, err error) {
	if err := json.Unmarshal(a.Parameters, &p); err != nil {
		return p, badParameters(a.Name, err)
	}
	return p, f.leases.Check(p)
}

// bindPush fetches and verifies the bundle of an action and describes the effect of pushing it. A place that the action is
// bound to stays.
func (f *Fulfiller) bindPush(ctx context.Context, a lattice.Action, review func(context.Context, worktree.Content) ([]string, error)) (lattice.Action, error) {
	params, err := pushOf(a)
	if err != nil {
		return a, badParameters(a.Name, err)
	}
	spec, run, err := f.targetOf(a)
	if err != nil {
		return a, err
	}
	bundle, err := f.bundles.fetchBundle(ctx, a.Sprite, params.Bundle, params.SHA256)
	if err != nil {
		return a, err
	}
	push, err := f.git.Inspect(ctx, worktree.Request{Repo: spec, Run: run, Bundle: bundle, Branch: params.Branch, Base: params.Base, Head: params.Head, Review: review})
	if err != nil {
		return a, err
	}
	bound := Binding{Push: push, Bundle: bundle, SHA256: params.SHA256}
	if a.Name == protocol.ActionPushBranch {
		a.Key = pushKey(params, push.Base, push.Head)
	} else if err := json.Unmarshal(a.Binding, &bound.Placed); err != nil {
		return a, fmt.Errorf("read the place of the action: %w", err)
	}
	a.Binding, err = json.Marshal(bound)
	if err != nil {
		return a, fmt.Errorf("write the binding: %w", err)
	}
	return a, nil
}

// Do performs an action that was approved or allowed. It inspects it again: a difference from the binding is refused with
// the code binding_changed. Doing it again after a crash finds the work done. The result is a Result as JSON; a
// *lattice.Refusal is the action's failure, any other error means that it could not be found out and may be repeated.
func (f *Fulfiller) Do(ctx context.Context, a lattice.Action) ([]byte, error) {
	return f.DoParts(ctx, a, f.doPart)
}

// doPart performs an action of one repository.
func (f *Fulfiller) doPart(ctx context.Context, a lattice.Action) ([]byte, error) {
	if a.Name == protocol.ActionNotifyUser {
		return []byte(`{"shown":true}`), f.notify(a) // the leader notes it with the run, where people see it
	}
	if a.Name == protocol.ActionUseTool {
		p, err := decodeParameters[protocol.UseTool](a.Parameters)
		if err != nil {
			return nil, badParameters(a.Name, err)
		}
		return json.Marshal(protocol.ToolAllowed{SHA256: p.SHA256}) // agent.run tells the agent
	}
	if a.Name == protocol.ActionFetchCredential {
		params, err := f.decodeCredential(a)
		if err != nil {
			return nil, err
		}
		return f.leases.Grant(ctx, a, params)
	}
	if a.Name != protocol.ActionPushBranch {
		return f.publishAction(ctx, a)
	}
	done, err := f.pushBound(ctx, a)
	if err != nil {
		return nil, err
	}
	return json.Marshal(done)
}

// boundPush returns the push that an action of one repository is bound to.
func (f *Fulfiller) boundPush(ctx context.Context, a lattice.Action) (worktree.Push, error) {
	params, err := pushOf(a)
	if err != nil {
		return worktree.Push{}, badParameters(a.Name, err)
	}
	var bound Binding
	if err := json.Unmarshal(a.Binding, &bound); err != nil {
		return worktree.Push{}, newRefusal("binding_changed", "ask for the action again", "the action has no binding that can be read")
	}
	if bound.SHA256 != params.SHA256 || bound.Base != params.Base || (params.Head != "" && bound.Head != params.Head) {
		return worktree.Push{}, newRefusal("binding_changed", "ask for the action again", "the action's parameters are not those that were approved")
	}
	spec, run, err := f.targetOf(a)
	if err != nil {
		return worktree.Push{}, err
	}
	if err := f.bundles.verifyCopy(params.SHA256); err != nil {
		return worktree.Push{}, err
	}
	push := bound.Push
	push.Request = worktree.Request{Repo: spec, Run: run, Bundle: f.bundles.bundlePath(params.SHA256), Branch: params.Branch, Base: params.Base, Head: bound.Head, Hide: f.hidden(a.RunID)}
	push.Note, err = f.boundNote(ctx, a.RunID, bound)
	return push, err
}

// pushBound pushes the commits that an action is bound to.
func (f *Fulfiller) pushBound(ctx context.Context, a lattice.Action) (Result, error) {
	push, err := f.boundPush(ctx, a)
	if err != nil {
		return Result{}, err
	}
	done, err := f.git.Push(ctx, push)
	if err != nil {
		return Result{}, err
	}
	return Result{Ref: done.Ref, Branch: push.Branch, Head: done.New, Old: done.Old, Status: done.Status, URL: done.URL}, nil
}

// targetOf returns the repository that a push is for, and the name under which its branch lands in a local one.
func (f *Fulfiller) targetOf(a lattice.Action) (spec, run string, err error) {
	own, run, ok := f.repoOf(a.RunID)
	if !ok {
		own, run = "", a.RunID
	}
	spec, foreign := Target(a.Parameters, own)
	switch {
	case spec == "":
		return "", "", newRefusal("no_repository", "start the run with --repo URL|PATH", "the run has no repository to push to")
	case foreign:
		return spec, run, checkTarget(spec)
	}
	return spec, run, nil
}

// Pushes reports whether an action that was inspected pushes commits.
func Pushes(a lattice.Action) bool {
	var bound Binding
	return json.Unmarshal(a.Binding, &bound) == nil && bound.SHA256 != ""
}

// Patch returns the content of the push that a is bound to, of several repositories each behind a line that names it.
func (f *Fulfiller) Patch(ctx context.Context, a lattice.Action) (worktree.Patch, error) {
	parts := Parts(a)
	if len(parts) == 1 {
		return f.patchPart(ctx, a)
	}
	var whole worktree.Patch
	for i, part := range parts {
		p, err := f.patchPart(ctx, part)
		if err != nil {
			return worktree.Patch{}, err
		}
		whole.Text += fmt.Sprintf("# %d of %d: %s\n%s", i+1, len(parts), worktree.DisplayName(destinationOf(part)), p.Text)
		whole.Cut = whole.Cut || p.Cut
	}
	return whole, nil
}

func (f *Fulfiller) patchPart(ctx context.Context, a lattice.Action) (worktree.Patch, error) {
	var bound Binding
	if json.Unmarshal(a.Binding, &bound) != nil || bound.SHA256 == "" {
		return worktree.Patch{}, newRefusal("no_patch", "", "%.64s changes no files", a.Name)
	}
	spec, run, err := f.targetOf(a)
	if err != nil {
		return worktree.Patch{}, err
	}
	if err := f.bundles.verifyCopy(bound.SHA256); err != nil {
		return worktree.Patch{}, err
	}
	return f.git.Patch(ctx, worktree.Request{Repo: spec, Run: run, Bundle: f.bundles.bundlePath(bound.SHA256), Branch: bound.Branch, Base: bound.Base, Head: bound.Head})
}

// formatRefusal returns a refusal as "code: message; hint".
func formatRefusal(r *lattice.Refusal) string {
	s := r.Fault.Code + ": " + r.Fault.Message
	if r.Fault.Hint != "" {
		s += "; " + r.Fault.Hint
	}
	return s
}

// askPolicy asks the policy of a run about an action, before which the same request has more of its name.
func (f *Fulfiller) askPolicy(ctx context.Context, a lattice.Action, more int) (policy.Policy, policy.Verdict, error) {
	p, err := f.policyOf(ctx, a.RunID)
	if err != nil {
		return p, policy.Verdict{}, err
	}
	before, err := f.before(a.RunID, a.Name, a.Key)
	if err != nil {
		return p, policy.Verdict{}, err
	}
	planned, err := f.planned(a.RunID, a.Name)
	if err != nil {
		return p, policy.Verdict{}, err
	}
	own, _, ok := f.repoOf(a.RunID)
	if !ok {
		own = ""
	}
	q := RequestOf(a, own)
	q.Before, q.Planned = before+more, planned && !q.Foreign // a plan is about the repository of the run
	v := p.Action(q)
	return p, v, refusalOf(a.Name, v)
}
