package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/compile/flowline"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/protocol"
)

var update = flag.Bool("update", false, "write the requests of a new version of the interface")

const checkedIn = "../../manifests/schema"

// What is checked in is what the types say now.
func TestSchemasAreFresh(t *testing.T) {
	t.Parallel()
	files, err := makeSchemas()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(checkedIn)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(files)), names); diff != "" {
		t.Errorf("files (-generated +checked in):\n%s", diff)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(checkedIn, name))
		if err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s is stale: make schema", name)
		}
	}
}

// The description of the interface is what the table of routes says now.
func TestDescriptionIsFresh(t *testing.T) {
	t.Parallel()
	want, err := describeAPI()
	if err != nil {
		t.Fatal(err)
	}
	if api.Description() != string(want) {
		t.Errorf("%s is stale: make schema", describePath)
	}
}

// What we ship and write is valid; what our readers refuse is not.
func TestSchemas(t *testing.T) {
	t.Parallel()
	for _, name := range manifests.Flows() {
		flow, _ := manifests.Flow(name)
		valid(t, "execir", string(flow))
	}
	for _, s := range manifests.Skills() {
		valid(t, "skill", string(manifests.Raw(s.Name)))
	}
	valid(t, "result", encode(t, protocol.Result{OK: true, Skill: "fs.read", Data: json.RawMessage(`{}`)}))
	valid(t, "result", encode(t, protocol.Result{Skill: "fs.read", Error: &protocol.Fault{Code: "c", Message: "m"}}))
	none, text := []string{}, "text"
	valid(t, "session-call", encode(t, protocol.SessionCall{CallID: "c", Skill: "fs.read", Input: json.RawMessage(`{}`), Permissions: &none}))
	valid(t, "session-cancel", encode(t, protocol.SessionCancel{Cancel: "c"}))
	valid(t, "session-result", encode(t, protocol.SessionResult{Result: protocol.Result{OK: true, Skill: "fs.read", Data: json.RawMessage(`{}`)}, Outbox: &protocol.Stretch{To: 7}}))
	valid(t, "session-output", encode(t, protocol.SessionOutput{CallID: "c", Stderr: &text}))
	valid(t, "session-note", encode(t, protocol.SessionNote{Session: protocol.SessionRefused, Line: 1, Problems: []protocol.Problem{{Pointer: "/skill", Message: "is required"}}}))
	valid(t, "task", encode(t, protocol.Task{RunID: "r", Goal: "g", Answers: map[string]any{"a": 1}}))
	valid(t, "resume", encode(t, protocol.Resume{WorkItemID: "w", CheckpointID: "c", Inputs: json.RawMessage(`{"approved":true}`)}))
	valid(t, "skill", `{"name":"x","inputs":["a",{"name":"b","type":"string"}]}`)

	valid(t, "answers", `{"colour":"red","n":[1]}`)
	invalid(t, "answers", `["red"]`)
	valid(t, "findings", encode(t, compile.NewReport([]finding.Finding{{Code: "c", Severity: "error", Pointer: "/a", Message: "m"}})))
	valid(t, "findings", encode(t, compile.NewReport(nil)))
	valid(t, "test", `{"command":["make","test"],"timeout_s":60}`)
	invalid(t, "test", `{"args":"x"}`)
	valid(t, "prompt-template", `{"id":"a_v1","op":"LLM_WRITE","version":"1","input_ports":{},"system":"s","user":["a","b"],"repair":"r","max_prompt_bytes":1000}`)
	invalid(t, "prompt-template", `{"id":"a_v1","op":"LLM_WRITE"}`)
	invalid(t, "findings", `{"ok":true,"findings":null}`)
	valid(t, "run", encode(t, api.RunLine{RunID: "run_1", Status: lattice.Succeeded, Outputs: json.RawMessage(`{}`)}))
	valid(t, "run", encode(t, api.RunLine{RunID: "run_1", Status: lattice.Waiting, Error: &api.RunError{Kind: "timeout"},
		Waits: []lattice.Wait{{ID: "w", Kind: lattice.WaitAction, Action: &lattice.Action{Parameters: json.RawMessage(`{}`)}}}}))
	invalid(t, "run", `{"run_id":"r","status":"done","outputs":null,"error":null}`)

	const flow = `{"execir_version":"1.0","entry_node":"a","nodes":[{"id":"a","op":%s}]%s}`
	valid(t, "execir", fmt.Sprintf(flow, `"PACK","x-mine":1,"meta":[]`, `,"$schema":"s"`))
	invalid(t, "execir", fmt.Sprintf(flow, `"PACK","colour":1`, ``))
	invalid(t, "execir", fmt.Sprintf(flow, `"LOOPS"`, ``))
	invalid(t, "execir", fmt.Sprintf(flow, `"PACK"`, `,"edges":[{"from":"a"}]`))
	invalid(t, "execir", `{"execir_version":"2.0","entry_node":"a","nodes":[]}`)
	invalid(t, "skill", `{"name":"x","inputs":[{"type":"string"}]}`)
	invalid(t, "skill", `{"name":"x","side_effect":"none"}`)
	invalid(t, "result", `{"ok":false,"skill":"x","events":0,"data":{}}`)
	invalid(t, "task", `{"goal":"g"}`)
	invalid(t, "resume", `{"work_item_id":"w","checkpoint_id":"c","inputs":[],"context":{}}`)
	invalid(t, "event", `{"protocol_version":"v1","event_type":"COMPLETED","sprite_id":"s","work_item_id":"w","timestamp":"2026-01-02T03:04:05.000000000Z","payload":{"status":"perhaps"}}`)
}

