package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// serveHTTP has a leader serve callers with tokens, and returns its address.
func serveHTTP(t *testing.T, env []string) string {
	t.Helper()
	serve := mcpCommand(t, env, "serve", "--http", "127.0.0.1:0", "--json")
	serve.Stderr = t.Output()
	out, err := serve.StdoutPipe()
	if err == nil {
		err = serve.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Wait() }) // mcpHome stops it
	t.Cleanup(func() { _ = mcpCommand(t, env, "serve", "--stop").Run() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return memberOf(t, line, "http")
}

func createToken(t *testing.T, env []string, role string) string {
	t.Helper()
	text, err := mcpCommand(t, env, "token", "create", role, "--role", role).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// runClient runs a program of testdata/clients, with the packages that npm installed, and returns what it prints.
func runClient(t *testing.T, env []string, needs, program string, args ...string) string {
	t.Helper()
	modules := filepath.Dir(npmBin())
	if _, err := os.Stat(filepath.Join(modules, needs)); err != nil {
		t.Skipf("the client %s is not there: %v", needs, err)
	}
	program, err := filepath.Abs(filepath.Join("testdata", "clients", program))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{program, modules}, args...)...)
	cmd.Env, cmd.Dir = append(env, "PATH="+npmBin()+":"+os.Getenv("PATH")), t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", filepath.Base(program), err, out)
	}
	return string(out)
}

// TestOpenAPIClient: an independent validator of OpenAPI finds the description valid, and the answers of a leader as described.
func TestOpenAPIClient(t *testing.T) {
	env := mcpHome(t)
	page := serveHTTP(t, env)
	for _, args := range [][]string{{"sprite", "create", "box"}, {"run", "human-approve", "--detach"}} {
		if out, err := mcpCommand(t, env, args...).CombinedOutput(); err != nil {
			t.Fatalf("lattice %s: %v\n%s", args, err, out)
		}
	}
	t.Log(runClient(t, env, "@seriousme/openapi-schema-validator", "interface.mjs", page, createToken(t, env, "admin")))
}

// TestOfficialMCPClient: the official client of the Model Context Protocol calls every tool over standard streams and over HTTP, and
// a person decides about a run that asks.
func TestOfficialMCPClient(t *testing.T) {
	const sdk = "@modelcontextprotocol/sdk"
	env := mcpHome(t)
	page := serveHTTP(t, env)
	t.Log(runClient(t, env, sdk, "tools.mjs", "stdio", lookLattice(t)))
	t.Log(runClient(t, env, sdk, "tools.mjs", page, createToken(t, env, "admin")))
}
