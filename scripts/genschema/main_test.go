package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
)

const checkedIn = "../../manifests/schema"

// What is checked in is what the types say now.
func TestSchemasAreFresh(t *testing.T) {
	files, err := schemas()
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

// What we ship and write is valid; what our readers refuse is not.
func TestSchemas(t *testing.T) {
	for _, name := range manifests.Flows() {
		flow, _ := manifests.Flow(name)
		valid(t, "execir", string(flow))
	}
	for _, s := range manifests.Skills() {
		valid(t, "skill", string(manifests.Raw(s.Name)))
	}
	for _, p := range []protocol.Payload{
		protocol.Info{Message: "m"}, protocol.Waiting{Reason: "r", CheckpointID: "c", ExpectedInputs: map[string]string{"a": "array<array<string>>"}},
		protocol.Completed{Status: "success"}, protocol.ActionRequest{Action: "OPEN_PR", Parameters: json.RawMessage(`{}`)}, protocol.PhaseFinished{Phase: "p"},
	} {
		e, err := protocol.New(p)
		if err != nil {
			t.Fatal(err)
		}
		e.SpriteID, e.WorkItemID, e.Timestamp = "s", "w", protocol.FormatTime(time.Unix(1, 0))
		valid(t, "event", encode(t, e))
		e.Timestamp = "yesterday"
		invalid(t, "event", encode(t, e))
	}
	valid(t, "result", encode(t, protocol.Result{OK: true, Skill: "fs.read", Data: json.RawMessage(`{}`)}))
	valid(t, "result", encode(t, protocol.Result{Skill: "fs.read", Error: &protocol.Fault{Code: "c", Message: "m"}}))
	valid(t, "task", encode(t, protocol.Task{RunID: "r", Goal: "g", Answers: map[string]any{"a": 1}}))
	valid(t, "resume", encode(t, protocol.Resume{WorkItemID: "w", CheckpointID: "c", Inputs: json.RawMessage(`{"approved":true}`)}))
	valid(t, "skill", `{"name":"x","inputs":["a",{"name":"b","type":"string"}]}`)

	const flow = `{"execir_version":"1.0","entry_node":"a","nodes":[{"id":"a","op":%s}]%s}`
	valid(t, "execir", fmt.Sprintf(flow, `"PACK","x-mine":1,"meta":[]`, `,"$schema":"s"`))
	invalid(t, "execir", fmt.Sprintf(flow, `"PACK","colour":1`, ``))
	invalid(t, "execir", fmt.Sprintf(flow, `"LOOP"`, ``))
	invalid(t, "execir", fmt.Sprintf(flow, `"PACK"`, `,"edges":[{"from":"a"}]`))
	invalid(t, "execir", `{"execir_version":"2.0","entry_node":"a","nodes":[]}`)
	invalid(t, "skill", `{"name":"x","inputs":[{"type":"string"}]}`)
	invalid(t, "skill", `{"name":"x","side_effect":"none"}`)
	invalid(t, "result", `{"ok":false,"skill":"x","events":0,"data":{}}`)
	invalid(t, "task", `{"goal":"g"}`)
	invalid(t, "resume", `{"work_item_id":"w","checkpoint_id":"c","inputs":[],"context":{}}`)
	invalid(t, "event", `{"protocol_version":"v1","event_type":"COMPLETED","sprite_id":"s","work_item_id":"w","timestamp":"2026-01-02T03:04:05.000000000Z","payload":{"status":"perhaps"}}`)
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

// judge validates text by an independent implementation of JSON Schema, which also judges the schema itself.
func judge(t *testing.T, name, text string) []string {
	t.Helper()
	files, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	file := name + ".schema.json"
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(files[file]))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(file, root); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(file)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := compiled.Validate(v); err != nil {
		return strings.Split(err.Error(), "\n")
	}
	return nil
}
