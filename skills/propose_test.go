package skills

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// resumed makes the same call again, answered.
func (s *sprite) resumed(name, input, answers string) outcome {
	s.t.Helper()
	s.write(protocol.ResumeFile, `{"work_item_id":"w1","checkpoint_id":"v1","inputs":`+answers+`,"context":{"call_id":"`+s.env.CallID+`"}}`)
	return s.call(name, input)
}

// says lists the types of a call's events, phases left out.
func (o outcome) says() (types []string) {
	for _, e := range o.events {
		if e.Type != protocol.TypePhaseStarted && e.Type != protocol.TypePhaseFinished {
			types = append(types, string(e.Type))
		}
	}
	return types
}

func (o outcome) request(t *testing.T) protocol.ActionRequest {
	t.Helper()
	for _, e := range o.events {
		if e.Type == protocol.TypeActionRequest {
			payload, err := e.Open()
			if err != nil {
				t.Fatal(err)
			}
			return payload.(protocol.ActionRequest)
		}
	}
	t.Fatalf("no ACTION_REQUEST in %s", o.stdout)
	return protocol.ActionRequest{}
}

func TestRequestsThatNobodyWaitsFor(t *testing.T) {
	tests := []struct{ skill, input, action, parameters string }{
		{"github.comment", `{"number":7,"body":"green"}`, "POST_COMMENT", `{"number":7,"body":"green"}`},
		{"github.label", `{"number":7,"labels":["bug"]}`, "LABEL_ISSUE", `{"number":7,"labels":["bug"]}`},
		{"notify.user", `{"title":"red","link":"https://example.com/x"}`, "NOTIFY_USER", `{"level":"info","title":"red","body":"","link":"https://example.com/x"}`},
		{"notify.user", `{"title":"red","body":"3 failed","level":"warning","channel":"ops"}`, "NOTIFY_USER", `{"channel":"ops","level":"warning","title":"red","body":"3 failed"}`},
	}
	for _, test := range tests {
		t.Run(test.skill, func(t *testing.T) {
			o := newSprite(t).call(test.skill, test.input)
			if o.exit != 0 || !slices.Equal(o.says(), []string{"ACTION_REQUEST"}) {
				t.Fatalf("%s %s = exit %d, events %v", test.skill, test.input, o.exit, o.says())
			}
			r := o.request(t)
			if r.Action != test.action || r.Blocking || string(r.Parameters) != test.parameters {
				t.Errorf("asked for %s %s, blocking %v; want %s %s", r.Action, r.Parameters, r.Blocking, test.action, test.parameters)
			}
			if o.data(t)["requested"] != true {
				t.Errorf("data = %s", o.result.Data)
			}
		})
	}
}

