package skills

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/agent/agenttest"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// buildDir is a folder that goes when the tests are over, "" when there can be none.
var buildDir = sync.OnceValue(func() string {
	dir, _ := os.MkdirTemp("", "spritekit-")
	return dir
})

// built is the real spritekit, which agents start as their MCP server.
var built = sync.OnceValues(func() (string, error) {
	out := filepath.Join(buildDir(), "spritekit")
	for to, pkg := range map[string]string{out: "spritekit", out + "-extra": "spritekit/extra"} {
		build := exec.Command("go", "build", "-trimpath", "-o", to, "github.com/spritekit/lattice/"+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			return "", &exec.Error{Name: string(text), Err: err}
		}
	}
	return out, nil
})

// realAgent is a sprite in which a vendor's program runs against a scripted model.
type realAgent struct {
	*sprite
	agent string
	model *agenttest.Server
	more  map[string]any // members of every input
}

// npmFolder is where CI installs the vendors' programs.
func npmFolder(t *testing.T, program string) string {
	t.Helper()
	dir := os.Getenv("LATTICE_NPM_CACHE")
	if dir == "" {
		dir = "/var/tmp/lattice-ci-npm"
	}
	bin := filepath.Join(dir, "node_modules", ".bin")
	if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
		t.Skipf("%s is not there: %v", program, err)
	}
	return bin
}

const canary = "sk-canary-0f3a9b7c2d"

func newRealAgent(t *testing.T, agent string, script agenttest.Script) *realAgent {
	t.Helper()
	bin := npmFolder(t, agent)
	self, err := built()
	if err != nil {
		t.Fatal(err)
	}
	s := newSprite(t)
	a := &realAgent{sprite: s, agent: agent, model: agenttest.Serve(t, script), more: map[string]any{"agent": agent}}
	path := strings.Join([]string{filepath.Dir(self), bin, os.Getenv("PATH")}, string(filepath.ListSeparator))
	s.env.Child = append(s.env.Child, "PATH="+path)
	switch agent {
	case "claude":
		s.env.Child = append(s.env.Child, "ANTHROPIC_BASE_URL="+a.model.URL, "ANTHROPIC_API_KEY="+canary, "CLAUDE_CODE_MAX_RETRIES=1")
	case "codex":
		s.env.Child = append(s.env.Child, "OPENAI_API_KEY="+canary)
		a.more["model"] = "gpt-scripted"
		a.more["config"] = map[string]any{
			"model_provider": "scripted",
			"model_providers": map[string]any{"scripted": map[string]any{
				"name": "scripted", "base_url": a.model.URL + "/v1", "env_key": "CODEX_API_KEY", "wire_api": "responses",
				"request_max_retries": 1, "stream_max_retries": 1, "supports_websockets": false,
			}},
		}
	case "gemini":
		s.env.Child = append(s.env.Child, "GEMINI_API_KEY="+canary, "GOOGLE_GEMINI_BASE_URL="+a.model.URL)
		a.more["model"] = "gemini-2.5-flash"
	case "opencode":
		a.more["config"] = map[string]any{
			"model": "scripted/one", "small_model": "scripted/one", "enabled_providers": []string{"scripted"},
			"provider": map[string]any{"scripted": map[string]any{
				"npm": "@ai-sdk/openai-compatible", "options": map[string]any{"baseURL": a.model.URL + "/v1", "apiKey": "none"},
				"models": map[string]any{"one": map[string]any{"tool_call": true, "limit": map[string]any{"context": 200000, "output": 8000}}},
			}},
		}
	}
	return a
}

// tool is a call of one of our skills through MCP, as this agent makes it.
func (a *realAgent) tool(skill string, input map[string]any) agenttest.Call {
	name := strings.ReplaceAll(skill, ".", "_")
	if a.agent == "codex" {
		return agenttest.Call{Name: name, Namespace: "mcp__spritekit", Input: input}
	}
	return agenttest.Call{Name: "mcp__spritekit__" + name, Input: input}
}

// shell is a command in the agent's own shell.
func (a *realAgent) shell(command string) agenttest.Call {
	input := map[string]any{"command": command, "description": "run it"}
	switch a.agent {
	case "codex":
		return agenttest.Call{Name: "exec_command", Input: map[string]any{"cmd": command}}
	case "gemini":
		return agenttest.Call{Name: "run_shell_command", Input: input}
	case "opencode":
		return agenttest.Call{Name: "bash", Input: input}
	}
	return agenttest.Call{Name: "Bash", Input: input}
}

func (a *realAgent) run(input map[string]any) outcome {
	a.t.Helper()
	whole := map[string]any{"prompt": "do it", "tools": []string{"*"}}
	for _, members := range []map[string]any{a.more, input} {
		for key, value := range members {
			whole[key] = value
		}
	}
	if mcp, ok := whole["mcp"].(map[string]any); ok && mcp["spritekit"] == false {
		delete(whole, "tools")
	}
	return a.call("agent.run", quote(whole))
}

// done is run that has to end well.
func (a *realAgent) done(input map[string]any) map[string]any {
	a.t.Helper()
	o := a.run(input)
	if o.exit != 0 {
		a.t.Fatalf("agent.run = exit %d, %s\n%s", o.exit, o.stdout, a.transcripts())
	}
	return o.data(a.t)
}

