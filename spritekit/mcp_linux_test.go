package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// dropIn is a skill in another language: it says hello, or sleeps until it is ended.
const dropIn = `#!/bin/sh
read -r input
case $input in
*sleep*)
	setsid sleep 1000 &
	echo "LATTICE_EVENT {\"event_type\":\"INFO\",\"call_id\":\"$LATTICE_CALL_ID\",\"payload\":{\"message\":\"$!\",\"kind\":\"progress\"}}"
	wait ;;
*fail*) echo "{\"ok\":false,\"skill\":\"demo.greet\",\"error\":{\"code\":\"unkind\",\"message\":\"no\"},\"call_id\":\"$LATTICE_CALL_ID\"}"; exit 1 ;;
*mute*) exit 0 ;;
*lie*) echo '{"ok":true,"skill":"demo.greet","data":{"greeting":"x"}}'; exit 3 ;;
esac
echo chatter
echo "{\"ok\":true,\"skill\":\"demo.greet\",\"data\":{\"greeting\":\"hello $LATTICE_PERMISSIONS\"},\"events\":1,\"call_id\":\"$LATTICE_CALL_ID\"}"
`

// mcpSprite is an install folder with a drop-in skill, and a workspace.
func mcpSprite(t *testing.T, exe string) (skills, ws string) {
	t.Helper()
	skills, ws = filepath.Join(t.TempDir(), "skills"), t.TempDir()
	if out, err := exec.Command(exe, "install", skills).CombinedOutput(); err != nil {
		t.Fatalf("install: %v\n%s", err, out)
	}
	dir := filepath.Join(skills, "demo.greet")
	const manifest = `{"name":"demo.greet","description":"Say hello.","inputs":["how"],"outputs":[{"name":"greeting","type":"string","required":true}],"permissions":["fs:read"]}`
	if err := errors.Join(
		os.Chmod(skills, 0o755), os.Mkdir(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "skill.json"), []byte(manifest), 0o644),
		os.WriteFile(filepath.Join(dir, "run"), []byte(dropIn), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	return skills, ws
}

func mcpCommand(skills, ws string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(skills, "spritekit"), append([]string{"mcp"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LATTICE_WORKSPACE=" + ws, "LATTICE_SOCKET=", "LATTICE_CALL_ID=of-another"}
	return cmd
}

// testMCP drives the real server as a client does that starts it.
func testMCP(t *testing.T, exe string) {
	skills, ws := mcpSprite(t, exe)
	progress := make(chan string, 100)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { progress <- r.Params.Message },
	})
	session, err := client.Connect(t.Context(), &sdk.CommandTransport{Command: mcpCommand(skills, ws)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("list", func(t *testing.T) {
		found := map[string]bool{}
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			found[tool.Name] = true
		}
		for _, name := range []string{"fs_read", "git_status", "demo_greet"} {
			if !found[name] {
				t.Errorf("%s is not offered", name)
			}
		}
	})
	for _, test := range []struct{ name, skill, input, want string }{
		{"built in", "fs.write", `{"path":"a","content":"hi"}`, `"ok":true`},
		{"refused", "fs.read", `{"pth":"a"}`, `/pth is not an input of fs.read`},
		{"dropped in", "demo.greet", `{"how":"well"}`, `"greeting":"hello fs:read"`},
		{"dropped in, failed", "demo.greet", `{"how":"fail"}`, `"code":"unkind"`},
		{"dropped in, refused", "demo.greet", `{}`, `/how is required`},
		{"dropped in, without a result", "demo.greet", `{"how":"mute"}`, `"code":"no_result"`},
		{"dropped in, of two minds", "demo.greet", `{"how":"lie"}`, `"code":"exit_mismatch"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: strings.ReplaceAll(test.skill, ".", "_"), Arguments: json.RawMessage(test.input)})
			if err != nil {
				t.Fatal(err)
			}
			line, err := json.Marshal(res.StructuredContent)
			if err != nil || !bytes.Contains(line, []byte(test.want)) || bytes.Contains(line, []byte("of-another")) {
				t.Errorf("%s %s = %s, %v; want %s", test.skill, test.input, line, err, test.want)
			}
		})
	}
	t.Run("progress of exec.run", func(t *testing.T) {
		params := &sdk.CallToolParams{Name: "exec_run", Arguments: map[string]any{"command": "until [ -e told ]; do sleep 0.1; done"}}
		params.SetProgressToken("of-exec")
		called := make(chan error, 1)
		go func() {
			_, err := session.CallTool(t.Context(), params)
			called <- err
		}()
		if told := <-progress; !strings.Contains(told, "runs for") {
			t.Errorf("notified %q, want how long the command runs", told)
		}
		if err := os.WriteFile(filepath.Join(ws, "told"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := <-called; err != nil {
			t.Error(err)
		}
		for len(progress) > 0 {
			<-progress
		}
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		params := &sdk.CallToolParams{Name: "demo_greet", Arguments: json.RawMessage(`{"how":"sleep"}`)}
		params.SetProgressToken("p")
		called := make(chan error, 1)
		go func() {
			_, err := session.CallTool(ctx, params)
			called <- err
		}()
		child := watch(t, <-progress)
		cancel()
		if err := <-called; !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled call gave %v", err)
		}
		ends(t, child)
	})
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	outbox, err := os.ReadFile(filepath.Join(ws, protocol.OutboxFile))
	if err != nil || !bytes.Contains(outbox, []byte("fs.write ok")) || bytes.Contains(outbox, []byte("of-another")) {
		t.Errorf("the outbox lacks what fs.write said, or has the id of another call: %v\n%s", err, outbox)
	}
}

// testMCPFolder: without a workspace the tools work in the folder that the server was started in, and leave nothing of the
// runtime's there; in a home or at the root the server does not start.
func testMCPFolder(t *testing.T, exe string) {
	skills, ws := mcpSprite(t, exe)
	home := t.TempDir()
	start := func(dir string, args ...string) *exec.Cmd {
		cmd := mcpCommand(skills, ws, args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LATTICE_SOCKET="}
		return cmd
	}
	project := filepath.Join(home, "project")
	const picture = "\x89PNG\r\n\x1a\n" + "not much of one"
	if err := errors.Join(os.Mkdir(project, 0o755), os.WriteFile(filepath.Join(project, "logo.png"), []byte(picture), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{home, "/"} {
		cmd := start(dir)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != protocol.ExitBadInput || !strings.Contains(string(out), "--workspace DIR") {
			t.Errorf("started in %s: %v, %s", dir, err, out)
		}
	}
	if out, err := start(project, "--allow", "fs:read,fs:wriet").CombinedOutput(); err == nil || !strings.Contains(string(out), `no permission "fs:wriet"`) {
		t.Errorf("an unknown permission: %v, %s", err, out)
	}
	for name, cmd := range map[string]*exec.Cmd{"started in it": start(project), "named": start("/", "--workspace", project)} {
		session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "exec_run", Arguments: json.RawMessage(`{"command":"echo $(pwd) >where","cwd":"."}`)})
		if err != nil || res.IsError {
			t.Fatalf("%s: %v, %+v", name, err, res)
		}
		where, err := os.ReadFile(filepath.Join(project, "where"))
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(where)), "/project") {
			t.Errorf("%s: the program ran in %s, %v", name, where, err)
		}
		write := json.RawMessage(`{"path":"sub/file","content":"` + strings.Repeat("x", 100_000) + `"}`)
		if res, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "fs_write", Arguments: write}); err != nil || res.IsError {
			t.Fatalf("%s: %v, %+v", name, err, res)
		}
		// A result that is too large for an answer is a file that fs.read reads.
		var large struct{ Data struct{ Path string } }
		res, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "fs_read", Arguments: json.RawMessage(`{"path":"sub/file"}`)})
		if err := errors.Join(err, json.Unmarshal([]byte(res.Content[0].(*sdk.TextContent).Text), &large)); err != nil || !strings.HasPrefix(large.Data.Path, ".lattice/") {
			t.Fatalf("%s: %v, %+v", name, err, large)
		}
		res, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "fs_read", Arguments: json.RawMessage(`{"path":"` + large.Data.Path + `","length":10}`)})
		if err != nil || res.IsError {
			t.Errorf("%s: %v, %+v", name, err, res)
		}
		res, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "fs_read", Arguments: json.RawMessage(`{"path":"logo.png"}`)})
		if err != nil || len(res.Content) != 2 {
			t.Fatalf("%s: %v, %+v", name, err, res)
		}
		if image, ok := res.Content[1].(*sdk.ImageContent); !ok || image.MIMEType != "image/png" || string(image.Data) != picture {
			t.Errorf("%s: the image is %+v", name, res.Content[1])
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(filepath.Join(project, ".*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: the runtime left %v, %v", name, left, err)
		}
	}
	if found, err := filepath.Glob(filepath.Join(home, ".local/state/spritekit/project-*", protocol.OutboxFile)); err != nil || len(found) != 1 {
		t.Errorf("the outbox is at %v, %v", found, err)
	}
}

// testMCPGone: when the client closes stdin, or the server is asked to end, what a call has started is dead at its end.
func testMCPGone(t *testing.T, exe string) {
	skills, ws := mcpSprite(t, exe)
	for name, leave := range map[string]func(*exec.Cmd, io.Closer) error{
		"client goes away": func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() },
		"SIGKILL":          func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Kill() },
		"SIGTERM":          func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			cmd := mcpCommand(skills, ws)
			cmd.Stderr = t.Output()
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			stdout, err := cmd.StdoutPipe()
			if err := errors.Join(err, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			const requests = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"_meta":{"progressToken":"x"},"name":"demo_greet","arguments":{"how":"sleep"}}}
`
			if _, err := io.WriteString(stdin, requests); err != nil {
				t.Fatal(err)
			}
			child := -1
			for lines := bufio.NewScanner(stdout); child < 0 && lines.Scan(); {
				var m struct{ Params struct{ Message string } }
				if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
					t.Fatalf("stdout is for JSON-RPC: %s", lines.Bytes())
				}
				if m.Params.Message != "" {
					child = watch(t, m.Params.Message)
				}
			}
			if err := leave(cmd, stdin); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, stdout); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil && name != "SIGKILL" {
				t.Errorf("the server ended with %v", err)
			}
			ends(t, child)
		})
	}
}