// Every type of event is valid by the schema of events and by that of its payload, and so are the protocol's own examples.
func TestEventSchemas(t *testing.T) {
	t.Parallel()
	samples := []protocol.Payload{
		protocol.Info{Message: "m", Metadata: json.RawMessage(`{}`)}, protocol.PhaseStarted{Phase: "p"}, protocol.PhaseFinished{Phase: "p"},
		protocol.ActionRequest{Action: "OPEN_PR", Parameters: json.RawMessage(`{}`)}, protocol.Artifact{Kind: "k"},
		protocol.Waiting{Reason: "r", CheckpointID: "c", ExpectedInputs: map[string]string{"a": "array<array<string>>"}},
		protocol.Completed{Status: "success"}, protocol.Error{Message: "m"},
		protocol.EnvironmentProposal{
			ObservedFailure: protocol.ObservedFailure{Phase: "p"}, Confidence: 0.5, Evidence: []string{"e"}, Scope: protocol.ScopeRepoSpecific,
			SuggestedAdjustment: protocol.SuggestedAdjustment{Type: protocol.AdjustSmokeCommand, Details: json.RawMessage(`{}`)},
		},
	}
	if len(samples) != len(payloadTypes()) {
		t.Fatalf("%d samples of %d types", len(samples), len(payloadTypes()))
	}
	for _, p := range samples {
		e, err := protocol.New(p)
		if err != nil {
			t.Fatal(err)
		}
		e.SpriteID, e.WorkItemID, e.Timestamp = "s", "w", protocol.FormatTime(time.Unix(1, 0))
		valid(t, "event", encode(t, e))
		name := "payload-" + strings.ReplaceAll(strings.ToLower(string(p.EventType())), "_", "-")
		valid(t, name, string(e.Payload))
		invalid(t, name, `[]`)
		e.Timestamp = "yesterday"
		invalid(t, "event", encode(t, e))
	}
	lines, err := os.ReadFile("../../spritekit/protocol/testdata/seed-events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		if !strings.Contains(line, `"protocol_version":"v1"`) {
			continue // the protocol takes more than it writes
		}
		var example struct {
			Type    string         `json:"event_type"`
			Payload map[string]any `json:"payload"`
		}
		if err := json.Unmarshal([]byte(line), &example); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(example.Payload, func(_ string, v any) bool { return v == nil }) // null is absent to readers
		valid(t, "payload-"+strings.ReplaceAll(strings.ToLower(example.Type), "_", "-"), encode(t, example.Payload))
	}
}

