package action

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// spriteFiles is a sprite's file system: content by path.
type spriteFiles map[string][]byte

func (s spriteFiles) ReadFrom(_ context.Context, _, path string, offset int64) (io.ReadCloser, error) {
	b, ok := s[path]
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	return io.NopCloser(bytes.NewReader(b[offset:])), nil
}

// fixture is a bare origin, a commit in a sprite, and a Fulfiller between them.
type fixture struct {
	t          *testing.T
	dir        string
	env        []string
	files      spriteFiles
	opts       Options
	base, head string
	params     protocol.PushBranch
}

const bundlePath = "/workspace/.lattice/out/fix.bundle"

// pattern is a folder with the repositories of a new fixture, which are made once.
var pattern string

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(pattern)
	os.Exit(code)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{t: t, dir: dir, files: spriteFiles{}, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org"}}
	if pattern == "" {
		f.makeRepositories()
	} else if err := os.CopyFS(dir, os.DirFS(pattern)); err != nil {
		t.Fatal(err)
	}
	f.base = f.git("sprite", "rev-parse", "fix^")
	f.bundle()
	git, err := worktree.New(worktree.Options{Env: f.env, Scratch: filepath.Join(dir, "scratch")})
	if err != nil {
		t.Fatal(err)
	}
	f.opts = Options{Git: git, Files: f.files, Dir: filepath.Join(dir, "bundles"), RepoOf: func(run string) (string, string, bool) {
		return f.url(), "r1", run == "run1"
	}}
	return f
}