func TestRequestsThatWait(t *testing.T) {
	tests := []struct {
		name, skill, input string
		action, parameters string
		answers            string
		exit               int
		want               string // code of the error, or data
	}{
		{"comment", "github.comment", `{"number":7,"body":"green","wait":true}`, "POST_COMMENT", `{"number":7,"body":"green"}`,
			`{"ok":true,"action":"POST_COMMENT","result":{"url":"https://example.com/1"}}`, 0,
			`{"requested":true,"done":true,"url":"https://example.com/1","result":{"url":"https://example.com/1"}}`},
		{"plain yes", "github.label", `{"number":7,"labels":["a","b"],"wait":true}`, "LABEL_ISSUE", `{"number":7,"labels":["a","b"]}`,
			`{"approved":true,"comments":"done by hand"}`, 0, `{"requested":true,"done":true,"comments":"done by hand"}`},
		{"plain no", "github.label", `{"number":7,"labels":["a"],"wait":true}`, "LABEL_ISSUE", `{"number":7,"labels":["a"]}`,
			`{"approved":false,"comments":"no"}`, 1, "rejected"},
		{"credential", "credential.fetch", `{"name":"npm","purpose":"publish","scope":"pkg","ttl_s":60}`, "FETCH_CREDENTIAL", `{"name":"npm","purpose":"publish","scope":"pkg","ttl_s":60}`,
			`{"ok":true,"action":"FETCH_CREDENTIAL","result":{"lease":"lease_1","expires_at":"2026-01-01T00:00:00Z","secret":"s3cr3t"}}`, 0,
			`{"name":"npm","lease":"lease_1","expires_at":"2026-01-01T00:00:00Z"}`},
		{"credential by a plain yes", "credential.fetch", `{"name":"npm","purpose":"publish"}`, "FETCH_CREDENTIAL", `{"name":"npm","purpose":"publish"}`,
			`{"approved":true}`, 1, "no_lease"},
		{"denied", "credential.fetch", `{"name":"npm","purpose":"publish"}`, "FETCH_CREDENTIAL", `{"name":"npm","purpose":"publish"}`,
			`{"ok":false,"error":{"code":"denied","message":"never"}}`, 1, "denied"},
		{"answer to another action", "credential.fetch", `{"name":"npm","purpose":"publish"}`, "FETCH_CREDENTIAL", `{"name":"npm","purpose":"publish"}`,
			`{"ok":true,"action":"OPEN_PR","result":{"lease":"x"}}`, 2, "bad_input"},
		{"unknown answer", "credential.fetch", `{"name":"npm","purpose":"publish"}`, "FETCH_CREDENTIAL", `{"name":"npm","purpose":"publish"}`,
			`{"secret":"x"}`, 2, "bad_input"},
		{"issues", "github.open_issues", `{"document":"seed.md","tasks":[{"key":"a","epic":"e","title":"A","description":"b","priority":"high"}],"number":7}`, "OPEN_ISSUES",
			`{"document":"seed.md","issues":[{"key":"a","epic":"e","title":"A","body":"b"}],"number":7}`,
			`{"ok":true,"action":"OPEN_ISSUES","result":{"issues":[{"key":"a","status":"opened","url":"https://example.com/8","number":8}],"epics":[]}}`, 0,
			`{"issues":[{"key":"a","url":"https://example.com/8","number":8,"status":"opened"}],"epics":[]}`},
		{"issues by hand", "github.open_issues", `{"document":"seed.md","tasks":[{"key":"a","title":"A"}]}`, "OPEN_ISSUES", `{"document":"seed.md","issues":[{"key":"a","title":"A"}]}`,
			`{"approved":true,"comments":"done by hand"}`, 0, `{"issues":[],"epics":[],"comments":"done by hand"}`},
		{"link with a password", "github.comment", `{"number":7,"body":"x","wait":true}`, "POST_COMMENT", `{"number":7,"body":"x"}`,
			`{"ok":true,"result":{"url":"https://u:p@example.com"}}`, 2, "bad_input"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSprite(t)
			s.env.CallID, s.env.Grants.Except = "c1", nil
			o := s.call(test.skill, test.input)
			if o.exit != protocol.ExitWaiting || !slices.Equal(o.says(), []string{"ACTION_REQUEST", "WAITING"}) {
				t.Fatalf("%s = exit %d, events %v: %s", test.skill, o.exit, o.says(), o.stdout)
			}
			r := o.request(t)
			if r.Action != test.action || !r.Blocking || string(r.Parameters) != test.parameters {
				t.Errorf("asked for %s %s, blocking %v; want %s %s", r.Action, r.Parameters, r.Blocking, test.action, test.parameters)
			}
			o = s.resumed(test.skill, test.input, test.answers)
			got := string(o.result.Data)
			if o.result.Error != nil {
				got = o.result.Error.Code
			}
			if o.exit != test.exit || got != test.want {
				t.Errorf("resumed: exit %d, %s; want exit %d, %s", o.exit, o.stdout, test.exit, test.want)
			}
			if strings.Contains(o.stdout, "s3cr3t") {
				t.Error("what is no reference reached the result")
			}
		})
	}
}

func TestAPullRequestIsProposedWithABundle(t *testing.T) {
	s := newSprite(t)
	base := s.origin()
	s.must("git.clone", `{"url":"`+protocol.SeedFile+`"}`)
	s.git("repo", "checkout", "-q", "-b", "fix")
	s.write("repo/fix.txt", "fixed\n")
	s.git("repo", "add", "-A")
	s.git("repo", "commit", "-q", "-m", "fix it")
	s.env.CallID = "c1"
	const input = `{"title":"Fix it","body":"It was broken.","branch":"fix","base":"main"}`
	o := s.call("github.open_pr", input)
	if o.exit != protocol.ExitWaiting || !slices.Equal(o.says(), []string{"ACTION_REQUEST", "WAITING"}) {
		t.Fatalf("github.open_pr = exit %d, %s", o.exit, o.stdout)
	}
	var p protocol.OpenPR
	if err := json.Unmarshal(o.request(t).Parameters, &p); err != nil {
		t.Fatal(err)
	}
	want := protocol.OpenPR{Title: "Fix it", Body: "It was broken.", Base: "main", Head: "fix", BaseSHA: base, HeadSHA: s.git("repo", "rev-parse", "fix"), Bundle: p.Bundle, SHA256: p.SHA256}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	s.git("origin", "bundle", "verify", "-q", p.Bundle)
	o = s.resumed("github.open_pr", input, `{"ok":true,"action":"OPEN_PR","result":{"url":"https://example.com/pull/3","number":3}}`)
	if data := o.data(t); o.exit != 0 || data["pr_url"] != "https://example.com/pull/3" || data["number"] != 3.0 || !slices.Contains(o.says(), "ARTIFACT") {
		t.Errorf("resumed: exit %d, %s", o.exit, o.stdout)
	}
}