// The parameters of actions are closed, and limited as package action limits them.
func TestActionSchemas(t *testing.T) {
	t.Parallel()
	const push = `{"branch":"b","base":"c","bundle":"/w","sha256":"1111111111111111111111111111111111111111111111111111111111111111"%s}`
	for name, c := range map[string]struct{ valid, invalid []string }{
		"push-branch":      {[]string{fmt.Sprintf(push, ""), fmt.Sprintf(push, `,"repo":"acme/site"`)}, []string{fmt.Sprintf(push, `,"force":true`), `{}`}},
		"open-pr":          {[]string{`{"title":"t","base":"main","head":"fix"}`}, []string{`{"title":"t","base":"main"}`, `{"title":"a\nb","base":"main","head":"fix"}`}},
		"post-comment":     {[]string{`{"number":7,"body":"b"}`}, []string{`{"number":0,"body":"b"}`, `{"number":7,"body":" "}`, `{"number":7,"Body":"b"}`}},
		"label-issue":      {[]string{`{"number":7,"labels":["bug"]}`}, []string{`{"number":7,"labels":[]}`, `{"number":7,"labels":[""]}`}},
		"notify-user":      {[]string{`{"title":"t"}`, `{"title":"t","level":"info","body":""}`}, []string{`{"title":"t","level":"shout"}`, `{"title":"t","channel":"https://a"}`}},
		"fetch-credential": {[]string{`{"name":"npm","purpose":"publish"}`}, []string{`{"name":"npm"}`}},
	} {
		for _, text := range c.valid {
			valid(t, "action-"+name, text)
		}
		for _, text := range c.invalid {
			invalid(t, "action-"+name, text)
		}
	}
}

// What flow new composes is valid, and a document may name its schema wherever one is read.
func TestDocumentsNameTheirSchema(t *testing.T) {
	t.Parallel()
	w, _, faults := flowline.Parse(`git.clone url=$in.url | fs.read path="$git_clone.dest/go.mod" offset:=1`, manifests.Lookup)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	valid(t, "workflow", encode(t, w))
	golden, err := os.ReadFile("../../orchestrator/compile/testdata/branch.workflow.json")
	if err != nil {
		t.Fatal(err)
	}
	valid(t, "workflow", string(golden))
	invalid(t, "workflow", `{"workflow_version":"1.0","nodes":[{"id":"a","type":"fs.read","args":{}}]}`)
	invalid(t, "workflow", `{"workflow_version":"1.0","nodes":[{"id":"a","type":"Read"}]}`)
	invalid(t, "workflow", `{"workflow_version":"2.0","nodes":[]}`)
	valid(t, "config", `{"$schema":"s","run":{"allow":["fs:read"]},"serve":{"idle":"1h30m"},"log_level":"warn"}`)
	invalid(t, "config", `{"log_level":"loud"}`)
	invalid(t, "config", `{"serve":{"idle":"soon"}}`)
	invalid(t, "config", `{"rum":{}}`)
	if _, findings := settings.Parse([]byte(`"$schema" = "s"`)); len(findings) > 0 {
		t.Error(findings)
	}
	for name, text := range map[string]string{
		"skill": `{"$schema":"s","name":"a.b"}`, "task": `{"$schema":"s","run_id":"r","goal":"g"}`, "answers": `{"$schema":"s"}`,
		"resume": `{"$schema":"s","work_item_id":"w","checkpoint_id":"c","inputs":{},"context":{}}`,
	} {
		valid(t, name, text)
	}
}