// watch returns a pidfd of a process.
func watch(t *testing.T, pid string) int {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// ends waits until a process is dead.
func ends(t *testing.T, pidfd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 60_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n != 1 {
			t.Errorf("the process is still there after a minute: %v", err)
		}
		return
	}
}

// testMCPHTTP: the server says where it is, passes the conformance suite's scenarios that need no tools of their own, and
// ends on a signal.
func testMCPHTTP(t *testing.T, exe string) {
	skills, ws := mcpSprite(t, exe)
	for _, addr := range []string{"0.0.0.0:0", "example.com:80"} {
		cmd := mcpCommand(skills, ws, "--http", addr)
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != protocol.ExitUnsafe {
			t.Errorf("--http %s: %v, want exit code %d", addr, err, protocol.ExitUnsafe)
		}
	}
	cmd := mcpCommand(skills, ws, "--http", "127.0.0.1:0")
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ready struct{ URL string }
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadBytes('\n')
	if err := errors.Join(err, json.Unmarshal(line, &ready)); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	t.Run("conformance", func(t *testing.T) { testConformance(t, ready.URL) })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err := errors.Join(err, cmd.Wait()); err != nil || len(rest) > 0 {
		t.Errorf("after SIGTERM: %v, and on stdout %q; want a clean end", err, rest)
	}
}

func testConformance(t *testing.T, url string) {
	dir := os.Getenv("LATTICE_NPM_CACHE")
	if dir == "" {
		dir = "/var/tmp/lattice-ci-npm"
	}
	bin := filepath.Join(dir, "node_modules", ".bin")
	node, suite := filepath.Join(bin, "node"), filepath.Join(bin, "conformance")
	for _, program := range []string{node, suite} {
		if _, err := os.Stat(program); err != nil {
			t.Skipf("the conformance suite of MCP is not here: %v", err)
		}
	}
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "dns-rebinding-protection"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), node, suite, "server", "--url", url, "--scenario", scenario)
			cmd.Dir = t.TempDir()
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + cmd.Dir}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "0 failed") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
