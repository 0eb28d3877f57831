package manifests_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The demo's input carries its script agent and its prompt, so that the flow needs nothing but that one file; both are
// kept as files of their own to be read.
func TestDemoInput(t *testing.T) {
	var input struct {
		AgentCommand []string `json:"agent_command"`
		Prompt       string   `json:"prompt"`
	}
	if err := json.Unmarshal(read(t, "demo/input.json"), &input); err != nil {
		t.Fatal(err)
	}
	script := string(read(t, "demo/agent.sh"))
	if len(input.AgentCommand) != 3 || input.AgentCommand[2] != script {
		t.Errorf("demo/input.json: agent_command is not sh -c with demo/agent.sh: %q", input.AgentCommand)
	}
	if input.Prompt != string(read(t, "demo/prompt.md")) {
		t.Error("demo/input.json: prompt is not demo/prompt.md")
	}
}

// The demo's repository is red before the script agent has worked on it and green after.
func TestDemoAgentMakesRedGreen(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a Go module twice")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("demo/repo")); err != nil {
		t.Fatal(err)
	}
	run := func(stdin string, name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("", "go", "test", "./..."); err == nil || !strings.Contains(out, "--- FAIL: TestMake") {
		t.Fatalf("before: %v\n%s", err, out)
	}
	agent, err := filepath.Abs("demo/agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run("make it green", "sh", agent); err != nil {
		t.Fatalf("agent: %v\n%s", err, out)
	}
	if out, err := run("", "go", "test", "./..."); err != nil {
		t.Fatalf("after: %v\n%s", err, out)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