// The pull requests of several repositories are one request, and each is an artifact.
func TestPullRequestsOfSeveralRepositories(t *testing.T) {
	s := newSprite(t)
	s.origin()
	for _, dest := range []string{"repo", "lib"} {
		s.must("git.clone", `{"url":"origin","dest":"`+dest+`"}`)
		s.write(dest+"/new", dest)
		s.must("git.commit", `{"repo":"`+dest+`","message":"new file","all":true}`)
	}
	s.env.Grants.Except = nil
	s.fails("github.open_pr", `{"title":"t","also":[{"repo":"lib"}]}`, 2, "bad_input")
	s.env.CallID = "c1"
	const input = `{"title":"t","also":[{"repo":"lib","base":"main","target":"https://example.com/acme/lib"}]}`
	o := s.call("github.open_pr", input)
	var p protocol.OpenPR
	if err := json.Unmarshal(o.request(t).Parameters, &p); err != nil || len(p.Also) != 1 || p.Also[0].Into != "main" || p.Also[0].Repo != "https://example.com/acme/lib" || p.Also[0].Head == p.HeadSHA {
		t.Fatalf("asked for %+v, %v", p, err)
	}
	o = s.resumed("github.open_pr", input, `{"ok":true,"action":"OPEN_PR","result":{"url":"https://example.com/pull/3","also":[{"url":"https://example.com/pull/4","branch":"main"}]}}`)
	if says := o.says(); o.exit != 0 || !slices.Equal(says, []string{"INFO", "ARTIFACT", "ARTIFACT"}) {
		t.Errorf("resumed: exit %d, %v, %s", o.exit, says, o.stdout)
	}
}

