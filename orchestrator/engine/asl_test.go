package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// The semantics that Amazon documents for its States Language are an oracle that we did not write. aslLower makes ExecIR
// of machines of the types Pass, Task, Choice, Wait, Succeed, Fail, Map and Parallel; the cases of TestStatesLanguage
// hold what is documented of them.

type aslMachine struct {
	StartAt string
	States  map[string]aslState
}

type aslState struct {
	Type, Next, Resource, Default, Error, Cause, ItemsPath string
	End                                                    bool
	Result                                                 json.RawMessage
	ResultPath                                             *string
	Seconds                                                float64
	MaxConcurrency                                         int
	Choices                                                []map[string]any
	Retry                                                  []aslRule
	Catch                                                  []aslRule
	ItemProcessor                                          *aslMachine
	Branches                                               []aslMachine
}

type aslRule struct {
	ErrorEquals                  []string
	IntervalSeconds, BackoffRate float64
	MaxAttempts                  *int
	MaxDelaySeconds              float64
	Next                         string
	ResultPath                   *string
}

// aslErrors are our failure kinds under the names of the States Language.
var aslErrors = map[string][]string{
	"States.ALL": {"ALL"}, "States.Timeout": {ir.FailTimeout}, "States.NoChoiceMatched": {ir.FailNoEdge},
	"States.TaskFailed": {ir.FailTool, ir.FailToolUnavailable, ir.FailToolDenied}, "Custom": {ir.FailInvariant},
}

func aslOn(names []string) (on []string) {
	for _, name := range names {
		on = append(on, aslErrors[name]...)
	}
	return on
}

// aslPath is a place of the state's data: "$" or "$.a.b" below root.
func aslPath(root, path string) string { return root + strings.TrimPrefix(path, "$") }

// aslLower makes a body whose data are at root. first gives them their value.
func aslLower(m aslMachine, root, prefix string, first any) map[string]any {
	nodes := []map[string]any{{"id": prefix + "in", "op": "SET", "set": map[string]any{root: first}}}
	edges := []map[string]any{{"from": prefix + "in", "to": prefix + m.StartAt}}
	for name, s := range m.States {
		id := prefix + name
		n := map[string]any{"id": id}
		target := root
		if s.ResultPath != nil {
			target = aslPath(root, *s.ResultPath)
		}
		outputs := map[string]string{"result": target}
		last := id
		switch s.Type {
		case "Pass":
			n["op"], n["set"] = "SET", map[string]any{root: root}
			if s.Result != nil {
				n["set"] = map[string]any{target: map[string]any{"lit": s.Result}}
			}
		case "Task":
			n["op"], n["tool"], n["args"], n["outputs"] = "TOOL_CALL", s.Resource, map[string]any{}, outputs
		case "Wait":
			n["op"], n["seconds"] = "WAIT", s.Seconds
		case "Succeed":
			n["op"], n["output"] = "END", root
		case "Fail":
			n["op"], n["kind"], n["message"] = "FAIL", aslErrors[s.Error][0], s.Cause
		case "Choice":
			cases := []map[string]any{}
			for i, c := range s.Choices {
				name := fmt.Sprint("c", i)
				cases = append(cases, map[string]any{"name": name, "when": aslTest(c, root)})
				edges = append(edges, map[string]any{"from": id, "to": prefix + c["Next"].(string), "when": map[string]any{"op": "case", "is": name}})
			}
			n["op"], n["cases"] = "SWITCH", cases
			if s.Default != "" {
				n["default"] = "rest"
				edges = append(edges, map[string]any{"from": id, "to": prefix + s.Default, "when": map[string]any{"op": "case", "is": "rest"}})
			}
		case "Map":
			items := root
			if s.ItemsPath != "" {
				items = aslPath(root, s.ItemsPath)
			}
			body := aslLower(*s.ItemProcessor, "$tmp.data", id+"_", "$item")
			n["op"], n["items"], n["max_items"], n["body"], n["result"], n["outputs"] = "MAP", items, 100, body, "$tmp.data", outputs
			n["concurrency"] = max(1, s.MaxConcurrency)
		case "Parallel":
			branches, list := []map[string]any{}, []string{}
			for i, b := range s.Branches {
				name := fmt.Sprint("b", i)
				branches = append(branches, map[string]any{"name": name, "body": aslLower(b, "$tmp.data", id+"_"+name, root), "result": "$tmp.data"})
				list = append(list, "$tmp."+name+id)
				outputs[name] = "$tmp." + name + id
			}
			delete(outputs, "result")
			n["op"], n["branches"], n["outputs"] = "PARALLEL", branches, outputs
			last = id + "_out"
			nodes = append(nodes, map[string]any{"id": last, "op": "SET", "set": map[string]any{target: list}})
			edges = append(edges, map[string]any{"from": id, "to": last})
		}
		var retry, catch []map[string]any
		for _, r := range s.Retry {
			rule := map[string]any{"on": aslOn(r.ErrorEquals), "interval_s": r.IntervalSeconds, "backoff_rate": r.BackoffRate, "max_delay_s": r.MaxDelaySeconds}
			if r.MaxAttempts != nil { // they count retries, we count attempts
				rule["max_attempts"] = *r.MaxAttempts + 1
			}
			retry = append(retry, rule)
		}
		for _, c := range s.Catch {
			rule := map[string]any{"on": aslOn(c.ErrorEquals), "to": prefix + c.Next}
			if c.ResultPath != nil {
				rule["bind"] = aslPath(root, *c.ResultPath)
			}
			catch = append(catch, rule)
		}
		if retry != nil {
			n["retry"] = retry
		}
		if catch != nil {
			n["catch"] = catch
		}
		nodes = append(nodes, n)
		if s.Next != "" {
			edges = append(edges, map[string]any{"from": last, "to": prefix + s.Next})
		}
	}
	return map[string]any{"entry_node": prefix + "in", "nodes": nodes, "edges": edges}
}

