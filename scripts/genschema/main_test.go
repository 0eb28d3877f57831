package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

func judge(t *testing.T, name, text string) []string {
	t.Helper()
	files, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	var v any
	if err := json.Unmarshal(files[name+".schema.json"], &root); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return judgement{t, root}.of(root, v, "")
}

// judgement is a validator for the keywords that the generator uses; it fails on any other.
type judgement struct {
	t    *testing.T
	root map[string]any
}

func (j judgement) of(s map[string]any, v any, at string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, at+" "+fmt.Sprintf(format, args...)) }
	object, isObject := v.(map[string]any)
	text, isText := v.(string)
	for keyword, arg := range s {
		switch keyword {
		case "$schema", "$id", "$defs", "title", "then", "properties", "patternProperties", "additionalProperties":
		case "$ref":
			def, ok := j.root["$defs"].(map[string]any)[strings.TrimPrefix(arg.(string), "#/$defs/")].(map[string]any)
			if !ok {
				j.t.Fatalf("%s: there is no %v", at, arg)
			}
			faults = append(faults, j.of(def, v, at)...)
		case "type":
			want := map[any]any{"object": map[string]any{}, "array": []any{}, "string": "", "boolean": true, "number": 0.0, "integer": 0.0}[arg]
			if reflect.TypeOf(v) != reflect.TypeOf(want) {
				fault("is %T, not %v", v, arg)
			}
		case "const":
			if v != arg {
				fault("is %v, not %v", v, arg)
			}
		case "enum":
			if !slices.Contains(arg.([]any), v) {
				fault("is %v, none of %v", v, arg)
			}
		case "pattern":
			if isText && !regexp.MustCompile(arg.(string)).MatchString(text) {
				fault("%q does not match %v", text, arg)
			}
		case "minLength":
			if isText && len(text) < int(arg.(float64)) {
				fault("is too short")
			}
		case "minimum", "maximum":
			if n, ok := v.(float64); ok && (keyword == "minimum" && n < arg.(float64) || keyword == "maximum" && n > arg.(float64)) {
				fault("is beyond its %s", keyword)
			}
		case "items":
			list, _ := v.([]any)
			for i := range list {
				faults = append(faults, j.of(arg.(map[string]any), list[i], fmt.Sprintf("%s/%d", at, i))...)
			}
		case "required":
			for _, name := range arg.([]any) {
				if _, ok := object[name.(string)]; isObject && !ok {
					fault("lacks %v", name)
				}
			}
		case "anyOf":
			if !slices.ContainsFunc(arg.([]any), func(one any) bool { return len(j.of(one.(map[string]any), v, at)) == 0 }) {
				fault("is none of its forms")
			}
		case "allOf":
			for _, one := range arg.([]any) {
				faults = append(faults, j.of(one.(map[string]any), v, at)...)
			}
		case "if":
			if len(j.of(arg.(map[string]any), v, at)) == 0 {
				faults = append(faults, j.of(s["then"].(map[string]any), v, at)...)
			}
		default:
			j.t.Fatalf("%s: the test does not know the keyword %s", at, keyword)
		}
	}
	return append(faults, j.members(s, object, at)...)
}

// members judges the members of an object: each by properties, else by patternProperties, else by additionalProperties.
func (j judgement) members(s, object map[string]any, at string) (faults []string) {
	properties, _ := s["properties"].(map[string]any)
	patterns, _ := s["patternProperties"].(map[string]any)
	for name, v := range object {
		if p, ok := properties[name].(map[string]any); ok {
			faults = append(faults, j.of(p, v, at+"/"+name)...)
			continue
		}
		if slices.ContainsFunc(slices.Collect(maps.Keys(patterns)), func(p string) bool { return regexp.MustCompile(p).MatchString(name) }) {
			continue
		}
		switch rest := s["additionalProperties"].(type) {
		case bool:
			faults = append(faults, at+" has a member "+name)
		case map[string]any:
			faults = append(faults, j.of(rest, v, at+"/"+name)...)
		}
	}
	return faults
}
