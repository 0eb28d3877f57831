package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/skills/agent/agenttest"
)

// mcpClient speaks version 2026-07-28 of the Model Context Protocol with lattice mcp.
type mcpClient struct {
	t            *testing.T
	in           io.WriteCloser
	out          *bufio.Reader
	kill, wait   func() error
	capabilities map[string]any
	last         int
}

// mcpHome returns the environment of a state directory, whose leader ends with the test.
func mcpHome(t *testing.T) []string {
	t.Helper()
	dir, err := os.MkdirTemp(buildDir, "mcp-")
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+dir, "LATTICE_HOME="+dir+"/home", "PATH="+buildDir+":"+os.Getenv("PATH"))
	t.Cleanup(func() {
		if out, err := mcpCommand(t, env, "serve", "--stop").CombinedOutput(); err != nil {
			t.Errorf("lattice serve --stop: %v\n%s", err, out)
		}
	})
	return env
}

func mcpCommand(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(lookLattice(t), args...)
	cmd.Dir, cmd.Env = buildDir, env
	return cmd
}

func startMCP(t *testing.T, env []string, args ...string) *mcpClient {
	t.Helper()
	cmd := mcpCommand(t, env, append([]string{"mcp"}, args...)...)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &mcpClient{t: t, in: in, out: bufio.NewReader(out), kill: cmd.Process.Kill, wait: cmd.Wait, capabilities: map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill() // if it has not ended
		_ = c.wait()
	})
	return c
}

// call sends a request and returns its answer: the result, or the error.
func (c *mcpClient) call(method string, params map[string]any) string {
	c.t.Helper()
	c.last++
	params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": c.capabilities, "io.modelcontextprotocol/clientInfo": map[string]string{"name": "probe", "version": "1"}}
	request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.last, "method": method, "params": params})
	if err == nil {
		_, err = c.in.Write(append(request, '\n'))
	}
	for err == nil {
		var line []byte
		if line, err = c.out.ReadBytes('\n'); err != nil {
			break
		}
		var answer struct {
			ID            int
			Result, Error json.RawMessage
		}
		if err = json.Unmarshal(line, &answer); err == nil && answer.ID == c.last {
			return string(answer.Result) + string(answer.Error)
		}
	}
	c.t.Fatalf("%s: %v", method, err)
	return ""
}

// tool calls a tool, and expects parts of its answer.
func (c *mcpClient) tool(name string, arguments map[string]any, want ...string) string {
	c.t.Helper()
	answer := c.call("tools/call", map[string]any{"name": name, "arguments": arguments})
	for _, part := range want {
		if !strings.Contains(answer, part) {
			c.t.Errorf("%s %v = %s, want %s", name, arguments, answer, part)
		}
	}
	return answer
}

// task polls a task until it has a status.
func (c *mcpClient) task(id, status string) string {
	c.t.Helper()
	for {
		answer := c.call("tasks/get", map[string]any{"taskId": id})
		if strings.Contains(answer, `"status":"`+status+`"`) {
			return answer
		}
		if !strings.Contains(answer, `"status":"working"`) {
			c.t.Fatalf("the task is %s, want %s", answer, status)
		}
	}
}

func memberOf(t *testing.T, object, name string) (value string) {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &all); err != nil {
		t.Fatalf("%v: %s", err, object)
	}
	_ = json.Unmarshal(all[name], &value) // "" if there is none
	return value
}

// TestMCPSprites has a client work in a sprite. The audit log names the client.
func TestMCPSprites(t *testing.T) {
	env := mcpHome(t)
	c := startMCP(t, env, "--tools", "sprite_*,file_*")
	c.tool("sprite_create", map[string]any{"sprite": "box"}, `"name":"box"`)
	c.tool("sprite_create", map[string]any{"sprite": "bad", "image": "/etc/passwd"}, "image_is_path")
	c.tool("file_write", map[string]any{"sprite": "box", "path": "/workspace/a", "content": "one"}, `"bytes":3`)
	c.tool("sprite_checkpoint", map[string]any{"sprite": "box", "comment": "first"}, `"id":"v1"`)
	c.tool("sprite_exec", map[string]any{"sprite": "box", "command": "cat a; echo $X >&2; echo two >a; exit 3", "env": map[string]string{"X": "err"}}, `"structuredContent":{"exit_code":3,"stdout":"one","stderr":"err\n"}`)
	c.tool("sprite_fork", map[string]any{"sprite": "box", "new_sprite": "copy", "checkpoint": "v1"}, `"name":"copy"`)
	c.tool("file_read", map[string]any{"sprite": "copy", "path": "/workspace/a"}, `{"text":"one"}`)
	c.tool("sprite_restore", map[string]any{"sprite": "box", "checkpoint": "v1"}, `"restored":"v1"`)
	c.tool("file_read", map[string]any{"sprite": "box", "path": "/workspace/a"}, `{"text":"one"}`)
	c.tool("file_read", map[string]any{"sprite": "box", "path": "/workspace/none"}, `"isError":true`, `"code":"not_found"`)
	c.tool("sprite_checkpoints", map[string]any{"sprite": "box"}, `"comment":"first"`)
	c.tool("sprite_remove", map[string]any{"sprite": "copy"}, `"removed":"copy"`)
	c.tool("flow_run", map[string]any{"flow": "human-approve"}, "unknown tool")
	c.in.Close()
	if err := c.wait(); err != nil {
		t.Errorf("after the end of its input lattice mcp ends with %v", err)
	}
	out, err := mcpCommand(t, env, "audit", "ls", "--capability", "sprites").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "via mcp probe") {
		t.Errorf("the audit log does not name the client: %v\n%s", err, out)
	}
}

