package action

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestParameters(t *testing.T) {
	const push = `"branch":"b","base":"c","bundle":"/w","sha256":"1111111111111111111111111111111111111111111111111111111111111111"`
	tests := []struct{ action, parameters, want string }{ // want "" is valid
		{"OPEN_PR", `{"title":"t","body":"b","base":"main","head":"fix"}`, ""},
		{"OPEN_PR", `{"title":"t","base":"main","head":"fix","repo":"https://github.com/acme/site"}`, ""},
		{"OPEN_PR", `{"title":"t","head":"fix","base":""}`, ""},
		{"OPEN_PR", `{"title":"t","base":"main"}`, "the parameter head is missing"},
		{"OPEN_PR", `{"title":"a\nb","base":"main","head":"fix"}`, "the parameter title has more than one line"},
		{"OPEN_PR", `{"title":"t","base":"main","head":"--force"}`, `the parameter head is "--force", not a branch`},
		{"OPEN_PR", `{"title":"t","base":"main","head":"fix","draft":true}`, `there is no parameter "draft"`},
		{"OPEN_PR", `{"title":"t","base":"main","head":"fix","head_sha":"abc"}`, "the parameter head_sha is not a full commit id"},
		{"POST_COMMENT", `{"number":7,"body":"b"}`, ""},
		{"POST_COMMENT", `{"number":"7","body":"b"}`, "the parameter number must be of the type integer, not string"},
		{"POST_COMMENT", `{"number":0,"body":" "}`, "the parameter number is 0, not a positive number; the parameter body is missing"},
		{"POST_COMMENT", fmt.Sprintf(`{"number":1,"body":%q}`, strings.Repeat("x", 65537)), "the parameter body has 65537 bytes; at most 65536 are allowed"},
		{"POST_COMMENT", `{"number":1,"body":"\u001b]52;c;x\u0007"}`, "the parameter body holds control characters"},
		{"POST_COMMENT", `{"number":1,"number":2,"body":"b"}`, "the parameter number is given twice"},
		{"POST_COMMENT", `{"number":1,"Number":2,"body":"b"}`, `there is no parameter "Number"`},
		{"LABEL_ISSUE", `{"number":7,"labels":["bug"]}`, ""},
		{"LABEL_ISSUE", `{"number":7,"labels":[]}`, "the parameter labels has 0 entries; 1 to 100 are allowed"},
		{"LABEL_ISSUE", `{"number":7,"labels":"bug"}`, "the parameter labels must be of the type array, not string"},
		{"LABEL_ISSUE", `{"number":7,"labels":[null]}`, "the parameter labels[0] is missing"},
		{"OPEN_ISSUES", `{"document":"seed.md","issues":[{"key":"a","epic":"e","title":"A","body":"b"},{"key":"b","title":"B"}],"number":7}`, ""},
		{"OPEN_ISSUES", `{"document":"seed.md","issues":[]}`, "the parameter issues has 0 entries; 1 to 200 are allowed"},
		{"OPEN_ISSUES", `{"document":"seed.md","issues":[{"key":"a","title":"A"},{"key":"a","title":"B"}]}`, "the parameter issues/1/key is a, as that of another issue"},
		{"OPEN_ISSUES", `{"document":"seed.md","issues":[{"key":"A B","title":"A"}]}`, "words in small letters"},
		{"OPEN_ISSUES", `{"document":"seed.md","issues":[{"key":"a","title":"A","labels":["x"]}]}`, `there is no parameter "issues/0/labels"`},
		{"OPEN_ISSUES", `{"document":"seed.md","issues":[{"key":"a","title":"A\u202e"}]}`, "hold invisible characters"},
		{"NOTIFY_USER", `{"title":"t"}`, ""},
		{"NOTIFY_USER", `{"title":"t","level":"info","body":"","channel":"ops"}`, ""},
		{"NOTIFY_USER", `{"title":"t","level":"shout"}`, `the parameter level is "shout", not info, warning or error`},
		{"NOTIFY_USER", `{"title":"t","channel":"https://169.254.169.254/"}`, "not the name of a channel; an address is never one"},
		{"NOTIFY_USER", `{"title":"t","link":"javascript:alert(1)"}`, "the parameter link is not an http or https URL without a user"},
		{"NOTIFY_USER", `{"title":"t","link":null}`, `the parameter "link" is null; leave it out`},
		{"FETCH_CREDENTIAL", `{"name":"npm","purpose":"publish"}`, ""},
		{"FETCH_CREDENTIAL", `{"name":"npm"}`, "the parameter purpose is missing"},
		{"USE_TOOL", `{"agent":"acp","kind":"edit","title":"t","arguments":"{}","sha256":"` + strings.Repeat("a", 64) + `"}`, ""},
		{"USE_TOOL", `{"agent":"acp","kind":"edit","title":"t","arguments":"{}","sha256":"x"}`, "the parameter sha256 is not a lower-case hex digest"},
		{"USE_TOOL", `{"agent":"acp","kind":"edit","title":"a\nb","arguments":"{}","sha256":"` + strings.Repeat("a", 64) + `"}`, "the parameter title has more than one line"},
		{"USE_TOOL", `{"agent":"acp","kind":"edit","title":"t","arguments":"{}"}`, "the parameter sha256 is missing"},
		{"PUSH_BRANCH", `{` + push + `,"repo":"acme/site"}`, ""},
		{"PUSH_BRANCH", `{` + push + `,"Branch":"main"}`, `there is no parameter "Branch"`},
		{"PUSH_BRANCH", `{` + push + `,"repo":"/srv/git/site.git"}`, ""},
		{"PUSH_BRANCH", `{` + push + `,"repo":"git@github.com:acme/site.git"}`, ""},
		{"PUSH_BRANCH", `{` + push + `,"repo":"ext::sh -c id"}`, "not the URL of a repository"},
		{"PUSH_BRANCH", `{` + push + `,"repo":"-oProxyCommand=id"}`, "not the URL of a repository"},
		{"PUSH_BRANCH", `{` + push + `,"repo":"https://github.com/acme/../evil/site"}`, "not the URL of a repository"},
		{"PUSH_BRANCH", `{` + push + `,"repo":"https://token@github.com/acme/site"}`, "not the URL of a repository"},
		{"PUSH_BRANCH", `{` + push + `,"repo":"https://github.com\\@evil.example/acme/site"}`, "not the URL of a repository"},
		{"PUSH_BRANCH", `{` + push + `,"repo":"http://github.com/acme/site"}`, "not the URL of a repository"},
		{"PUSH_BRANCH", `{` + push + `,"repo":"../site"}`, "not the URL of a repository"},
		{"PUSH_BRANCH", `[]`, "the parameters are not a JSON object"},
	}
	for _, tt := range tests {
		err := checkParameters(tt.action, json.RawMessage(tt.parameters))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s %.120s: %v, want %q", tt.action, tt.parameters, err, tt.want)
		}
	}
}

