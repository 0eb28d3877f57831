package skills

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Findings are confirmed only by a reproduction that ran: red at the commit, green with the fix or without the named commit.
func TestConfirm(t *testing.T) {
	s := newSprite(t)
	verifiable(s)
	s.write("repo/code", "echo 5\n")
	s.git("repo", "commit", "-q", "-a", "-m", "second")
	s.write("repo/code", "echo 6 # not committed\n")
	const fix = "--- a/code\n+++ b/code\n@@ -1 +1 @@\n-echo 5\n+echo 4"
	type reproduce struct {
		Files   map[string]string `json:"files,omitempty"`
		Command any               `json:"command"`
	}
	type finding struct {
		Title     string     `json:"title"`
		Reproduce *reproduce `json:"reproduce,omitempty"`
		Fix       string     `json:"fix,omitempty"`
		Revert    string     `json:"revert,omitempty"`
	}
	check := &reproduce{Command: "sh tests/check.sh"}
	own := &reproduce{Files: map[string]string{"new/own.sh": "sh tests/check.sh\n"}, Command: []string{"sh", "new/own.sh"}}
	cases := []struct {
		finding
		status, reason string
	}{
		{finding{"fix", check, fix, ""}, "confirmed", "green with the proposed fix"},
		{finding{"revert", check, "", "HEAD"}, "confirmed", "green without HEAD"},
		{finding{"own files", own, fix, ""}, "confirmed", "green with the proposed fix"},
		{finding{"fix\nof the check", &reproduce{Files: map[string]string{"tests/check.sh": "exit 1\n"}, Command: "sh tests/check.sh"}, fix, ""}, "unconfirmed", "and red with the proposed fix"},
		{finding{"green", &reproduce{Command: "true"}, fix, ""}, "unconfirmed", "is green at"},
		{finding{"no program", &reproduce{Command: "no-such-program"}, fix, ""}, "unconfirmed", "not run (error) at"},
		{finding{"no reproduction", nil, fix, ""}, "unconfirmed", "no reproduction"},
		{finding{"no fix", check, "", ""}, "unconfirmed", "no fix"},
		{finding{"bad fix", check, strings.ReplaceAll(fix, "5", "7"), ""}, "unconfirmed", "does not apply"},
		{finding{"unknown commit", check, "", "0000000"}, "unconfirmed", "does not apply"},
		{finding{"escape", &reproduce{Files: map[string]string{"../x": ""}, Command: "false"}, fix, ""}, "unconfirmed", "not a file of the repository"},
		{finding{"git", &reproduce{Files: map[string]string{".GIT/config": ""}, Command: "false"}, fix, ""}, "unconfirmed", "not a file of the repository"},
	}
	var list []finding
	for _, c := range cases {
		list = append(list, c.finding)
	}
	block, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	input, err := json.Marshal(map[string]string{"text": "Seen.\n\n```findings\n" + string(block) + "\n```\nThe end."})
	if err != nil {
		t.Fatal(err)
	}
	data := s.must("test.confirm", string(input))
	for i, raw := range data["findings"].([]any) {
		got := raw.(map[string]any)
		if got["status"] != cases[i].status || !strings.Contains(got["reason"].(string), cases[i].reason) {
			t.Errorf("%s: %v, want %s, %s", cases[i].Title, got, cases[i].status, cases[i].reason)
		}
	}
	report := data["report"].(string)
	if !strings.HasPrefix(report, "Seen.\n\nThe end.\n\n## Findings\n\n- confirmed: fix: red at ") || strings.Count(report, "\n- unconfirmed: ") != 9 || data["confirmed"] != 3.0 {
		t.Errorf("the report is %s", report)
	}
	left, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "confirm-") {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}

func TestConfirmWithoutFindings(t *testing.T) {
	s := newSprite(t)
	for text, want := range map[string]string{
		"All is well.":                          "All is well.\n\n## Findings\n\nThe review lists no finding that could be confirmed.\n",
		"x\n```findings\n[]\n```":               "x\n\n## Findings\n\nThe review has no findings.\n",
		"x\n```findings\n[{\"title\": 1}]\n```": "not valid",
		"x\n```findings\n[]":                    "has no end",
	} {
		input, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		if report := s.must("test.confirm", string(input))["report"].(string); !strings.Contains(report, want) {
			t.Errorf("%q gives %q, want %q", text, report, want)
		}
	}
}

// TestConfirmNeedsACommit checks that findings about something other than a commit are refused.
func TestConfirmNeedsACommit(t *testing.T) {
	s := newSprite(t)
	verifiable(s)
	for _, revision := range []string{"HEAD^{tree}", "HEAD^{tree}^{tree}"} {
		input, err := json.Marshal(map[string]string{"commit": revision, "text": "x\n```findings\n[{\"title\":\"a\",\"fix\":\"b\",\"reproduce\":{\"command\":\"false\"}}]\n```"})
		if err != nil {
			t.Fatal(err)
		}
		s.fails("test.confirm", string(input), 2, "bad_input")
	}
}