// TestMCPTasks has a client run flows as tasks. It decides only with --decide, and a task outlives the server.
func TestMCPTasks(t *testing.T) {
	env := mcpHome(t)
	first := startMCP(t, env)
	started := first.tool("flow_run", map[string]any{"flow": "human-approve", "input": map[string]any{"prompt": "Go on?"}}, `"resultType":"task"`)
	id := memberOf(t, started, "taskId")
	waits := first.task(id, "input_required")
	if !strings.Contains(waits, "lattice approve "+id) || strings.Contains(waits, `"decision"`) {
		t.Errorf("the task waits with %s, want a request that says how a person decides", waits)
	}
	var asked struct{ InputRequests map[string]any }
	if err := json.Unmarshal([]byte(waits), &asked); err != nil || len(asked.InputRequests) != 1 {
		t.Fatalf("the task has the requests %v, %v", asked.InputRequests, err)
	}
	accept := map[string]any{"taskId": id, "inputResponses": map[string]any{}}
	for key := range asked.InputRequests {
		accept["inputResponses"] = map[string]any{key: map[string]any{"action": "accept", "content": map[string]any{"decision": "approve"}}}
	}
	first.call("tasks/update", accept)
	first.task(id, "input_required") // nothing was decided
	first.tool("run_decide", map[string]any{}, "unknown tool")
	first.tool("waiting_list", map[string]any{}, id)
	first.tool("flow_run", map[string]any{"flow": "-"}, "standard input belongs to the protocol")
	first.tool("flow_run", map[string]any{"flow": "no-such-flow"}, "flow_not_found")
	if unknown := first.call("tasks/get", map[string]any{"taskId": "run_none"}); !strings.Contains(unknown, `"code":-32602`) {
		t.Errorf("an unknown task is %s", unknown)
	}
	declared := first.capabilities
	first.capabilities = map[string]any{}
	if refused := first.call("tasks/get", map[string]any{"taskId": id}); !strings.Contains(refused, `"code":-32021`) {
		t.Errorf("a client without the extension gets %s", refused)
	}
	first.tool("run_show", map[string]any{"run": id}, `"status":"waiting"`)
	first.capabilities = declared
	first.in.Close()

	second := startMCP(t, env, "--decide")
	if form := second.task(id, "input_required"); !strings.Contains(form, `"enum":["approve","reject"]`) {
		t.Errorf("with --decide the task waits with %s", form)
	}
	second.call("tasks/update", accept)
	if ended := second.task(id, "completed"); !strings.Contains(ended, `"approved":true`) || strings.Contains(ended, `"isError"`) {
		t.Errorf("the task ended as %s", ended)
	}
	another := memberOf(t, second.tool("flow_run", map[string]any{"flow": "human-approve"}), "taskId")
	second.task(another, "input_required")
	second.call("tasks/cancel", map[string]any{"taskId": another})
	second.task(another, "cancelled")
}

// TestMCPAgents has real agents call the tools.
func TestMCPAgents(t *testing.T) {
	bin := npmBin()
	for _, agent := range []string{"claude", "codex"} {
		t.Run(agent, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(bin, agent)); err != nil {
				t.Skipf("%s is not there: %v", agent, err)
			}
			t.Parallel()
			model := agenttest.Serve(t, agenttest.Script{Steps: []agenttest.Step{{Text: "I run it", Calls: []agenttest.Call{mcpCall(agent, "flow_run", map[string]any{"flow": "human-approve", "wait_s": 30})}},
				{Text: "I look", Calls: []agenttest.Call{mcpCall(agent, "waiting_list", map[string]any{})}}, {Text: "it waits for you"}}})
			env := mcpHome(t)
			cmd := agentWithLattice(t, agent, bin, model.URL)
			cmd.Env = append(env, "PATH="+bin+":"+buildDir+":"+os.Getenv("PATH"), "ANTHROPIC_BASE_URL="+model.URL, "ANTHROPIC_API_KEY=sk-test", "OPENAI_API_KEY=sk-test", "CODEX_API_KEY=sk-test")
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", agent, err, out)
			}
			last, _ := model.Last()
			if len(last.Results) != 2 || !strings.Contains(last.Results[0], "waiting") || !strings.Contains(last.Results[1], "Go on?") {
				t.Errorf("the tools told the model %q\n%s", last.Results, out)
			}
			if slices.ContainsFunc(last.Tools, func(name string) bool { return strings.Contains(name, "run_decide") }) {
				t.Errorf("the agent may decide: %v", last.Tools)
			}
		})
	}
}