// aslTest makes a condition of a choice rule.
func aslTest(c map[string]any, root string) map[string]any {
	for op, name := range map[string]string{"And": "and", "Or": "or"} {
		if list, ok := c[op].([]any); ok {
			args := []any{}
			for _, a := range list {
				args = append(args, aslTest(a.(map[string]any), root))
			}
			return map[string]any{"op": name, "args": args}
		}
	}
	if not, ok := c["Not"].(map[string]any); ok {
		return map[string]any{"op": "not", "args": []any{aslTest(not, root)}}
	}
	at := aslPath(root, c["Variable"].(string))
	for op, name := range map[string]string{
		"StringEquals": "eq", "NumericEquals": "eq", "BooleanEquals": "eq", "NumericGreaterThan": "gt", "NumericLessThan": "lt",
		"NumericGreaterThanEquals": "ge", "StringLessThan": "lt",
	} {
		if v, ok := c[op]; ok {
			typed := map[bool]string{true: "string", false: "number"}[strings.HasPrefix(op, "String")]
			if strings.HasPrefix(op, "Boolean") {
				typed = "boolean"
			}
			// A comparison with a value of another type is false there, and an error here.
			return map[string]any{"op": "and", "args": []any{
				map[string]any{"op": "type_is", "ref": at, "type": typed}, map[string]any{"op": name, "left": at, "right": v},
			}}
		}
	}
	if present, ok := c["IsPresent"].(bool); ok {
		test := map[string]any{"op": "exists", "ref": at}
		if !present {
			return map[string]any{"op": "not", "args": []any{test}}
		}
		return test
	}
	return map[string]any{"op": "is_null", "ref": at}
}