// resumedTwice checks that a call which has ended with data is not resumed a second time: it returns the same result, and neither
// asks the model nor leaves a process.
func (a *realAgent) resumedTwice(input, data, inputs map[string]any) {
	a.t.Helper()
	asked := len(a.model.Requests())
	a.resume(a.env.CallID, inputs)
	if diff := cmp.Diff(data, a.done(input)); diff != "" {
		a.t.Errorf("resumed twice, agent.run (-first +second):\n%s", diff)
	}
	if n := len(a.model.Requests()); n != asked {
		a.t.Errorf("resumed twice, it asks the model %d times more", n-asked)
	}
	a.allDead()
}

func (a *realAgent) transcripts() string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(a.dir, protocol.TranscriptDir, "*"))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		all.Write(data[max(0, len(data)-20_000):])
	}
	return all.String()
}

// eachAgent runs a test with each of the vendors' programs that is there.
func eachAgent(t *testing.T, test func(t *testing.T, agent string)) {
	for _, agent := range []string{"claude", "codex"} {
		t.Run(agent, func(t *testing.T) { test(t, agent) })
	}
}

// script is set after the agent is known, as tools have other names in each.
func (a *realAgent) says(steps ...agenttest.Step) { a.model.Play(agenttest.Script{Steps: steps}) }

// The schemas of tools are read in every turn: an agent is offered three of ours, and more where the input says so.
func TestARealAgentHasFewToolsByDefault(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		for _, test := range []struct {
			tools any
			want  []string
		}{
			{nil, []string{"ask_user", "notify_user", "test_run"}},
			{[]string{"git.st*", "fs.read"}, []string{"fs_read", "git_stash", "git_status"}},
		} {
			a := newRealAgent(t, agent, agenttest.Script{})
			a.says(agenttest.Step{Text: "done"})
			a.done(map[string]any{"tools": test.tools})
			last, _ := a.model.Last()
			var got []string
			for _, name := range last.Tools {
				if rest, ok := strings.CutPrefix(name, "mcp__spritekit"); ok {
					got = append(got, strings.TrimLeft(rest, "_/"))
				}
			}
			if slices.Sort(got); !slices.Equal(got, test.want) {
				t.Errorf("with tools %v the agent has %q, want %q", test.tools, got, test.want)
			}
		}
		a := newRealAgent(t, agent, agenttest.Script{})
		if o := a.run(map[string]any{"tools": []string{"fs.raed"}}); o.exit != 2 || !strings.Contains(o.stdout, "names no skill") {
			t.Errorf("a tool that is no skill: exit %d, %s", o.exit, o.stdout)
		}
	})
}

func TestARealAgentWorksThroughOurSkills(t *testing.T) {
	eachAgent(t, func(t *testing.T, agent string) {
		a := newRealAgent(t, agent, agenttest.Script{})
		a.origin()
		a.must("git.clone", `{"url":"origin"}`)
		a.write("repo/check.sh", "grep -q fixed README.md\n")
		call := func(text, skill string, input map[string]any) agenttest.Step {
			return agenttest.Step{Text: text, Calls: []agenttest.Call{a.tool(skill, input)}}
		}
		a.says(
			call("I read it", "fs.read", map[string]any{"path": "repo/README.md"}),
			call("I mend it", "fs.write", map[string]any{"path": "repo/README.md", "content": "fixed\n"}),
			call("I test it", "test.run", map[string]any{"cwd": "repo", "command": "sh check.sh"}),
			call("I add it", "git.add", map[string]any{"repo": "repo", "paths": []string{"README.md"}}),
			call("I commit it", "git.commit", map[string]any{"repo": "repo", "message": "mend", "author": map[string]any{"name": "A", "email": "a@example.com"}}),
			agenttest.Step{Text: "all is mended; the key is " + canary},
		)
		data := a.done(map[string]any{"cwd": "repo", "mcp": map[string]any{"spritekit": true}})
		last, _ := a.model.Last()
		if got := a.git("repo", "log", "-1", "--format=%s"); got != "mend" {
			t.Errorf("the last commit is %q\n%q", got, last.Results)
		}
		if len(last.Results) != 5 || !strings.Contains(last.Results[0], "hello") || !strings.Contains(last.Results[2], "passed") {
			t.Errorf("the tools told the model %q", last.Results)
		}
		calls := data["tool_calls"].(map[string]any)
		usage := data["usage"].(map[string]any)
		if data["status"] != "done" || data["stop_reason"] != "end" || data["session_id"] == "" || data["resumable"] != true {
			t.Errorf("agent.run = %v", data)
		}
		if calls["total"] != 5.0 || calls["failed"] != 0.0 || usage["input"] != 6000.0 || usage["output"] != 300.0 || data["turns"].(float64) < 6 {
			t.Errorf("turns %v, calls %v, usage %v", data["turns"], calls, usage)
		}
		if got := quote(data["files_changed"]); got != `["README.md"]` {
			t.Errorf("files_changed %s", got)
		}
		if source := data["cost"].(map[string]any)["source"]; source != map[string]string{"claude": "reported", "codex": "unknown"}[agent] {
			t.Errorf("cost %v", data["cost"])
		}
		if data["final_text"] != "all is mended; the key is [redacted]" {
			t.Errorf("final_text %q", data["final_text"])
		}
		a.nowhere(canary)
	})
}

// nowhere fails when a text is in a file of the workspace, the agent's own records aside: what the model says is in there.
func (a *realAgent) nowhere(text string) {
	a.t.Helper()
	out, err := exec.Command("grep", "-rlsa", "--exclude-dir=homes", text, a.dir).Output()
	if err == nil {
		a.t.Errorf("%q is in %s", text, out)
	}
}
