package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/skills/agent/acp"
	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/tally"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// TestDecisions checks the precedence: a limit of ours, the end that the agent reported, its exit code.
func TestDecisions(t *testing.T) {
	t.Parallel()
	a := adapter.Adapter{
		Name: "x", Secrets: []string{"KEY"}, Limits: map[string]string{"too_many": "max_turns"},
		Causes: []adapter.Cause{{Contains: []string{"bad key"}, Is: adapter.CauseAuth}, {Contains: []string{"slow down"}, Is: adapter.CauseRate}},
	}
	ended := func(e tally.Ending) []tally.Ending {
		return []tally.Ending{{Failed: !e.Failed, Message: "an earlier end"}, e}
	}
	good, bad := ended(tally.Ending{}), ended(tally.Ending{Failed: true, Message: "it broke"})
	for _, tc := range []struct {
		name    string
		outcome outcome
		ends    []tally.Ending
		output  string
		want    string // status, stop reason, code, and whether to try again
	}{
		{"done", outcome{}, good, "", "done end"},
		{"killed after its last event", outcome{exit: proc.Exit{Code: 137}}, good, "", "failed exit agent_failed false"},
		{"acp lives on", outcome{exit: proc.Exit{Code: 1}}, good, adapter.OutputACP, "done end"},
		{"says nothing", outcome{}, nil, "", "failed exit agent_failed false"},
		{"text ends by its code", outcome{}, nil, "text", "done exit"},
		{"text fails by its code", outcome{exit: proc.Exit{Code: 2}}, nil, "text", "failed exit agent_failed false"},
		{"a signal", outcome{exit: proc.Exit{Code: 137, Signal: syscall.SIGKILL}}, nil, "", "failed signal agent_failed false"},
		{"reports a failure", outcome{exit: proc.Exit{Code: 1}}, bad, "", "failed error agent_failed false"},
		{"a failure with code 0", outcome{}, bad, "", "failed error agent_failed false"},
		{"its own limit", outcome{}, ended(tally.Ending{Failed: true, Reason: "too_many"}), "", "limit max_turns agent_limit false"},
		{"an unknown reason", outcome{}, ended(tally.Ending{Failed: true, Reason: "tired"}), "", "failed error agent_failed false"},
		{"no session", outcome{}, ended(tally.Ending{Failed: true, Reason: acp.ReasonNoSession}), "", "failed error not_found false"},
		{"401", outcome{}, ended(tally.Ending{Failed: true, Status: 401}), "", "failed error agent_auth false"},
		{"403", outcome{}, ended(tally.Ending{Failed: true, Status: 403}), "", "failed error agent_auth false"},
		{"429", outcome{}, ended(tally.Ending{Failed: true, Status: 429}), "", "failed error agent_rate_limited true"},
		{"499", outcome{}, ended(tally.Ending{Failed: true, Status: 499}), "", "failed error agent_failed false"},
		{"500", outcome{}, ended(tally.Ending{Failed: true, Status: 500}), "", "failed error agent_model_unavailable true"},
		{"words of a cause", outcome{}, ended(tally.Ending{Failed: true, Message: "bad key"}), "", "failed error agent_auth false"},
		{"words on stderr", outcome{exit: proc.Exit{Code: 1}, stderr: "slow down"}, nil, "", "failed exit agent_rate_limited true"},
		{"time is up", outcome{cause: errWall}, bad, "", "limit timeout timeout false"},
		{"silent", outcome{cause: errIdle}, good, "", "limit idle timeout false"},
		{"silent at a limit", outcome{cause: errIdle, stderr: "slow down"}, good, "", "failed error agent_rate_limited true"},
		{"a dead model", outcome{cause: errDead}, nil, "", "failed error agent_model_unavailable true"},
		{"deaf", outcome{cause: errDeaf}, nil, "", "failed error agent_failed false"},
		{"our limit", outcome{cause: limitError("max_tokens")}, bad, "", "limit max_tokens agent_limit false"},
		{"without tools", outcome{cause: errNoTools, noServer: "failed"}, good, "", "failed error mcp_not_connected false"},
		{"cancelled", outcome{cause: context.Canceled}, good, "", "cancelled cancelled cancelled false"},
		{"the call's time is up", outcome{cause: context.DeadlineExceeded}, good, "", "cancelled cancelled timeout false"},
		{"lingers after a failure", outcome{cause: errLingers, exit: proc.Exit{Code: 137}}, bad, "", "failed error agent_failed false"},
	} {
		o := tc.outcome
		o.out = &output{tally: tally.New()}
		o.out.tally.Ends = tc.ends
		d := &decision{adapter: a, secrets: redact.New(), outcome: o, limits: tally.Limits{MaxTokens: 9}}
		d.adapter.Output = tc.output
		d.report.Exit.Code = o.exit.Code
		if o.exit.Signal != 0 {
			d.report.Exit.Signal = o.exit.Signal.String()
		}
		_, err := d.decide()
		got := d.report.Status + " " + d.report.StopReason
		if e, ok := errors.AsType[*skill.Error](err); ok {
			got += fmt.Sprintf(" %s %v", e.Code, e.Retryable)
			if e.Hint == "" && e.Code != "cancelled" && e.Code != "timeout" {
				t.Errorf("%s: %v has no hint", tc.name, e)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestErrorsHoldNoSecrets checks that neither the message nor the details of an error hold a secret.
func TestErrorsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	secrets := redact.New("hunter2-hunter2")
	o := outcome{out: &output{tally: tally.New()}}
	o.out.tally.Ends = []tally.Ending{{Failed: true, Message: "no access with hunter2-hunter2"}}
	d := &decision{secrets: secrets, outcome: o, report: report{FinalText: "hunter2-hunter2", Errors: []string{"hunter2-hunter2"}}}
	_, err := d.decide()
	raw, _ := json.Marshal(err)
	if err == nil || strings.Contains(err.Error()+string(raw), "hunter2") {
		t.Errorf("the error is %v, %s", err, raw)
	}
}

// TestJudgeByInput checks the precedence: deny, allow, mode. No pattern matches a tool without a name.
func TestJudgeByInput(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind, name, mode string
		allow, deny      []string
		want             acp.Verdict
	}{
		{"edit", "Write", modeBypass, nil, nil, acp.Allow},
		{"edit", "Write", modeAsk, nil, nil, acp.Ask},
		{"edit", "Write", "plan", nil, nil, acp.Deny},
		{"edit", "Write", "", nil, nil, acp.Deny},
		{"edit", "Write", modeAsk, []string{"edit"}, nil, acp.Allow},
		{"edit", "Write", modeAsk, []string{"Wri*"}, nil, acp.Allow},
		{"edit", "Write", modeAsk, []string{"wri*"}, nil, acp.Ask},
		{"edit", "Write", modeBypass, []string{"edit"}, []string{"Write"}, acp.Deny},
		{"edit", "Write", modeBypass, nil, []string{"*"}, acp.Deny},
		{"edit", "", modeAsk, []string{""}, nil, acp.Ask},
		{"edit", "mcp/x", modeAsk, []string{"mcp*"}, nil, acp.Ask}, // * matches no slash
	} {
		if got := judgeByInput(acp.Request{Kind: tc.kind, Name: tc.name}, tc.mode, tc.allow, tc.deny); got != tc.want {
			t.Errorf("judgeByInput(%s %s, %q, %q, %q) = %v, want %v", tc.kind, tc.name, tc.mode, tc.allow, tc.deny, got, tc.want)
		}
	}
}

// TestAnswersApply checks that an approval applies once and a rejection always, and only to the request that was decided.
func TestAnswersApply(t *testing.T) {
	t.Parallel()
	l := &launch{answers: []permissionAnswer{{SHA256: "a", Allowed: true}, {SHA256: "b"}, {SHA256: "", Allowed: true}, {SHA256: "a", Allowed: true}}}
	var got []acp.Verdict
	for _, sum := range []string{"a", "a", "a", "b", "b", "c", ""} {
		got = append(got, l.applyAnswers(acp.Request{SHA256: sum}))
	}
	if want := []acp.Verdict{acp.Allow, acp.Allow, acp.Ask, acp.Deny, acp.Deny, acp.Ask, acp.Ask}; !slices.Equal(got, want) {
		t.Errorf("verdicts %v, want %v", got, want)
	}
	if l.forgetUse(); l.applyAnswers(acp.Request{SHA256: "a"}) != acp.Allow {
		t.Error("an approval does not apply in the next session")
	}
}

// TestSessionFiles checks that no session id leads out of the home.
func TestSessionFiles(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"0123456789": "/s/0123456789/01234567.jsonl", "short": "/s/short/short.jsonl",
		"": "", "a/b": "", `a\b`: "", "*": "", "a?": "", "[a]": "", ".": "", "..": "",
	} {
		got, ok := expandSession("{home}/s/{session}/{session_head}.jsonl", id)
		if ok != (want != "") || ok && got != want {
			t.Errorf("expandSession of %q = %q, %v, want %q", id, got, ok, want)
		}
	}
}

// TestExcludesAreUndone checks that undoing removes our pattern from info/exclude and keeps the changes of other programs.
func TestExcludesAreUndone(t *testing.T) {
	t.Parallel()
	const pattern = "/A.md"
	for _, tc := range []struct {
		name, before, during string
		change               func(string) string
		after                string
	}{
		{"absent", "", "/A.md\n", nil, ""},
		{"present", "x\n", "x\n/A.md\n", nil, "x\n"},
		{"without an end of line", "x", "x\n/A.md\n", nil, "x"},
		{"appended to", "x\n", "x\n/A.md\n", func(s string) string { return s + "y\n" }, "x\ny\n"},
		{"the end of a line", "docs/A.md\nx\n", "docs/A.md\nx\n/A.md\n", func(s string) string { return s + "y\n" }, "docs/A.md\nx\ny\n"},
		{"the last line", "x\n", "x\n/A.md\n", func(string) string { return "y\n/A.md" }, "y\n"},
		{"gone already", "x\n", "x\n/A.md\n", func(string) string { return "y\n" }, "y\n"},
	} {
		dir := t.TempDir()
		root, err := workspace.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		info := filepath.Join(dir, ".git", "info")
		if err := os.MkdirAll(info, 0o700); err != nil {
			t.Fatal(err)
		}
		read := func() string {
			raw, err := os.ReadFile(filepath.Join(info, "exclude"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			return string(raw)
		}
		write := func(text string) {
			if err := os.WriteFile(filepath.Join(info, "exclude"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if tc.before != "" {
			write(tc.before)
		}
		f := &files{call: &skill.Call{Root: root}}
		if err := f.excludeFromGit("A.md"); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != tc.during || !strings.Contains(got, pattern) {
			t.Errorf("%s: during the call %q, want %q", tc.name, got, tc.during)
		}
		if tc.change != nil {
			write(tc.change(read()))
		}
		f.undoAll()
		if got := read(); got != tc.after {
			t.Errorf("%s: after the call %q, want %q", tc.name, got, tc.after)
		}
	}
}

// TestInputsAreChecked checks that each error of an input names a member.
func TestInputsAreChecked(t *testing.T) {
	t.Parallel()
	events := adapter.Adapter{Name: "x", Programs: []string{"x"}, Modes: []string{"ask", modeBypass}}
	text, acps := events, events
	text.Output, acps.Output = "text", adapter.OutputACP
	for _, tc := range []struct {
		name    string
		adapter adapter.Adapter
		input   string
		want    string
	}{
		{"nothing", events, `{}`, ""},
		{"the longest time", events, `{"timeout_s":604800}`, ""},
		{"a longer one", events, `{"timeout_s":604801}`, "/timeout_s"},
		{"no time", events, `{"timeout_s":-1}`, "/timeout_s"},
		{"a negative silence", events, `{"idle_s":-1}`, "/idle_s"},
		{"a negative limit", events, `{"limits":{"max_turns":-1}}`, "/limits"},
		{"a limit that cannot be kept", text, `{"limits":{"max_tokens":1}}`, "does not report how many turns"},
		{"an unknown wish", events, `{"usage_limit":"hope"}`, "/usage_limit"},
		{"a session of a new one", events, `{"session":{"id":"s"}}`, "/session/id"},
		{"no session to resume", events, `{"session":{"mode":"resume"}}`, "/session/id"},
		{"no sessions", events, `{"session":{"mode":"fork","id":"s"}}`, "has no sessions"},
		{"an unknown mode of sessions", events, `{"session":{"mode":"old","id":"s"}}`, "/session/mode"},
		{"an unknown mode", events, `{"permissions":{"mode":"plan"}}`, "does not know permissions.mode"},
		{"a bad pattern", acps, `{"permissions":{"allow":["ok","["]}}`, "/permissions"},
		{"a bad pattern to deny", acps, `{"permissions":{"deny":["["]}}`, "/permissions"},
		{"rules of the agent's own", events, `{"permissions":{"allow":["Bash(["]}}`, ""},
		{"servers for none", events, `{"mcp":{"servers":{"a":{"command":"x"}}}}`, "cannot be given MCP servers"},
		{"ours for none", events, `{"mcp":{"spritekit":true}}`, "cannot be given MCP servers"},
		{"none for none", events, `{"mcp":{"spritekit":false}}`, ""},
		{"a server", acps, `{"mcp":{"servers":{"a":{"command":"x"}}}}`, ""},
		{"a server without a command", acps, `{"mcp":{"servers":{"a":{}}}}`, "/mcp/servers/a"},
		{"our own server", acps, `{"mcp":{"servers":{"` + ownServer + `":{"command":"x"}}}}`, "/mcp/servers/" + ownServer},
		{"a configuration", events, `{"config":{"a":1}}`, "no configuration"},
		{"negative prices", events, `{"prices":{"input":1,"output":-1}}`, "/prices"},
		{"a negative price of cached tokens", events, `{"prices":{"cached":-1}}`, "/prices"},
		{"no command", adapter.Adapter{Name: "command", Output: "text", Modes: events.Modes}, `{"command":null}`, "/command"},
	} {
		var in input
		if err := json.Unmarshal([]byte(tc.input), &in); err != nil {
			t.Fatal(err)
		}
		err := in.validate(tc.adapter)
		said := ""
		if err != nil {
			raw, _ := json.Marshal(err)
			said = err.Error() + string(raw)
		}
		if (err != nil) != (tc.want != "") || !strings.Contains(said, tc.want) {
			t.Errorf("%s: %s, want %q", tc.name, said, tc.want)
		}
	}
	var in input
	if err := in.validate(events); err != nil || in.Limits.WallS != 3600 || in.Limits.IdleS != 1800 || in.Session.Mode != modeNew || in.Permissions.Mode != modeBypass {
		t.Errorf("the usual input is %+v, %v", in, err)
	}
	in = input{}
	if err := in.validate(text); err != nil || in.Limits.IdleS != 0 {
		t.Errorf("an agent that prints text may be silent for %g s, %v; want any time", in.Limits.IdleS, err)
	}
}

func TestPlanProgress(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]string{
		`[]`: "0 ", `[{"status":"completed","content":"a"},{"status":"pending","content":"b"},{"content":"c"}]`: "1 b",
		`[7,null,{"status":7,"content":["x"]},{"status":"completed"}]`: `1 ["x"]`,
	} {
		var entries []any
		if err := json.Unmarshal([]byte(plan), &entries); err != nil {
			t.Fatal(err)
		}
		done, next := planProgress(entries)
		if got := fmt.Sprintf("%d %s", done, next); got != want {
			t.Errorf("planProgress(%s) = %q, want %q", plan, got, want)
		}
	}
}

// TestRecordsOfManyFiles checks that the record of a call that waits is read again, however many files have changed.
func TestRecordsOfManyFiles(t *testing.T) {
	t.Parallel()
	root, err := workspace.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	c := &skill.Call{ID: "call-1", Root: root}
	var p pending
	for i := range 100_000 {
		p.Changed = append(p.Changed, fmt.Sprintf("node_modules/package/file-%d.js", i))
	}
	if err := p.save(c); err != nil {
		t.Fatal(err)
	}
	if got, err := loadPending(c); err != nil || len(got.Changed) != len(p.Changed) {
		t.Errorf("loadPending = %d files, %v", len(got.Changed), err)
	}
}