// makeRepositories makes the bare origin and the commit in the sprite, and keeps a copy for the next fixtures.
func (f *fixture) makeRepositories() {
	f.t.Helper()
	f.git(".", "init", "-q", "-b", "main", "sprite")
	f.git("sprite", "commit", "-q", "--allow-empty", "-m", "first")
	f.git(".", "clone", "-q", "--bare", "sprite", "origin.git")
	f.git("sprite", "checkout", "-q", "-b", "fix")
	err := os.WriteFile(filepath.Join(f.dir, "sprite", "fix.txt"), []byte("fixed\n"), 0o644)
	f.git("sprite", "add", "-A")
	f.git("sprite", "commit", "-q", "-m", "fix it")
	if err == nil {
		pattern, err = os.MkdirTemp("", "action-")
	}
	if err == nil {
		err = os.CopyFS(pattern, os.DirFS(f.dir))
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// bundle makes what is on the branch what the sprite asks to push.
func (f *fixture) bundle() {
	f.t.Helper()
	f.head = f.git("sprite", "rev-parse", "HEAD")
	f.git("sprite", "bundle", "create", "-q", "../fix.bundle", f.base+"..fix")
	b, err := os.ReadFile(filepath.Join(f.dir, "fix.bundle"))
	if err != nil {
		f.t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	f.files[bundlePath] = b
	f.params = protocol.PushBranch{Branch: "fix", Base: f.base, Head: f.head, Bundle: bundlePath, SHA256: hex.EncodeToString(sum[:]), Title: "Fix it"}
}

// policy sets the server's policy.
func (f *fixture) policy(text string) {
	f.t.Helper()
	layer, findings := policy.Parse("policy.toml", []byte(text))
	if len(findings) > 0 {
		f.t.Fatal(findings)
	}
	f.opts.PolicyOf = func(context.Context, string) (policy.Policy, error) { return policy.New("", layer), nil }
}

// fulfiller is a new one each time, as after a restart.
func (f *fixture) fulfiller() *Fulfiller { return New(f.opts) }

// statement is a signed statement with a report.
func statement(report string) lattice.Attested {
	payload, _ := json.Marshal([]byte(report))
	return lattice.Attested{Statement: "5e", Envelope: json.RawMessage(`{"payload":` + string(payload) + `}`)}
}

// TestPushWithStatement: a push takes the statement about its commit along if the policy says so, and the approval names it. A report
// with a secret is refused, and so is a statement that is gone.
func TestPushWithStatement(t *testing.T) {
	f := newFixture(t)
	var known []lattice.Attested
	f.opts.Statement = func(_ context.Context, run, commit, digest string) (lattice.Attested, bool, error) {
		for _, s := range known {
			if run == "run1" && commit == f.head && (digest == "" || s.Statement == digest) {
				return s, true, nil
			}
		}
		return lattice.Attested{}, false, nil
	}
	f.opts.Secrets = func(string) map[string]string { return map[string]string{"TOKEN": "hunter2-hunter2"} }
	bound := func(policy string) (lattice.Action, string, string) {
		t.Helper()
		f.policy(policy)
		a, _, why, err := f.fulfiller().Inspect(t.Context(), call, f.action())
		if err != nil {
			t.Fatal(err)
		}
		var b Binding
		_ = json.Unmarshal(a.Binding, &b) // a denied action has none
		return a, b.Statement, why
	}
	notes := "actions.PUSH_BRANCH.notes = true"
	if _, got, why := bound(notes); got != "" || why != "" {
		t.Errorf("without a statement the push is bound to %q, %s", got, why)
	}
	known = []lattice.Attested{statement("hunter2-hunter2")}
	if _, _, why := bound(notes); !strings.HasPrefix(why, "secret_in_change: ") {
		t.Errorf("a report with a secret: %q", why)
	}
	known = []lattice.Attested{statement("{}")}
	if _, got, why := bound(""); got != "" || why != "" {
		t.Errorf("without the policy the push is bound to %q, %s", got, why)
	}
	a, got, why := bound(notes)
	if got != "5e" || why != "" {
		t.Fatalf("the push is bound to %q, %s", got, why)
	}
	said := known
	known = nil
	if _, err := f.fulfiller().Do(t.Context(), a); err == nil || !strings.Contains(err.Error(), "no statement") {
		t.Errorf("Do without the statement: %v", err)
	}
	known = said
	if _, err := f.fulfiller().Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := f.git("origin.git", "notes", "--ref=lattice", "show", f.head); got != string(said[0].Envelope) {
		t.Errorf("the note is %s", got)
	}

	// A pull request pushes its branch in the same way.
	f.git("origin.git", "update-ref", "-d", "refs/notes/lattice")
	f.git("origin.git", "update-ref", "-d", "refs/heads/fix")
	f.policy("actions.OPEN_PR.notes = true")
	f.opts.Publisher = atHost{}
	pull, err := json.Marshal(protocol.OpenPR{Title: "t", Base: "main", Head: "fix", BaseSHA: f.base, HeadSHA: f.head, Bundle: bundlePath, SHA256: f.params.SHA256})
	if err != nil {
		t.Fatal(err)
	}
	open := f.action()
	open.Name, open.Parameters = protocol.ActionOpenPR, pull
	open, _, why, err = f.fulfiller().Inspect(t.Context(), lattice.Call{ID: "call1", RunID: "run1", Permissions: []string{"*"}}, open)
	if err != nil || why != "" {
		t.Fatalf("Inspect of a pull request: %s %v", why, err)
	}
	if _, err := f.fulfiller().Do(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	if got := f.git("origin.git", "notes", "--ref=lattice", "show", "fix"); got != string(said[0].Envelope) {
		t.Errorf("the note of a pull request is %s", got)
	}
}

// atHost is a code host that opens pull requests.
type atHost struct{ noPublisher }

func (atHost) Find(context.Context, string) (forge.Place, bool, error) {
	return forge.Place{Forge: "main", DefaultBranch: "main"}, true, nil
}

func (atHost) OpenPull(context.Context, forge.Place, string, forge.NewPull) (forge.Published, error) {
	return forge.Published{Status: forge.Opened, Number: 1}, nil
}

func (f *fixture) url() string { return "file://" + filepath.Join(f.dir, "origin.git") }

func (f *fixture) git(dir string, args ...string) string {
	f.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = filepath.Join(f.dir, dir), f.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (f *fixture) action() lattice.Action {
	raw, err := json.Marshal(f.params)
	if err != nil {
		f.t.Fatal(err)
	}
	return lattice.Action{RunID: "run1", CallID: "call1", Sprite: "s1", Name: protocol.ActionPushBranch, Parameters: raw}
}

var call = lattice.Call{ID: "call1", RunID: "run1", Permissions: []string{"git:read"}}

func TestPushBranch(t *testing.T) {
	f := newFixture(t)
	ful := f.fulfiller()
	a, verdict, why, err := ful.Inspect(t.Context(), call, f.action())
	if err != nil || verdict != lattice.Ask || why != "" {
		t.Fatalf("Inspect = %s %q %v, want ask", verdict, why, err)
	}
	var members map[string]any
	if err := json.Unmarshal(a.Binding, &members); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"remote": f.url(), "branch": "fix", "base": f.base, "head": f.head, "old": "",
		"bundle": filepath.Join(f.opts.Dir, f.params.SHA256+".bundle"), "stat": "1 files changed, 1 insertions(+), 0 deletions(-)"} {
		if members[name] != want {
			t.Errorf("binding %s = %v, want %v", name, members[name], want)
		}
	}
	for _, name := range []string{"diff_digest", "files", "commits"} {
		if members[name] == nil {
			t.Errorf("binding has no %s: %s", name, a.Binding)
		}
	}
	// The sprite may be gone, and lattice may have been restarted.
	clear(f.files)
	for _, status := range []worktree.PushStatus{worktree.Pushed, worktree.AlreadyThere} {
		raw, err := f.fulfiller().Do(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		var got Result
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		want := Result{Ref: "refs/heads/fix", Branch: "fix", Head: f.head, Status: status, URL: f.url()}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("Do (-want +got):\n%s", d)
		}
	}
	if got := f.git("origin.git", "rev-parse", "fix"); got != f.head {
		t.Errorf("origin has fix at %s, want %s", got, f.head)
	}
	left, err := filepath.Glob(filepath.Join(f.opts.Dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("kept %q %v, want the one bundle", left, err)
	}
}

// What nothing here can do waits for a person who can, if the call may ask for it.
func TestByHand(t *testing.T) {
	f := newFixture(t)
	for name, parameters := range map[string]string{protocol.ActionOpenPR: `{"title":"t","body":"","base":"main","head":"fix"}`,
		protocol.ActionPostComment: `{"number":7,"body":"b"}`, protocol.ActionLabelIssue: `{"number":7,"labels":["bug"]}`} {
		a, c := f.action(), call
		a.Name, a.Parameters = name, json.RawMessage(parameters)
		if _, verdict, why, err := f.fulfiller().Inspect(t.Context(), c, a); err != nil || verdict != lattice.Deny || !strings.HasPrefix(why, "permission_denied: ") {
			t.Errorf("%s without github:write: %s %q %v, want deny", name, verdict, why, err)
		}
		c.Permissions = []string{"github:write"}
		got, verdict, why, err := f.fulfiller().Inspect(t.Context(), c, a)
		if err != nil || verdict != lattice.Ask || why != "" || !got.ByHand || got.Key == "" {
			t.Errorf("%s: %+v %s %q %v, want it asked for by hand", name, got, verdict, why, err)
		}
		var refused *lattice.Refusal
		if _, err := f.fulfiller().Do(t.Context(), got); !errors.As(err, &refused) {
			t.Errorf("Do %s = %v, want a refusal", name, err)
		}
	}
}

// What an agent's skill asks for is judged by what the skills below the agent's call may be granted.
func TestAskedBelow(t *testing.T) {
	f := newFixture(t)
	agent := lattice.Call{ID: "call1", RunID: "run1", Permissions: []string{"agent:run"}, Below: []string{"agent:run", "git:read"}}
	if a, verdict, why, err := f.fulfiller().Inspect(t.Context(), agent, f.action()); err != nil || verdict != lattice.Ask || a.Binding == nil {
		t.Errorf("Inspect = %s %q %v, want it asked about", verdict, why, err)
	}
}

// Whatever is wrong with a request, the answer is a denial with a reason, and the origin stays as it is.
func TestDenied(t *testing.T) {
	f := newFixture(t)
	refs := f.git("origin.git", "for-each-ref")
	with := func(change func(*protocol.PushBranch)) func(*lattice.Action, *lattice.Call) {
		return func(a *lattice.Action, _ *lattice.Call) {
			p := f.params
			change(&p)
			raw, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			a.Parameters = raw
		}
	}
	raw := func(s string) func(*lattice.Action, *lattice.Call) {
		return func(a *lattice.Action, _ *lattice.Call) { a.Parameters = json.RawMessage(s) }
	}
	named := func(s string) func(*lattice.Action, *lattice.Call) {
		return func(a *lattice.Action, c *lattice.Call) { a.Name = s; c.Permissions = []string{"*"} }
	}
	at := func(p string) func(*lattice.Action, *lattice.Call) {
		return with(func(b *protocol.PushBranch) { b.Bundle = p })
	}
	f.files["/workspace/.lattice/out/other"] = []byte("something else")
	tests := map[string]struct {
		change func(*lattice.Action, *lattice.Call)
		code   string
	}{
		"no grant": {func(_ *lattice.Action, c *lattice.Call) { c.Permissions = []string{"git:write", "git:push"} }, "permission_denied"},
		"no grant below": {func(_ *lattice.Action, c *lattice.Call) {
			c.Permissions, c.Below = []string{"agent:run"}, []string{"agent:run", "git:write"}
		}, "permission_denied"},
		"empty grant":       {func(_ *lattice.Action, c *lattice.Call) { c.Permissions = nil }, "permission_denied"},
		"no repository":     {func(a *lattice.Action, _ *lattice.Call) { a.RunID = "run2" }, "no_repository"},
		"no parameters":     {raw(``), "bad_parameters"},
		"null":              {raw(`null`), "bad_parameters"},
		"list":              {raw(`[]`), "bad_parameters"},
		"unknown member":    {raw(`{"branch":"fix","force":true}`), "bad_parameters"},
		"two values":        {raw(`{"branch":"fix"} {}`), "bad_parameters"},
		"wrong type":        {raw(`{"branch":7}`), "bad_parameters"},
		"no branch":         {with(func(p *protocol.PushBranch) { p.Branch = "" }), "bad_parameters"},
		"no digest":         {with(func(p *protocol.PushBranch) { p.SHA256 = "" }), "bad_parameters"},
		"digest as path":    {with(func(p *protocol.PushBranch) { p.SHA256 = "../../../../etc/passwd" }), "bad_parameters"},
		"upper-case digest": {with(func(p *protocol.PushBranch) { p.SHA256 = strings.ToUpper(p.SHA256) }), "bad_parameters"},
		"other digest":      {with(func(p *protocol.PushBranch) { p.SHA256 = strings.Repeat("0", 64) }), "digest_mismatch"},
		"other file": {with(func(p *protocol.PushBranch) {
			p.Bundle = "/workspace/.lattice/out/other"
			p.SHA256 = strings.Repeat("1", 64)
		}), "digest_mismatch"},
		"no such file":         {with(func(p *protocol.PushBranch) { p.Bundle += "x"; p.SHA256 = strings.Repeat("1", 64) }), "bundle_missing"},
		"file elsewhere":       {at("/etc/passwd"), "bad_bundle_path"},
		"relative path":        {at("fix.bundle"), "bad_bundle_path"},
		"path with dots":       {at("/workspace/.lattice/out/../../../etc/passwd"), "bad_bundle_path"},
		"path not clean":       {at("/workspace/.lattice/out//fix.bundle"), "bad_bundle_path"},
		"the folder":           {at("/workspace/.lattice/out/"), "bad_bundle_path"},
		"path with line break": {at("/workspace/.lattice/out/a\nb"), "bad_bundle_path"},
		"protected branch":     {with(func(p *protocol.PushBranch) { p.Branch = "main" }), "protected_branch"},
		"option as branch":     {with(func(p *protocol.PushBranch) { p.Branch = "--mirror" }), "bad_branch"},
		"other head":           {with(func(p *protocol.PushBranch) { p.Head = f.base }), "head_mismatch"},
		"unknown base":         {with(func(p *protocol.PushBranch) { p.Base = strings.Repeat("a", 40) }), "unknown_base"},
		"credential":           {named(protocol.ActionFetchCredential), "denied_by_policy"},
		"unknown":              {named("LAUNCH"), "unsupported"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, c := f.action(), call
			tt.change(&a, &c)
			got, verdict, why, err := f.fulfiller().Inspect(t.Context(), c, a)
			if err != nil {
				t.Fatal(err)
			}
			if verdict != lattice.Deny || !strings.HasPrefix(why, tt.code+": ") {
				t.Errorf("Inspect = %s %q, want deny with %s", verdict, why, tt.code)
			}
			if got.Binding != nil || got.Key == "" {
				t.Errorf("denied action has binding %s and key %q", got.Binding, got.Key)
			}
		})
	}
	if now := f.git("origin.git", "for-each-ref"); now != refs {
		t.Errorf("origin's refs changed:\n%s\nwere:\n%s", now, refs)
	}
}

func TestBundleTooBig(t *testing.T) {
	f := newFixture(t)
	f.opts.MaxBundle = 10
	_, verdict, why, err := f.fulfiller().Inspect(t.Context(), call, f.action())
	if err != nil || verdict != lattice.Deny || !strings.HasPrefix(why, "limit_exceeded: ") {
		t.Errorf("Inspect = %s %q %v, want deny with limit_exceeded", verdict, why, err)
	}
}

// A sprite that cannot be read is no reason to deny: the request stays open.
func TestUnreadableSprite(t *testing.T) {
	f := newFixture(t)
	f.opts.Files = brokenFiles{}
	if _, verdict, _, err := f.fulfiller().Inspect(t.Context(), call, f.action()); err == nil {
		t.Errorf("Inspect = %s, want an error", verdict)
	}
}

type brokenFiles struct{}

func (brokenFiles) ReadFrom(context.Context, string, string, int64) (io.ReadCloser, error) {
	return nil, errors.New("connection reset")
}

// What was approved is what is done: a change of any bound part after the approval is refused.
func TestDoRefusesWhatWasNotApproved(t *testing.T) {
	f := newFixture(t)
	ful := f.fulfiller()
	approved, _, _, err := ful.Inspect(t.Context(), call, f.action())
	if err != nil {
		t.Fatal(err)
	}
	rebind := func(change func(*Binding)) func(*lattice.Action) {
		return func(a *lattice.Action) {
			var b Binding
			if err := json.Unmarshal(a.Binding, &b); err != nil {
				t.Fatal(err)
			}
			change(&b)
			if a.Binding, err = json.Marshal(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		change func(*lattice.Action)
		code   string
	}{
		"other diff":   {rebind(func(b *Binding) { b.DiffDigest = "x" }), "binding_changed"},
		"other remote": {rebind(func(b *Binding) { b.RemoteURL = "https://example.org/r" }), "binding_changed"},
		"other branch": {rebind(func(b *Binding) { b.Branch = "elsewhere" }), "binding_changed"},
		"other head":   {rebind(func(b *Binding) { b.Head = f.base }), "binding_changed"},
		"other base":   {rebind(func(b *Binding) { b.Base = f.head }), "binding_changed"},
		"other bundle": {rebind(func(b *Binding) { b.SHA256 = strings.Repeat("0", 64) }), "binding_changed"},
		"no binding":   {func(a *lattice.Action) { a.Binding = nil }, "binding_changed"},
		"parameters moved": {func(a *lattice.Action) {
			a.Parameters = bytes.Replace(a.Parameters, []byte(`"fix"`), []byte(`"fax"`), 1)
		}, "binding_changed"},
		"bundle damaged": {func(*lattice.Action) {
			if err := os.WriteFile(filepath.Join(f.opts.Dir, f.params.SHA256+".bundle"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "binding_changed"},
	}
	for _, name := range []string{"other diff", "other remote", "other branch", "other head", "other base", "other bundle", "no binding", "parameters moved", "bundle damaged"} {
		t.Run(name, func(t *testing.T) {
			a := approved
			tests[name].change(&a)
			_, err := ful.Do(t.Context(), a)
			var no *lattice.Refusal
			if !errors.As(err, &no) || no.Fault.Code != tests[name].code {
				t.Errorf("Do = %v, want refusal %s", err, tests[name].code)
			}
		})
	}
	if out := f.git("origin.git", "for-each-ref", "refs/heads/fix", "refs/heads/fax", "refs/heads/elsewhere"); out != "" {
		t.Errorf("origin has %s", out)
	}
}

func TestKey(t *testing.T) {
	push := func(bundle, title, head string) json.RawMessage {
		raw, err := json.Marshal(protocol.PushBranch{Branch: "b", Base: "c", Head: head, Bundle: bundle, SHA256: strings.Repeat("1", 64), Title: title})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	one := Key("c1", protocol.ActionPushBranch, push("x", "t", "h"))
	if Key("c2", protocol.ActionPushBranch, push("y", "u", "h")) != one {
		t.Error("the same push has two keys")
	}
	if Key("c1", protocol.ActionPushBranch, push("x", "t", "i")) == one {
		t.Error("two heads have one key")
	}
	a := Key("c1", "POST_COMMENT", json.RawMessage(`{"number":1,"body":"x"}`))
	if Key("c1", "POST_COMMENT", json.RawMessage(`{ "body": "x", "number": 1 }`)) != a {
		t.Error("the order of members changes the key")
	}
	if Key("c2", "POST_COMMENT", json.RawMessage(`{"number":1,"body":"x"}`)) == a || Key("c1", "LABEL_ISSUE", json.RawMessage(`{"number":1,"body":"x"}`)) == a {
		t.Error("another call or action has the same key")
	}
}

// A message to the user is allowed by default and done by being noted; a rule of the settings can deny it.
func TestNotifyUser(t *testing.T) {
	f := newFixture(t)
	a, c := f.action(), call
	a.Name, a.Parameters, c.Permissions = protocol.ActionNotifyUser, json.RawMessage(`{"title":"x"}`), []string{"user:notify"}
	got, verdict, why, err := f.fulfiller().Inspect(t.Context(), c, a)
	if err != nil || verdict != lattice.Allow || got.ByHand {
		t.Fatalf("Inspect = %+v %s %q %v, want allow", got, verdict, why, err)
	}
	if _, err := f.fulfiller().Do(t.Context(), got); err != nil {
		t.Errorf("Do = %v", err)
	}
	f.policy(`actions.NOTIFY_USER.decision = "deny"`)
	if _, verdict, why, _ := f.fulfiller().Inspect(t.Context(), c, a); verdict != lattice.Deny || !strings.HasPrefix(why, "denied_by_policy: ") {
		t.Errorf("Inspect = %s %q, want deny", verdict, why)
	}
}