// A definition of a worker is valid if its reader takes it.
func TestWorkerSchema(t *testing.T) {
	t.Parallel()
	shipped, err := worker.Load(fstest.MapFS{}, board.DefaultConfig("LAT"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range shipped {
		valid(t, "worker", encode(t, d))
	}
	const lite = `{"$schema":"s","worker":{"name":"%s"},"trigger":{"%s":true},"execution":{"engine":"%s","worktree":true,"timeout_minutes":%d}}`
	valid(t, "worker", fmt.Sprintf(lite, "Lite", "manual_only", "claude", 5))
	for _, bad := range []string{
		fmt.Sprintf(lite, "a b", "manual_only", "claude", 5), fmt.Sprintf(lite, "Lite", "manual", "claude", 5), fmt.Sprintf(lite, "Lite", "manual_only", "gpt", 5),
		fmt.Sprintf(lite, "Lite", "manual_only", "claude", 0), `{"worker":{"name":"Lite"}}`,
	} {
		invalid(t, "worker", bad)
	}
	valid(t, "board", encode(t, board.DefaultConfig("LAT")))
	invalid(t, "board", `{"workflow":{"statuses":["a"]},"hook":{}}`)
}

// Editors show what a schema says: every one has its address, a title, and a word on what it is and on what its members
// are, as far as the types have one.
func TestSchemasSpeak(t *testing.T) {
	t.Parallel()
	files, err := makeSchemas()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		var s struct {
			ID    string         `json:"$id"`
			Draft string         `json:"$schema"`
			Title string         `json:"title"`
			Defs  map[string]any `json:"$defs"`
		}
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if s.ID != manifests.SchemaURL(strings.TrimSuffix(name, ".schema.json")) || s.Draft != "https://json-schema.org/draft/2020-12/schema" || s.Title == "" {
			t.Errorf("%s: $id %q, $schema %q, title %q", name, s.ID, s.Draft, s.Title)
		}
		for def, v := range s.Defs {
			if v.(map[string]any)["description"] == nil {
				t.Errorf("%s: nothing says what %s is", name, def)
			}
		}
		if strings.Contains(name, "workflow") {
			step := s.Defs["Step"].(map[string]any)["properties"].(map[string]any)
			for member, v := range step {
				if v.(map[string]any)["description"] == nil {
					t.Errorf("nothing says what %s of a step is", member)
				}
			}
		}
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func valid(t *testing.T, name, text string) {
	t.Helper()
	if faults := judge(t, name, text); len(faults) > 0 {
		t.Errorf("%s refuses %s:\n%s", name, text, strings.Join(faults, "\n"))
	}
}

func invalid(t *testing.T, name, text string) {
	t.Helper()
	if len(judge(t, name, text)) == 0 {
		t.Errorf("%s takes %s", name, text)
	}
}

// compiled are the schemas as an independent implementation of JSON Schema understands them; it judges them, too.
var compiled = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	files, err := makeSchemas()
	if err != nil {
		return nil, err
	}
	out := map[string]*jsonschema.Schema{}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	for file, text := range files {
		root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := c.AddResource(file, root); err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(file, ".schema.json")
		if out[name], err = c.Compile(file); err != nil {
			return nil, err
		}
	}
	return out, nil
})

// judge validates text.
func judge(t *testing.T, name, text string) []string {
	t.Helper()
	all, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	if all[name] == nil {
		t.Fatalf("there is no schema %s", name)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := all[name].Validate(v); err != nil {
		return strings.Split(err.Error(), "\n")
	}
	return nil
}

const requestsFile = "testdata/requests.txt"

// The requests that the interface takes are those that it took when its version was raised last, or fewer: a leader refuses what it does
// not know, and a newer version asks an older one to hand over.
func TestVersionOfInterface(t *testing.T) {
	t.Parallel()
	routes, members := requestsOf(t)
	now := slices.Sorted(maps.Keys(routes))
	now = append(now, slices.Sorted(maps.Keys(members))...)
	text, err := os.ReadFile(requestsFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	version := fmt.Sprint("version ", api.Version)
	if *update && first != version {
		if err := os.WriteFile(requestsFile, []byte(version+"\n"+strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if first != version {
		t.Fatalf("%s is of %s, not %s: go test ./scripts/genschema -run VersionOfInterface -update", requestsFile, first, version)
	}
	known := strings.Split(rest, "\n")
	for _, line := range now {
		if !slices.Contains(known, line) {
			t.Errorf("%q is new since %s of the interface: raise api.Version, then go test ./scripts/genschema -run VersionOfInterface -update", line, version)
		}
	}
	if len(routes) < 100 || len(members) < 100 {
		t.Errorf("the description has only %d routes and parameters, and %d members of requests", len(routes), len(members))
	}
}

// requestsOf returns the routes with their parameters, and the members of the types that requests hold, as the description has them.
func requestsOf(t *testing.T) (routes, members map[string]bool) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters  []struct{ Name, In string }
			RequestBody any
		}
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(api.Description()), &doc); err != nil {
		t.Fatal(err)
	}
	routes, members = map[string]bool{}, map[string]bool{}
	seen := map[string]bool{}
	var walk func(name string, schema any)
	walk = func(name string, schema any) {
		switch schema := schema.(type) {
		case []any:
			for _, part := range schema {
				walk(name, part)
			}
		case map[string]any:
			if ref, ok := schema["$ref"].(string); ok && !seen[ref] {
				seen[ref] = true
				of := strings.TrimPrefix(ref, "#/components/schemas/")
				walk(of, doc.Components.Schemas[of])
			}
			if properties, ok := schema["properties"].(map[string]any); ok {
				for member := range properties {
					members[name+" ."+member] = true
				}
			}
			for _, part := range schema {
				walk(name, part)
			}
		}
	}
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			route := strings.ToUpper(method) + " " + path
			routes[route] = true
			for _, p := range operation.Parameters {
				if p.In == "query" {
					routes[route+" ?"+p.Name] = true
				}
			}
			walk(route, operation.RequestBody)
		}
	}
	return routes, members
}
