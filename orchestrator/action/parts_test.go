package action

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// newParts returns a fixture that pushes to its origin and to another repository, whose URL it returns. Each push that a repository
// accepts is a line of its file pushes.
func newParts(t *testing.T) (f *fixture, other string) {
	t.Helper()
	f = newFixture(t)
	if err := os.CopyFS(filepath.Join(f.dir, "other.git"), os.DirFS(filepath.Join(f.dir, "origin.git"))); err != nil {
		t.Fatal(err)
	}
	for _, repo := range []string{"origin.git", "other.git"} {
		hook := filepath.Join(f.dir, repo, "hooks", "post-receive")
		if err := os.WriteFile(hook, []byte("#!/bin/sh\ncat >>pushes\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	other = "file://" + filepath.Join(f.dir, "other.git")
	f.params.Also = []protocol.AlsoPush{{Repo: other, Branch: "fix", Base: f.base, Head: f.head, Bundle: bundlePath, SHA256: f.params.SHA256}}
	f.policy("[actions.PUSH_BRANCH]\nallowed.repo = [\"" + strings.ToLower(f.dir) + "/\"]\n")
	return f, other
}

// countPushes returns how many pushes of a branch each repository has accepted.
func (f *fixture) countPushes() (n [2]int) {
	for i, repo := range []string{"origin.git", "other.git"} {
		lines, err := os.ReadFile(filepath.Join(f.dir, repo, "pushes"))
		if err == nil {
			n[i] = bytes.Count(lines, []byte("\n"))
		}
	}
	return n
}

// inspected returns the action of f as it would be approved.
func (f *fixture) inspected() lattice.Action {
	f.t.Helper()
	a, verdict, why, err := f.fulfiller().Inspect(f.t.Context(), call, f.action())
	if err != nil || verdict != lattice.Ask {
		f.t.Fatalf("Inspect = %s %q %v, want ask", verdict, why, err)
	}
	return a
}

// Several repositories are one proposal with a digest each. They are pushed in order, each once, although the process ends after any of
// the effects and before its outcome is recorded.
func TestPartsArePushedInOrder(t *testing.T) {
	f, other := newParts(t)
	a := f.inspected()
	parts := Parts(a)
	if len(parts) != 2 || destinationOf(parts[0]) != "fix of "+f.url() || destinationOf(parts[1]) != "fix of "+other {
		t.Fatalf("parts %+v", parts)
	}
	p, err := f.fulfiller().Patch(t.Context(), a)
	if err != nil || strings.Count(p.Text, "+++ b/fix.txt") != 2 || !strings.Contains(p.Text, "# 2 of 2: fix of "+other) {
		t.Fatalf("Patch = %v, %v", p, err)
	}
	for cut := range 3 { // after so many effects
		for _, repo := range []string{"origin.git", "other.git"} { // as before
			f.git(repo, "update-ref", "-d", "refs/heads/fix")
			_ = os.Remove(filepath.Join(f.dir, repo, "pushes"))
		}
		n := 0
		ful := f.fulfiller()
		_, err := ful.DoParts(t.Context(), a, func(ctx context.Context, part lattice.Action) ([]byte, error) {
			if want := parts[n]; string(part.Parameters) != string(want.Parameters) {
				t.Errorf("part %d has the parameters %s, want %s", n, part.Parameters, want.Parameters)
			}
			out, err := ful.Do(ctx, part)
			if n++; n > cut {
				return nil, errors.New("killed")
			}
			return out, err
		})
		if (err == nil) != (cut == 2) {
			t.Fatalf("cut off after %d: %v", cut, err)
		}
		raw, err := f.fulfiller().Do(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Result
			Also []Result `json:"also"`
		}
		if err := json.Unmarshal(raw, &got); err != nil || got.URL != f.url() || len(got.Also) != 1 || got.Also[0].URL != other || got.Also[0].Head != f.head {
			t.Errorf("Do = %s, %v", raw, err)
		}
		if n := f.countPushes(); n != [2]int{1, 1} {
			t.Errorf("cut off after %d: the repositories accepted %v pushes, want one each", cut, n)
		}
	}
}

// If a part cannot be performed any more, none is. If one is refused in the middle, the refusal tells what was done.
func TestPartsThatAreRefused(t *testing.T) {
	f, other := newParts(t)
	a := f.inspected()
	f.git("sprite", "push", "-q", "../other.git", f.base+":refs/heads/fix") // the branch moves after the approval
	_, err := f.fulfiller().Do(t.Context(), a)
	no, ok := errors.AsType[*lattice.Refusal](err)
	if !ok || no.Fault.Code != "stale" || !strings.HasPrefix(no.Fault.Message, "nothing was performed: "+f.url()+": not tried; "+other+": refused, because ") {
		t.Errorf("Do = %v, want stale", err)
	}
	if n := f.countPushes(); n[0] != 0 {
		t.Errorf("the first repository accepted %d pushes", n[0])
	}

	f, other = newParts(t)
	a = f.inspected()
	refuse := filepath.Join(f.dir, "other.git", "hooks", "update")
	if err := os.WriteFile(refuse, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second attempt finds the first part done
		_, err = f.fulfiller().Do(t.Context(), a)
		no, ok = errors.AsType[*lattice.Refusal](err)
		if !ok || no.Fault.Code != lattice.CodePartlyDone {
			t.Fatalf("Do = %v, want partly_done", err)
		}
		var details struct {
			Parts []map[string]string `json:"parts"`
			Cause protocol.Fault      `json:"cause"`
		}
		if err := json.Unmarshal(no.Fault.Details, &details); err != nil || details.Cause.Code != "rejected_by_remote" {
			t.Errorf("details %s, %v", no.Fault.Details, err)
		}
		if d := cmp.Diff([]map[string]string{{"repo": f.url(), "state": "done"}, {"repo": other, "state": "refused"}}, details.Parts); d != "" {
			t.Error(d)
		}
	}
	if err := os.Remove(refuse); err != nil {
		t.Fatal(err)
	}
	if _, err := f.fulfiller().Do(t.Context(), a); err != nil {
		t.Error(err)
	}
	if n := f.countPushes(); n != [2]int{1, 1} {
		t.Errorf("the repositories accepted %v pushes, want one each", n)
	}
}

// Each part needs what an action of its own would need.
func TestPartsAreJudgedOneByOne(t *testing.T) {
	tests := map[string]struct {
		change func(f *fixture, p *protocol.PushBranch)
		code   string
	}{
		"no rule":          {func(f *fixture, _ *protocol.PushBranch) { f.opts.PolicyOf = nil }, "target_denied"},
		"another":          {func(f *fixture, p *protocol.PushBranch) { p.Also[0].Repo = "https://example.com/a/b" }, "value_denied"},
		"short name":       {func(_ *fixture, p *protocol.PushBranch) { p.Also[0].Repo = "acme/site" }, "bad_parameters"},
		"protected branch": {func(_ *fixture, p *protocol.PushBranch) { p.Also[0].Branch = "main" }, "protected_branch"},
		"no head":          {func(_ *fixture, p *protocol.PushBranch) { p.Also[0].Head = "" }, "bad_parameters"},
		"no bundle": {func(_ *fixture, p *protocol.PushBranch) {
			p.Also[0].Bundle += "x"
			p.Also[0].SHA256 = strings.Repeat("1", 64)
		}, "bundle_missing"},
		"twice":    {func(_ *fixture, p *protocol.PushBranch) { p.Also = append(p.Also, p.Also[0]) }, "bad_parameters"},
		"too many": {func(_ *fixture, p *protocol.PushBranch) { p.Also = make([]protocol.AlsoPush, protocol.MaxAlso+1) }, "bad_parameters"},
		"over the limit": {func(f *fixture, _ *protocol.PushBranch) {
			f.policy("[actions.PUSH_BRANCH]\nmax = 1\nallowed.repo = [\"" + strings.ToLower(f.dir) + "/\"]\n")
		}, "too_many_actions"},
	}
	whole, _ := newParts(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := *whole
			f.params.Also = slices.Clone(f.params.Also)
			tt.change(&f, &f.params)
			a, verdict, why, err := f.fulfiller().Inspect(t.Context(), call, f.action())
			if err != nil || verdict != lattice.Deny || !strings.HasPrefix(why, tt.code+": ") || a.Binding != nil || a.Key == "" {
				t.Errorf("Inspect = %s %q %v, want %s", verdict, why, err, tt.code)
			}
		})
	}
	f := whole
	a := f.action()
	a.Parameters = bytes.Replace(a.Parameters, []byte(`"also":[{`), []byte(`"also":[{"force":true,`), 1)
	if _, verdict, why, err := f.fulfiller().Inspect(t.Context(), call, a); err != nil || verdict != lattice.Deny || !strings.Contains(why, `no parameter "also/0/force"`) {
		t.Errorf("Inspect = %s %q %v, want the unknown member refused", verdict, why, err)
	}
	one := f.params
	one.Also = nil
	single, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	if Key("c", protocol.ActionPushBranch, single) == Key("c", protocol.ActionPushBranch, f.action().Parameters) {
		t.Error("a push of two repositories has the key of the push of one")
	}
}

// The pull requests of several repositories are parts of one OPEN_PR.
func TestPartsOfPullRequest(t *testing.T) {
	raw, err := json.Marshal(protocol.OpenPR{Title: "t", Body: "b", Base: "main", Head: "fix", BaseSHA: "1", HeadSHA: "2", Bundle: "x", SHA256: "y",
		Also: []protocol.AlsoPush{{Repo: "https://example.com/a/b", Branch: "fix2", Base: "3", Head: "4", Bundle: "u", SHA256: "v", Into: "dev"}}})
	if err != nil {
		t.Fatal(err)
	}
	parts := Parts(lattice.Action{Name: protocol.ActionOpenPR, Key: "k", Parameters: raw, Binding: json.RawMessage(`{"head":"2","also":[{"head":"4"}]}`)})
	var got protocol.OpenPR
	if err := json.Unmarshal(parts[1].Parameters, &got); err != nil {
		t.Fatal(err)
	}
	want := protocol.OpenPR{Title: "t", Body: "b", Base: "dev", Head: "fix2", BaseSHA: "3", HeadSHA: "4", Bundle: "u", SHA256: "v", Repo: "https://example.com/a/b"}
	if d := cmp.Diff(want, got); d != "" || string(parts[1].Binding) != `{"head":"4"}` || string(parts[0].Binding) != `{"head":"2"}` || parts[1].Key != "k" {
		t.Errorf("parts %+v\n%s", parts, d)
	}
}