func TestTarget(t *testing.T) {
	const own = "https://github.com/acme/site.git"
	for named, want := range map[string]struct {
		repo    string
		foreign bool
	}{
		"": {own, false}, "https://github.com/acme/site": {own, false}, "git@github.com:acme/site.git": {own, false}, "acme/site": {own, false},
		"http://github.com/Acme/Site": {own, false}, "acme/other": {"acme/other", true}, "https://gitlab.com/acme/site": {"https://gitlab.com/acme/site", true},
		"evil/acme/site": {"evil/acme/site", true}, "site": {"site", true},
	} {
		raw, err := json.Marshal(protocol.PostComment{Number: 1, Body: "b", Repo: named})
		if err != nil {
			t.Fatal(err)
		}
		if repo, foreign := Target(raw, own); repo != want.repo || foreign != want.foreign {
			t.Errorf("Target %q = %q, %v, want %q, %v", named, repo, foreign, want.repo, want.foreign)
		}
	}
}

// A push to another repository than the run's needs a rule of the server that names it, and is bound to it.
func TestPushElsewhere(t *testing.T) {
	f := newFixture(t)
	f.git(".", "clone", "-q", "--bare", "origin.git", "other.git")
	other := filepath.Join(f.dir, "other.git")
	own, _, _, err := f.fulfiller().Inspect(t.Context(), call, f.action())
	if err != nil {
		t.Fatal(err)
	}
	f.params.Repo = "file://" + other
	inspect := func(text, want string) lattice.Action {
		t.Helper()
		f.policy(text)
		a, verdict, why, err := f.fulfiller().Inspect(t.Context(), call, f.action())
		if err != nil || (verdict == lattice.Deny) != (want != "") || !strings.HasPrefix(why, want) {
			t.Fatalf("with %q: Inspect = %s %q %v, want %q", text, verdict, why, err, want)
		}
		return a
	}
	inspect("", "target_denied: ")
	inspect("actions.PUSH_BRANCH.decision = 'allow'", "target_denied: ")
	inspect("actions.PUSH_BRANCH.allowed.repo = ['github.com/acme/*']", "value_denied: ")
	// A repository cannot widen what the server allows.
	layer, _ := policy.Parse(".lattice/policy.toml", []byte("actions.PUSH_BRANCH.allowed.repo = ['"+other+"']"))
	if v := policy.New("").Narrow(layer).Action(RequestOf(f.action(), f.url())); v.Code != policy.CodeTarget {
		t.Errorf("the rule of a repository allows it: %+v", v)
	}
	a := inspect("actions.PUSH_BRANCH.allowed.repo = ['"+f.dir+"/']", "")
	if a.Key == own.Key {
		t.Error("the push has the key of that to the run's repository")
	}
	if _, err := f.fulfiller().Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := f.git("other.git", "rev-parse", "fix"); got != f.head {
		t.Errorf("the other repository has fix at %s, want %s", got, f.head)
	}
	if refs := f.git("origin.git", "for-each-ref", "refs/heads/fix"); refs != "" {
		t.Errorf("the run's repository has %s", refs)
	}
	// The approval does not hold for a third one.
	f.git(".", "clone", "-q", "--bare", "origin.git", "third.git")
	f.params.Repo = "file://" + filepath.Join(f.dir, "third.git")
	moved := f.action()
	moved.Binding = a.Binding
	if _, err := f.fulfiller().Do(t.Context(), moved); err == nil || !strings.Contains(err.Error(), "remote") {
		t.Errorf("Do for a third repository: %v, want a refusal", err)
	}
}