// aslRun runs a machine on an input. task answers calls: with JSON, or with the name of a failure kind behind "!".
func aslRun(t *testing.T, machine, input string, task func(skill string, n int) string) (engine.State, []float64) {
	t.Helper()
	var m aslMachine
	if err := json.Unmarshal([]byte(machine), &m); err != nil {
		t.Fatal(err)
	}
	doc := aslLower(m, "$vars.data", "", "$in.data")
	doc["execir_version"], doc["output"] = "1.0", "$vars.data"
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	p := parse(t, text)
	c := &script{t: t, p: p, s: engine.New("run_1")}
	c.feed(lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1", Input: json.RawMessage(`{"data":` + input + `}`)})
	var delays []float64
	for n := 0; !c.s.Status.Ended(); {
		cmd := c.s.Pending[0]
		switch cmd.Kind {
		case lattice.DoPrepare:
			c.feed(lattice.Prepared{CommandID: cmd.ID})
		case lattice.DoTimer:
			delays = append(delays, cmd.DelayS)
			c.feed(lattice.TimerFired{CommandID: cmd.ID})
		case lattice.DoCall:
			n++
			answer := task(cmd.Call.Skill, n)
			if kind, bad := strings.CutPrefix(answer, "!"); bad {
				c.feed(lattice.CallFinished{CommandID: cmd.ID, Kind: kind, Exit: 1, Fault: &protocol.Fault{Code: "x", Message: "no"}})
				continue
			}
			c.feed(lattice.CallFinished{CommandID: cmd.ID, OK: true, Data: json.RawMessage(answer)})
		default:
			t.Fatalf("unexpected %s", cmd.Kind)
		}
	}
	return c.s, delays
}

func TestStatesLanguage(t *testing.T) {
	answers := func(list ...string) func(string, int) string {
		return func(_ string, n int) string { return list[min(n, len(list))-1] }
	}
	const choice = `{"StartAt":"C","States":{"C":{"Type":"Choice","Choices":[
		{"Variable":"$.kind","StringEquals":"a","Next":"A"},
		{"And":[{"Variable":"$.n","NumericGreaterThanEquals":20},{"Variable":"$.n","NumericLessThan":30}],"Next":"B"},
		{"Not":{"Variable":"$.private","BooleanEquals":false},"Next":"A"}]%s},
		"A":{"Type":"Pass","Result":"A","End":true},"B":{"Type":"Pass","Result":"B","End":true},"D":{"Type":"Pass","Result":"D","End":true}}}`
	const task = `{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"m.read","End":true%s},"X":{"Type":"Pass","Result":"caught","End":true},"Y":{"Type":"Pass","Result":"timed out","End":true}}}`
	used := func(s string) string { // machines may not hold states that nothing leads to
		return strings.NewReplacer(`,"Y":{"Type":"Pass","Result":"timed out","End":true}`, "", `,"X":{"Type":"Pass","Result":"caught","End":true}`, "").Replace(s)
	}
	for _, c := range []struct {
		name, machine, input string
		task                 func(string, int) string
		want                 string // the output, or "!" and the failure kind
		delays               []float64
	}{
		{name: "Choice: the first rule that matches wins", machine: fmt.Sprintf(choice, `,"Default":"D"`), input: `{"kind":"a","n":25,"private":false}`, want: `"A"`},
		{name: "Choice: And needs all", machine: fmt.Sprintf(choice, `,"Default":"D"`), input: `{"kind":"b","n":25,"private":false}`, want: `"B"`},
		{name: "Choice: Default when nothing matches", machine: fmt.Sprintf(choice, `,"Default":"D"`), input: `{"kind":"b","n":30,"private":false}`, want: `"D"`},
		{name: "Choice: Not", machine: fmt.Sprintf(choice, `,"Default":"D"`), input: `{"kind":"b","n":1,"private":true}`, want: `"A"`},
		{name: "Choice: a value of another type does not match", machine: fmt.Sprintf(choice, `,"Default":"D"`), input: `{"kind":7,"n":"25","private":false}`, want: `"D"`},
		{name: "Choice: NoChoiceMatched without Default", machine: strings.Replace(fmt.Sprintf(choice, ``), `,"D":{"Type":"Pass","Result":"D","End":true}`, "", 1), input: `{"kind":"b","n":1,"private":false}`, want: "!no_edge_matched"},
		{name: "Choice: IsPresent guards", machine: `{"StartAt":"C","States":{"C":{"Type":"Choice","Choices":[{"And":[{"Variable":"$.x","IsPresent":true},{"Variable":"$.x","NumericEquals":1}],"Next":"A"}],"Default":"D"},
			"A":{"Type":"Pass","Result":"A","End":true},"D":{"Type":"Pass","Result":"D","End":true}}}`, input: `{}`, want: `"D"`},
		{name: "Pass: Result becomes the output", machine: `{"StartAt":"P","States":{"P":{"Type":"Pass","Result":{"x":1},"End":true}}}`, input: `{}`, want: `{"x":1}`},
		{name: "Pass: without Result the input goes on", machine: `{"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}}`, input: `{"y":2}`, want: `{"y":2}`},
		{name: "Pass: ResultPath puts it into the input", machine: `{"StartAt":"P","States":{"P":{"Type":"Pass","Result":{"x":1},"ResultPath":"$.at","End":true}}}`, input: `{"y":2}`, want: `{"at":{"x":1},"y":2}`},
		{name: "Wait: Seconds", machine: `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":10,"End":true}}}`, input: `5`, want: `5`, delays: []float64{10}},
		{name: "Succeed ends the execution", machine: `{"StartAt":"S","States":{"S":{"Type":"Succeed"}}}`, input: `[1]`, want: `[1]`},
		{name: "Fail ends it with its error", machine: `{"StartAt":"F","States":{"F":{"Type":"Fail","Error":"Custom","Cause":"why"}}}`, input: `1`, want: "!invariant_failure"},
		{name: "Retry: the defaults are 3 retries, after 1, 2 and 4 seconds", machine: used(fmt.Sprintf(task, `,"Retry":[{"ErrorEquals":["States.TaskFailed"]}]`)), input: `1`,
			task: answers("!tool_error"), want: "!tool_error", delays: []float64{1, 2, 4}},
		{name: "Retry: it stops at success", machine: used(fmt.Sprintf(task, `,"Retry":[{"ErrorEquals":["States.ALL"],"IntervalSeconds":3,"BackoffRate":1.5,"MaxAttempts":2}]`)), input: `1`,
			task: answers("!timeout", "!tool_error", `"ok"`), want: `"ok"`, delays: []float64{3, 4.5}},
		{name: "Retry: MaxAttempts 0 never retries", machine: used(fmt.Sprintf(task, `,"Retry":[{"ErrorEquals":["States.Timeout"],"MaxAttempts":0},{"ErrorEquals":["States.ALL"]}]`)), input: `1`,
			task: answers("!timeout"), want: "!timeout"},
		{name: "Retry: MaxDelaySeconds caps the growth", machine: used(fmt.Sprintf(task, `,"Retry":[{"ErrorEquals":["States.ALL"],"IntervalSeconds":3,"BackoffRate":2,"MaxAttempts":3,"MaxDelaySeconds":5}]`)), input: `1`,
			task: answers("!timeout"), want: "!timeout", delays: []float64{3, 5, 5}},
		{name: "Retry: each retrier counts its own", machine: used(fmt.Sprintf(task, `,"Retry":[{"ErrorEquals":["States.Timeout"],"MaxAttempts":1},{"ErrorEquals":["States.TaskFailed"],"MaxAttempts":1,"IntervalSeconds":7}]`)), input: `1`,
			task: answers("!timeout", "!tool_error", "!timeout"), want: "!timeout", delays: []float64{1, 7}},
		{name: "Catch: after the retries, the first that matches", machine: fmt.Sprintf(task, `,"Retry":[{"ErrorEquals":["States.Timeout"],"MaxAttempts":1}],"Catch":[{"ErrorEquals":["States.Timeout"],"Next":"Y"},{"ErrorEquals":["States.ALL"],"Next":"X"}]`), input: `1`,
			task: answers("!timeout"), want: `"timed out"`, delays: []float64{1}},
		{name: "Catch: States.ALL takes what others left", machine: fmt.Sprintf(task, `,"Catch":[{"ErrorEquals":["States.Timeout"],"Next":"Y"},{"ErrorEquals":["States.ALL"],"Next":"X"}]`), input: `1`,
			task: answers("!tool_error"), want: `"caught"`},
		{name: "Map: output in the order of the input", machine: `{"StartAt":"M","States":{"M":{"Type":"Map","MaxConcurrency":2,"ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Task","Resource":"m.read","ResultPath":"$.got","End":true}}},"End":true}}}`,
			input: `[{"i":0},{"i":1},{"i":2}]`, task: func(_ string, n int) string { return fmt.Sprint(n) }, want: `[{"got":1,"i":0},{"got":2,"i":1},{"got":3,"i":2}]`},
		{name: "Map: of nothing is nothing", machine: `{"StartAt":"M","States":{"M":{"Type":"Map","ItemsPath":"$.items","ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}},"End":true}}}`, input: `{"items":[]}`, want: `[]`},
		{name: "Map: one failed iteration fails it", machine: `{"StartAt":"M","States":{"M":{"Type":"Map","ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Task","Resource":"m.read","End":true}}},"End":true}}}`,
			input: `[1,2]`, task: answers(`1`, "!tool_error"), want: "!tool_error"},
		{name: "Map: a Retry of the Map runs all of it again", machine: `{"StartAt":"M","States":{"M":{"Type":"Map","Retry":[{"ErrorEquals":["States.TaskFailed"],"MaxAttempts":1}],"ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Task","Resource":"m.read","End":true}}},"End":true}}}`,
			input: `[1,2]`, task: answers(`1`, "!tool_error", `3`, `4`), want: `[3,4]`, delays: []float64{1}},
		{name: "Parallel: an array in the order of the branches", machine: `{"StartAt":"P","States":{"P":{"Type":"Parallel","Branches":[{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"m.read","End":true}}},{"StartAt":"B","States":{"B":{"Type":"Pass","Result":"b","End":true}}}],"End":true}}}`,
			input: `1`, task: answers(`"a"`), want: `["a","b"]`},
		{name: "Parallel: each branch gets the input", machine: `{"StartAt":"P","States":{"P":{"Type":"Parallel","Branches":[{"StartAt":"A","States":{"A":{"Type":"Pass","End":true}}},{"StartAt":"B","States":{"B":{"Type":"Pass","Result":2,"ResultPath":"$.b","End":true}}}],"End":true}}}`,
			input: `{"x":1}`, want: `[{"x":1},{"b":2,"x":1}]`},
		{name: "Parallel: a failed branch fails it, and is caught there", machine: `{"StartAt":"P","States":{"P":{"Type":"Parallel","Catch":[{"ErrorEquals":["States.ALL"],"Next":"X","ResultPath":"$.error"}],"Branches":[{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"m.read","End":true}}},{"StartAt":"B","States":{"B":{"Type":"Pass","End":true}}}],"End":true},"X":{"Type":"Pass","Result":"mended","ResultPath":"$.how","End":true}}}`,
			input: `{}`, task: answers("!tool_error"), want: `{"error":{"attempt":1,"data":{"code":"x","message":"no","retryable":false},"kind":"tool_error","message":"branch b0 failed at P_b0A: m.read: no","node":"P"},"how":"mended"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, delays := aslRun(t, c.machine, c.input, c.task)
			got := ""
			if s.Failure != nil {
				got = "!" + s.Failure.Kind
			} else if raw, err := ir.Marshal(s.Output); err == nil {
				got = string(raw)
			}
			if got != c.want {
				t.Errorf("output %s, want %s (%v)", got, c.want, s.Failure)
			}
			if diff := cmp.Diff(c.delays, delays); diff != "" {
				t.Errorf("delays (-want +got):\n%s", diff)
			}
		})
	}
}
