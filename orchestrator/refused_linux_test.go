package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/leader/home"
)

// TestBoardRefusesAlike moves tasks by the command, by the interface of the leader and by MCP: each refuses a move that the rules of the
// board forbid, with the same error, and none refuses needs_human.
func TestBoardRefusesAlike(t *testing.T) {
	root := t.TempDir()
	config := board.DefaultConfig("LAT")
	config.Workflow.Transitions = map[string][]string{"backlog": {"in_progress", "review"}}
	config.Workflow.CompletionPolicies["in_progress"] = board.CompletionPolicy{RequireAssigned: true}
	config.Workflow.ReviewCycleLimit = 1
	if err := board.Init(root, config); err != nil {
		t.Fatal(err)
	}
	b, err := board.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, title := range []string{"in backlog", "in review"} {
		if _, _, err := b.Create(t.Context(), "human:ada", "", board.CreatedData{Title: title}); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range []string{"review", "in_planning", "review"} {
		if _, _, err := b.Move(t.Context(), "LAT-2", "human:ada", to, ""); err != nil {
			t.Fatal(err)
		}
	}

	env := append(mcpHome(t), "LATTICE_ROOT="+root, "LATTICE_ACTOR=human:ada")
	settings := filepath.Join(root, "config.toml")
	if err := os.WriteFile(settings, []byte(`boards = ["`+root+`"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	env = append(env, "LATTICE_CONFIG="+settings)
	mcp := startMCP(t, env, "--tools", "board_*,run_list")
	mcp.tool("run_list", map[string]any{}, `"items":[]`) // starts the leader
	state := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, "LATTICE_HOME="+buildDir) })
	leader := api.HTTPClient(home.Home(strings.TrimPrefix(env[state], "LATTICE_HOME=")).Socket())
	defer leader.CloseIdleConnections()

	type refusal struct{ Code, Message, Hint string }
	byCommand := func(task, to string) (r refusal) {
		out, _ := mcpCommand(t, env, "task", "move", task, to, "--json").CombinedOutput() // its error is the output
		var printed struct{ Error refusal }
		if err := json.Unmarshal(out, &printed); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return printed.Error
	}
	byLeader := func(task, to string) (r refusal) {
		resp, err := leader.Post(api.Base+api.Root+"/tasks/"+task, "application/json", strings.NewReader(`{"status":"`+to+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer struct{ Error refusal }
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return answer.Error
	}
	byMCP := func(task, to string) (r refusal) {
		var answer struct{ StructuredContent struct{ Error refusal } }
		if err := json.Unmarshal([]byte(mcp.tool("board_move", map[string]any{"task": task, "status": to})), &answer); err != nil {
			t.Fatal(err)
		}
		return answer.StructuredContent.Error
	}
	for _, c := range []struct{ task, to, code string }{
		{"LAT-1", "nowhere", "status_unknown"},
		{"LAT-1", "done", "move_not_allowed"},
		{"LAT-1", "in_progress", "move_needs_assignee"},
		{"LAT-2", "done", "move_needs_artifact"},
		{"LAT-2", "in_planning", "review_cycles"},
		{"LAT-3", "done", "task_not_found"},
	} {
		want := byCommand(c.task, c.to)
		if want.Code != c.code || want.Message == "" || want.Hint == "" {
			t.Errorf("lattice task move %s %s is refused with %+v, want %s", c.task, c.to, want, c.code)
		}
		if got := byLeader(c.task, c.to); got != want {
			t.Errorf("the leader refuses %s to %s with %+v, want %+v", c.task, c.to, got, want)
		}
		if got := byMCP(c.task, c.to); got != want {
			t.Errorf("MCP refuses %s to %s with %+v, want %+v", c.task, c.to, got, want)
		}
	}
	for _, got := range []refusal{byCommand("LAT-1", board.NeedsHuman), byLeader("LAT-2", board.Cancelled), byMCP("LAT-2", board.NeedsHuman)} {
		if got != (refusal{}) {
			t.Errorf("a move past the rules is refused with %+v", got)
		}
	}
}
