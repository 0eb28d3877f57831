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
		for _, name := range []string{"fs.read", "git.status", "demo.greet"} {
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
			res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: test.skill, Arguments: json.RawMessage(test.input)})
			if err != nil {
				t.Fatal(err)
			}
			line, err := json.Marshal(res.StructuredContent)
			if err != nil || !bytes.Contains(line, []byte(test.want)) || bytes.Contains(line, []byte("of-another")) {
				t.Errorf("%s %s = %s, %v; want %s", test.skill, test.input, line, err, test.want)
			}
		})
	}
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		params := &sdk.CallToolParams{Name: "demo.greet", Arguments: json.RawMessage(`{"how":"sleep"}`)}
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

// testMCPGone: when the client closes stdin, or the server is asked to end, what a call has started is dead at its end.
func testMCPGone(t *testing.T, exe string) {
	skills, ws := mcpSprite(t, exe)
	for name, leave := range map[string]func(*exec.Cmd, io.Closer) error{
		"client goes away": func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() },
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
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"_meta":{"progressToken":"x"},"name":"demo.greet","arguments":{"how":"sleep"}}}
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
			if err := cmd.Wait(); err != nil {
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