// TestMCPOverHTTP: lattice serve offers the tools to callers with tokens. Each does as much as its role allows, without a session and
// from no foreign page. The suite of the protocol and a real agent find it conforming.
func TestMCPOverHTTP(t *testing.T) {
	env := mcpHome(t)
	page := serveHTTP(t, env)
	token := map[string]string{"": ""}
	for _, role := range []string{"viewer", "operator", "admin"} {
		token[role] = createToken(t, env, role)
	}
	send := func(role, origin, tool, arguments string) (status int, answer string) {
		t.Helper()
		r, err := http.NewRequest("POST", page+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Cookie": {"lattice_session=none"}}
		if role != "" {
			r.Header.Set("Authorization", "Bearer "+token[role])
		}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for _, tt := range []struct {
		role, origin, tool, arguments string
		status                        int
		want                          string
	}{
		{"", "", "run_list", `{}`, 401, "token_missing"},
		{"viewer", "http://evil.example", "run_list", `{}`, 403, "foreign_origin"},
		{"viewer", "", "run_list", `{}`, 200, `"items":[]`},
		{"viewer", "", "sprite_list", `{}`, 200, `"items":[]`},
		{"viewer", "", "flow_run", `{"flow":"human-approve"}`, 200, "role_missing"},
		{"viewer", "", "sprite_create", `{"sprite":"box"}`, 200, "role_missing"},
		{"viewer", "", "file_read", `{"sprite":"box","path":"/etc/passwd"}`, 200, "role_missing"},
		{"admin", "", "flow_run", `{"flow":"/etc/passwd"}`, 200, "flow_not_found"},
		{"admin", "", "flow_run", `{"flow":"human-approve","input":{"prompt":"Go on?"},"wait_s":30}`, 200, `"status":"waiting"`},
		{"viewer", "", "waiting_list", `{}`, 200, "Go on?"},
		{"admin", "", "run_decide", `{}`, 200, "unknown tool"},
		{"admin", "", "board_tasks", `{}`, 200, "unknown tool"},
	} {
		if status, answer := send(tt.role, tt.origin, tt.tool, tt.arguments); status != tt.status || !strings.Contains(strings.ReplaceAll(answer, `\"`, `"`), tt.want) {
			t.Errorf("%s %s of %q from %q: %d %s, want %d %s", tt.tool, tt.arguments, tt.role, tt.origin, status, answer, tt.status, tt.want)
		}
	}
	var waiting []struct {
		RunID string `json:"run_id"`
	}
	text, err := mcpCommand(t, env, "waiting", "--json").Output()
	if err := errors.Join(err, json.Unmarshal(text, &waiting)); err != nil || len(waiting) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	cancel := `{"run":"` + waiting[0].RunID + `"}`
	if _, answer := send("viewer", "", "run_cancel", cancel); !strings.Contains(answer, "role_missing") {
		t.Errorf("a viewer cancels: %s", answer)
	}
	if _, answer := send("operator", "", "run_cancel", cancel); !strings.Contains(answer, "canceled") {
		t.Errorf("an operator cannot cancel: %s", answer)
	}
	log, err := mcpCommand(t, env, "audit", "ls").Output()
	if err != nil || !strings.Contains(string(log), "token:admin via mcp") {
		t.Errorf("the audit log does not name the caller: %v\n%s", err, log)
	}

	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // the suite has no token, and judges the Host that it sends
		u, _ := url.Parse(page)
		r.SetURL(u)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token["viewer"])
	}})
	defer proxy.Close()
	bin := npmBin()
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "dns-rebinding-protection"} {
		if _, err := os.Stat(filepath.Join(bin, "conformance")); err != nil {
			t.Skipf("the conformance suite of MCP is not there: %v", err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "node"), filepath.Join(bin, "conformance"), "server", "--url", proxy.URL+"/mcp", "--scenario", scenario)
		cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + buildDir}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "0 failed") {
			t.Errorf("%s: %v\n%s", scenario, err, out)
		}
	}
	for _, agent := range []string{"claude", "codex"} {
		t.Run(agent, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(bin, agent)); err != nil {
				t.Skipf("%s is not there: %v", agent, err)
			}
			model := agenttest.Serve(t, agenttest.Script{Steps: []agenttest.Step{{Text: "I look", Calls: []agenttest.Call{mcpCall(agent, "run_list", map[string]any{})}}, {Text: "done"}}})
			cmd := exec.Command(filepath.Join(bin, "claude"), "-p", "do it", "--strict-mcp-config", "--mcp-config",
				`{"mcpServers":{"lattice":{"type":"http","url":"`+page+`/mcp","headers":{"Authorization":"Bearer `+token["viewer"]+`"}}}}`, "--allowedTools", "mcp__lattice__run_list")
			if agent == "codex" {
				cmd = codexWith(bin, `{url="`+page+`/mcp",bearer_token_env_var="LATTICE_TOKEN"}`, model.URL)
			}
			cmd.Env = append(env, "PATH="+bin+":"+os.Getenv("PATH"), "ANTHROPIC_BASE_URL="+model.URL, "ANTHROPIC_API_KEY=sk-test", "OPENAI_API_KEY=sk-test", "CODEX_API_KEY=sk-test", "LATTICE_TOKEN="+token["viewer"])
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			last, _ := model.Last()
			if err != nil || len(last.Results) != 1 || !strings.Contains(last.Results[0], waiting[0].RunID) {
				t.Errorf("%v: the tools told the model %q\n%s", err, last.Results, out)
			}
		})
	}
}

