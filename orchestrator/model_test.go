package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spritekit/lattice/skills/agent/agenttest"
)

// Agents as npm installs them.
var (
	claudeFile = []string{"node_modules", "@anthropic-ai", "claude-code-linux-x64", "claude"}
	codexFile  = []string{"node_modules", "@openai", "codex-linux-x64", "vendor", "x86_64-unknown-linux-musl", "bin", "codex"}
	// opencode is a program, and Gemini CLI a script for node with a folder of others.
	opencodeFile = []string{"node_modules", "opencode-linux-x64", "bin", "opencode"}
	geminiFile   = []string{"node_modules", "@google", "gemini-cli", "bundle", "gemini.js"}
)

// nodeProgram makes a folder that sprites can be shown, with an agent that node runs and the files beside it; "" when CI has not
// installed it or sprites have no node.
func nodeProgram(t *testing.T, file []string) string {
	dir := os.Getenv("LATTICE_NPM_CACHE")
	if dir == "" {
		dir = "/var/tmp/lattice-ci-npm"
	}
	script, err := filepath.EvalSymlinks(filepath.Join(append([]string{dir}, file...)...))
	node, nodeErr := exec.LookPath("node")
	if err != nil || nodeErr != nil || !strings.HasPrefix(node, "/usr/bin/") {
		return ""
	}
	shown := showableFolder(t)
	if shown == "" {
		return ""
	}
	files := filepath.Join(shown, "files")
	if exec.Command("cp", "-rl", filepath.Dir(script), files).Run() != nil { // another disk
		if err := errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(filepath.Dir(script)))); err != nil {
			t.Fatal(err)
		}
	}
	name := strings.TrimSuffix(filepath.Base(script), ".js")
	start := "#!/bin/sh\nexec node " + filepath.Join(files, filepath.Base(script)) + ` "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(shown, name), []byte(start), 0o755); err != nil {
		t.Fatal(err)
	}
	return shown
}

// agentProgram is an agent where sprites can be shown it, "" when CI has not installed it.
func agentProgram(t *testing.T, file []string) string {
	dir := os.Getenv("LATTICE_NPM_CACHE")
	if dir == "" {
		dir = "/var/tmp/lattice-ci-npm"
	}
	program, err := filepath.EvalSymlinks(filepath.Join(append([]string{dir}, file...)...))
	if err != nil || showable(program) {
		return program
	}
	shown := showableFolder(t)
	if shown == "" {
		return ""
	}
	shown = filepath.Join(shown, filepath.Base(program))
	if os.Link(program, shown) == nil { // it is large
		return shown
	}
	from, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(shown, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return shown
}

// modelServers are those that scripts have started, by their work folder.
var modelServers sync.Map

// serveModel answers agents in sprites from a script until the test ends: model FILE. They reach it at $MODEL_URL, if
// $MODEL_PORT of this machine is listed for sprites; the host has it at $MODEL_HOST_URL. A second one changes what is answered there.
func serveModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: model FILE")
	}
	var script agenttest.Script
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &script))
	work := ts.Getenv("WORK")
	if server, ok := modelServers.Load(work); ok {
		server.(*agenttest.Server).Play(script)
		return
	}
	server := agenttest.New(script)
	modelServers.Store(work, server)
	ts.Defer(func() {
		modelServers.Delete(work)
		server.Close()
	})
	ts.Setenv("MODEL_HOST_URL", server.URL)
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	ts.Setenv("MODEL_PORT", port)
	ts.Setenv("MODEL_URL", "http://host.lattice.internal:"+port)
}