func TestAPersonIsAsked(t *testing.T) {
	tests := []struct {
		name, input, reason, answers string
		exit                         int
		want                         string // code of the error, data, or the reason of a further question
	}{
		{"plain", `{"question":"Why?"}`, "Why?", `{"answer":"because"}`, 0, `{"answer":"because","answers":{"answer":"because"}}`},
		{"choices", `{"question":"Which?","choices":["a","b"],"default":"b"}`, "Which? [a | b] (default: b)", `{"answer":"a"}`, 0, `{"answer":"a","answers":{"answer":"a"}}`},
		{"default", `{"question":"Which?","choices":["a","b"],"default":"b"}`, "Which? [a | b] (default: b)", `{"answer":""}`, 0, `{"answer":"b","answers":{"answer":"b"}}`},
		{"no choice", `{"question":"Which?","choices":["a","b"]}`, "Which? [a | b]", `{"answer":"c"}`, 75, `Which? ("c" is none of the choices) [a | b]`},
		{"typed", `{"question":"How many?","expected_inputs":{"count":"integer"}}`, "How many?", `{"count":3}`, 0, `{"answers":{"count":3}}`},
		{"wrong type", `{"question":"How many?","expected_inputs":{"count":"integer"}}`, "How many?", `{"count":"3"}`, 2, "bad_resume"},
		{"not answered", `{"question":"How many?","expected_inputs":{"count":"integer"}}`, "How many?", `{"other":1}`, 75, "How many? (count was not answered)"},
		{"declined", `{"question":"Why?"}`, "Why?", `{"approved":false,"comments":"ask another"}`, 1, "rejected"},
		{"yes or no", `{"question":"Go on?","expected_inputs":{"approved":"boolean"}}`, "Go on?", `{"approved":false}`, 0, `{"answers":{"approved":false}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSprite(t)
			s.env.CallID = "c1"
			o := s.call("ask.user", test.input)
			if o.exit != protocol.ExitWaiting || !slices.Equal(o.says(), []string{"INFO", "WAITING"}) || o.result.Waiting.Reason != test.reason {
				t.Fatalf("ask.user = exit %d, events %v: %s", o.exit, o.says(), o.stdout)
			}
			o = s.resumed("ask.user", test.input, test.answers)
			got := string(o.result.Data)
			switch {
			case o.result.Error != nil:
				got = o.result.Error.Code
			case o.result.Waiting != nil:
				got = o.result.Waiting.Reason
			}
			if o.exit != test.exit || got != test.want {
				t.Errorf("resumed with %s: exit %d, %s; want exit %d, %s", test.answers, o.exit, o.stdout, test.exit, test.want)
			}
		})
	}
}

const goodProposal = `{"observed_failure":{"phase":"bootstrap","exit_code":127,"stderr_hint":"node: not found"},"suggested_adjustment":{"type":"runtime_install",` +
	`"details":{"runtime":"node"}},"confidence":0.8,"evidence":["package.json"],"scope":"repo_specific"}`

func TestAnEnvironmentIsProposed(t *testing.T) {
	o := newSprite(t).call("env.propose", goodProposal)
	if o.exit != 0 || !slices.Equal(o.says(), []string{"ENVIRONMENT_PROPOSAL"}) || len(o.data(t)["fingerprint"].(string)) != 64 {
		t.Errorf("env.propose = exit %d, events %v: %s", o.exit, o.says(), o.stdout)
	}
}

func TestACheckpointNeedsASocket(t *testing.T) {
	newSprite(t).fails("checkpoint.create", `{"comment":"x"}`, protocol.ExitUnsupported, "no_socket")
}

func TestProposalsAreChecked(t *testing.T) {
	s := newSprite(t)
	s.env.Grants.Except = nil
	long := strings.Repeat("x", 70000)
	proposal := func(old, now string) string { return strings.Replace(goodProposal, old, now, 1) }
	for _, test := range []struct{ skill, input, pointer string }{
		{"github.open_pr", `{"title":" "}`, "/title"},
		{"github.open_pr", `{"title":"a\nb"}`, "/title"},
		{"github.open_pr", `{"title":"` + long[:257] + `"}`, "/title"},
		{"github.open_pr", `{"title":"a","body":"` + long + `"}`, "/body"},
		{"github.comment", `{"number":0,"body":"x"}`, "/number"},
		{"github.comment", `{"number":1,"body":""}`, "/body"},
		{"github.comment", `{"number":1,"body":"a\u001b[2Jb"}`, "/body"},
		{"github.label", `{"number":1,"labels":[]}`, "/labels"},
		{"github.label", `{"number":1,"labels":["a","A"]}`, "/labels/1"},
		{"github.label", `{"number":1,"labels":["` + long[:51] + `"]}`, "/labels/0"},
		{"notify.user", `{"title":"a","level":"loud"}`, "/level"},
		{"notify.user", `{"title":"a","link":"javascript:alert(1)"}`, "/link"},
		{"notify.user", `{"title":"a","link":"https://u:p@example.com"}`, "/link"},
		{"notify.user", `{"title":"a","channel":"-x"}`, "/channel"},
		{"credential.fetch", `{"name":"a b","purpose":"x"}`, "/name"},
		{"credential.fetch", `{"name":"a","purpose":""}`, "/purpose"},
		{"credential.fetch", `{"name":"a","purpose":"x","ttl_s":86401}`, "/ttl_s"},
		{"ask.user", `{"question":""}`, "/question"},
		{"ask.user", `{"question":"a","choices":["a","b"],"default":"c"}`, "/default"},
		{"ask.user", `{"question":"a","expected_inputs":{"n":"float"}}`, "/expected_inputs/n"},
		{"ask.user", `{"question":"a","expected_inputs":{"n":"integer"},"choices":["a"]}`, "/expected_inputs"},
		{"env.propose", proposal("repo_specific", "everywhere"), "/scope"},
		{"env.propose", proposal("0.8", "1.8"), "/confidence"},
		{"env.propose", proposal("runtime_install", "run_this"), "/suggested_adjustment/type"},
		{"env.propose", proposal(`"phase":"bootstrap",`, ""), "/observed_failure/phase"},
		{"checkpoint.create", `{"comment":"a\nb"}`, "/comment"},
	} {
		if fault := s.fails(test.skill, test.input, protocol.ExitBadInput, "bad_input"); !strings.Contains(fault.Message, test.pointer+" ") {
			t.Errorf("%s %.200s: %s; want %s named", test.skill, test.input, fault.Message, test.pointer)
		}
	}
}

func TestProposalsNeedTheirPermission(t *testing.T) {
	s := newSprite(t)
	s.env.Grants.All = false
	for skill, input := range map[string]string{
		"github.open_pr": `{"title":"a"}`, "github.comment": `{"number":1,"body":"x"}`, "github.label": `{"number":1,"labels":["x"]}`,
		"notify.user": `{"title":"a"}`, "credential.fetch": `{"name":"a","purpose":"x"}`, "env.propose": goodProposal, "ask.user": `{"question":"a"}`,
		"exec.run": `{"command":"true"}`,
	} {
		s.fails(skill, input, protocol.ExitDenied, "permission_denied")
	}
}