// npmBin returns the folder of programs that npm installed.
func npmBin() string {
	folder := os.Getenv("LATTICE_NPM_CACHE")
	if folder == "" {
		folder = "/var/tmp/lattice-ci-npm"
	}
	return filepath.Join(folder, "node_modules", ".bin")
}

func mcpCall(agent, tool string, input map[string]any) agenttest.Call {
	if agent == "codex" {
		return agenttest.Call{Name: tool, Namespace: "mcp__lattice", Input: input}
	}
	return agenttest.Call{Name: "mcp__lattice__" + tool, Input: input}
}

// agentWithLattice returns the command of an agent that has lattice mcp as its only server.
func agentWithLattice(t *testing.T, agent, bin, model string) *exec.Cmd {
	t.Helper()
	lattice := lookLattice(t)
	if agent == "codex" {
		return codexWith(bin, `{command="`+lattice+`",args=["mcp"],env_vars=["LATTICE_HOME"]}`, model)
	}
	return exec.Command(filepath.Join(bin, agent), "-p", "do it", "--strict-mcp-config", "--mcp-config", `{"mcpServers":{"lattice":{"command":"`+lattice+`","args":["mcp"]}}}`, "--allowedTools", "mcp__lattice__flow_run,mcp__lattice__waiting_list")
}

// codexWith returns the command of Codex with one server, in the form of its settings.
func codexWith(bin, server, model string) *exec.Cmd {
	return exec.Command(filepath.Join(bin, "codex"), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-c", "mcp_servers.lattice="+server,
		"-c", `model_providers.scripted={name="scripted",base_url="`+model+`/v1",env_key="CODEX_API_KEY",wire_api="responses",request_max_retries=1,stream_max_retries=1,supports_websockets=false}`,
		"-c", `model_provider="scripted"`, "-m", "gpt-scripted", "do it")
}

// stateOf returns the state directory of an environment.
func stateOf(env []string) (dir string) {
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "LATTICE_HOME="); ok {
			dir = value
		}
	}
	return dir
}

// TestMCPKilled: a client whose server is killed while a flow runs finds the task by its id with another server. The run went on, also
// if its leader was killed, too.
func TestMCPKilled(t *testing.T) {
	env := mcpHome(t)
	flow := filepath.Join(t.TempDir(), "flow.json")
	if err := os.WriteFile(flow, []byte(`{"execir_version":"1.0","tools":["exec.run"],"entry_node":"a","nodes":[
		{"id":"a","op":"TOOL_CALL","tool":"exec.run","args":{"command":"sleep 2"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, leader := range []bool{false, true} {
		first := startMCP(t, env)
		id := memberOf(t, first.tool("flow_run", map[string]any{"flow": flow}, `"status":"working"`), "taskId")
		leads, err := api.NewClient(home.Home(stateOf(env)).Socket()).Hello(t.Context())
		if err == nil {
			err = first.kill()
		}
		if err == nil && leader {
			err = syscall.Kill(leads.PID, syscall.SIGKILL)
		}
		if err != nil {
			t.Fatal(err)
		}
		second := startMCP(t, env)
		if ended := second.task(id, "completed"); strings.Contains(ended, `"isError"`) {
			t.Errorf("the task ended as %s", ended)
		}
	}
}
