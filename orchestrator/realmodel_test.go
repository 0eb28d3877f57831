package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/llm"
	"github.com/spritekit/lattice/orchestrator/llm/llmtest"
	"github.com/spritekit/lattice/orchestrator/llm/llmtest/stories"
)

// modelsEnv names a folder with the weights of package stories; by default it is models beside the checkout.
const modelsEnv = "LATTICE_TEST_MODELS"

// A real model climbs the ladder. Left to itself it tells a story, is told what was wrong with that, and tells another
// one; the class above has the same weights, held to the ids that may be said, and answers.
func TestARealModelClimbsTheLadder(t *testing.T) {
	dir := os.Getenv(modelsEnv)
	if dir == "" {
		dir = "../../models"
	}
	model, err := stories.Load(dir)
	if err != nil {
		t.Skipf("no weights (%s names their folder): %v", modelsEnv, err)
	}
	var seen []string
	server := httptest.NewServer(llmtest.NewFunc(func(r llmtest.Request) llmtest.Step {
		seen = append(seen, r.User)
		if r.Model == "free" {
			return llmtest.Step{Text: model.Generate(r.User, 40)}
		}
		_, rest, _ := strings.Cut(r.User, "BEGIN candidates\n")
		line, _, _ := strings.Cut(rest, "\n")
		var candidates []struct{ ID, Name string }
		if err := json.Unmarshal([]byte(line), &candidates); err != nil {
			return llmtest.Step{Status: http.StatusBadRequest, Message: err.Error()}
		}
		names := make([]string, len(candidates))
		for i, c := range candidates {
			names[i] = c.Name
		}
		return llmtest.Step{Text: fmt.Sprintf(`{"id":%q}`, candidates[model.Choose("Once upon a time, there was a little", names)].ID)}
	}))
	defer server.Close()
	client, err := llm.New(llm.Options{Transport: &http.Transport{DisableKeepAlives: true}, Classes: []llm.Class{
		{Name: "SMALL_EXEC", Provider: llm.OpenAI, Model: "free", BaseURL: server.URL + "/v1"},
		{Name: "MEDIUM_PLAN", Provider: llm.Anthropic, Model: "held", BaseURL: server.URL + "/v1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	program, findings := check.Parse([]byte(`{"execir_version":"1.0","model_classes":["SMALL_EXEC","MEDIUM_PLAN"],"entry_node":"who","nodes":[
{"id":"who","op":"LLM_CHOOSE","model_class":"SMALL_EXEC","prompt_template":"choose_v1","output_schema":"ChoiceById","resolve":true,
 "inputs":{"question":"Who is the story about?","candidates":"$in.who"},"validators":[{"type":"choice_in_candidates"}],
 "retry_policy":{"strategy":"PATCH_JSON_FROM_ERROR","max_attempts":2},"escalation":{"on":["parse_failure","schema_failure","invariant_failure"],"to_model_class":"MEDIUM_PLAN"},
 "outputs":{"item":"$vars.who","attempts":"$vars.n","escalated":"$vars.up"}}],"edges":[]}`), func(string) (manifests.Skill, bool) { return manifests.Skill{}, false })
	if program == nil {
		t.Fatal(findings)
	}
	log := &memoryLog{}
	runner, err := driver.Load(driver.Deps{Log: log, Model: client, Now: time.Now, After: time.After}, program, "run_1", []byte("secret"), replay.History{})
	if err != nil {
		t.Fatal(err)
	}
	input := json.RawMessage(`{"who":[{"id":"C1","name":"xylophone quartz"},{"id":"C2","name":"girl named Lily"},{"id":"C3","name":"7 % @"}]}`)
	if err := runner.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", Program: program.Digest, Input: input}); err != nil {
		t.Fatal(err)
	}
	if _, err := runner.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := runner.State()
	got, err := expr.Marshal(s.Vars)
	if want := `{"n":3,"up":true,"who":{"id":"C2","name":"girl named Lily"}}`; err != nil || s.Status != lattice.Succeeded || string(got) != want {
		t.Errorf("the run %s with %s (%v), want %s", s.Status, got, s.Failure, want)
	}
	if len(seen) != 3 || strings.Contains(seen[0], "previous_text") || !strings.Contains(seen[1], `"kind":"parse_failure"`) || !strings.Contains(seen[2], "previous_text") {
		t.Errorf("prompts = %q", seen)
	}
	if r, err := replay.Verify(program, "run_1", nil, replay.History{Facts: log.entries}); err != nil || r.Diverged != nil {
		t.Errorf("told again: %+v, %v", r.Diverged, err)
	}
}

// memoryLog keeps a run's entries for a test.
type memoryLog struct{ entries []lattice.Entry }

func (l *memoryLog) Append(_ context.Context, _ string, _ lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	for i := range entries {
		if entries[i].Kind == lattice.EntryState {
			continue
		}
		entries[i].Seq = lattice.Seq(len(l.entries) + 1)
		l.entries = append(l.entries, entries[i])
	}
	return lattice.Seq(len(l.entries)), nil
}
