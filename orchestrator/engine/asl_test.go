package engine_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
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
	SecondsPath, Timestamp, TimestampPath                  string
	End                                                    bool
	Result                                                 json.RawMessage
	ResultPath                                             aslResultPath
	ItemSelector                                           map[string]any
	Seconds, TimeoutSeconds                                float64
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
	Next, JitterStrategy         string
	ResultPath                   aslResultPath
}

// aslResultPath tells a path that is null, for which the result is dropped, from one that is not there, which is "$".
type aslResultPath struct {
	path string
	drop bool
}

func (p *aslResultPath) UnmarshalJSON(data []byte) error {
	p.drop = string(data) == "null"
	return json.Unmarshal(data, &p.path)
}

// at is the place for a result below root.
func (p aslResultPath) at(root string) string {
	if p.drop {
		return "$tmp.dropped"
	}
	return aslPath(root, p.path)
}

// aslErrors are our failure kinds under the names of the States Language.
var aslErrors = map[string][]string{
	"States.ALL": {"ALL"}, "States.Timeout": {expr.FailTimeout}, "States.NoChoiceMatched": {expr.FailNoEdge},
	"States.TaskFailed": {expr.FailTool, expr.FailToolUnavailable, expr.FailToolDenied}, "Custom": {expr.FailInvariant},
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
		target := s.ResultPath.at(root)
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
			if s.TimeoutSeconds > 0 {
				n["timeout_s"] = s.TimeoutSeconds
			}
		case "Wait":
			n["op"] = "WAIT"
			switch {
			case s.SecondsPath != "":
				n["seconds"] = aslPath(root, s.SecondsPath)
			case s.Timestamp != "":
				n["at"] = s.Timestamp
			case s.TimestampPath != "":
				n["at"] = aslPath(root, s.TimestampPath)
			default:
				n["seconds"] = s.Seconds
			}
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
			var item any = "$item"
			if s.ItemSelector != nil {
				item = aslSelect(s.ItemSelector, root)
			}
			body := aslLower(*s.ItemProcessor, "$tmp.data", id+"_", item)
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
			if r.JitterStrategy == "FULL" {
				rule["jitter"] = "full"
			}
			if r.MaxAttempts != nil { // they count retries, we count attempts
				rule["max_attempts"] = *r.MaxAttempts + 1
			}
			retry = append(retry, rule)
		}
		for _, c := range s.Catch {
			catch = append(catch, map[string]any{"on": aslOn(c.ErrorEquals), "to": prefix + c.Next, "bind": c.ResultPath.at(root)})
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
	typed := func(name string, test map[string]any) map[string]any {
		// A comparison with a value of another type is false there, and an error here.
		return map[string]any{"op": "and", "args": []any{map[string]any{"op": "type_is", "ref": at, "type": name}, test}}
	}
	for kind, name := range map[string]string{"String": "string", "Numeric": "number", "Boolean": "boolean", "Timestamp": "string"} {
		for op, ours := range map[string]string{"Equals": "eq", "LessThan": "lt", "GreaterThan": "gt", "LessThanEquals": "le", "GreaterThanEquals": "ge"} {
			right, ok := c[kind+op]
			if path, isPath := c[kind+op+"Path"].(string); isPath {
				right, ok = aslPath(root, path), true
			}
			if !ok {
				continue
			}
			test := map[string]any{"op": ours, "left": at, "right": right}
			if kind == "Timestamp" { // in UTC, to the second: those sort as text
				test = map[string]any{"op": "and", "args": []any{map[string]any{"op": "matches", "left": at, "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$`}, test}}
			}
			return typed(name, test)
		}
	}
	if glob, ok := c["StringMatches"].(string); ok {
		return typed("string", map[string]any{"op": "matches", "left": at, "pattern": "^" + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*") + "$"})
	}
	for op, test := range map[string]map[string]any{
		"IsPresent": {"op": "exists", "ref": at}, "IsNull": {"op": "is_null", "ref": at}, "IsString": {"op": "type_is", "ref": at, "type": "string"},
		"IsNumeric": {"op": "type_is", "ref": at, "type": "number"}, "IsBoolean": {"op": "type_is", "ref": at, "type": "boolean"},
	} {
		if want, ok := c[op].(bool); ok && want {
			return test
		} else if ok {
			return map[string]any{"op": "not", "args": []any{test}}
		}
	}
	panic(fmt.Sprint("no test in ", c))
}

// aslSelect makes a value expression of a payload template: names that end in ".$" hold paths.
func aslSelect(template map[string]any, root string) map[string]any {
	out := map[string]any{}
	for name, v := range template {
		path, _ := v.(string)
		key, isPath := strings.CutSuffix(name, ".$")
		switch {
		case isPath && path == "$$.Map.Item.Value":
			out[key] = "$item"
		case isPath && path == "$$.Map.Item.Index":
			out[key] = "$index"
		case isPath:
			out[key] = aslPath(root, path)
		default:
			out[name] = map[string]any{"lit": v}
		}
	}
	return out
}

// aslRun runs a machine on an input. task answers calls: with JSON, or with the name of a failure kind behind "!".
func aslRun(t *testing.T, machine, input string, task func(skill string, n int) string) (runstate.State, []float64) {
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
	c := &script{t: t, p: p, s: runstate.New("run_1")}
	c.feed(lattice.RunStarted{RunID: "run_1", Program: p.Digest, Sprite: "main-1", Input: json.RawMessage(`{"data":` + input + `}`)})
	var delays []float64
	for n := 0; !c.s.Status.Ended(); {
		cmd := c.s.Pending[0]
		switch cmd.Kind {
		case lattice.DoPrepare:
			c.feed(lattice.Prepared{CommandID: cmd.ID})
		case lattice.DoTimer:
			if at, err := time.Parse(time.RFC3339Nano, cmd.Until); err == nil {
				cmd.DelayS = float64(at.Unix()) // of a wait for an instant
			}
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
	const pick = `{"StartAt":"C","States":{"C":{"Type":"Choice","Choices":[%s],"Default":"D"},"A":{"Type":"Pass","Result":"A","End":true},"D":{"Type":"Pass","Result":"D","End":true}}}`
	used2 := func(s string) string {
		return strings.Replace(s, `,"Y":{"Type":"Pass","Result":"timed out","End":true}`, "", 1)
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
		{name: "Choice: numbers compare as numbers, whatever their form", machine: fmt.Sprintf(pick, `{"Variable":"$.n","NumericEquals":1.0,"Next":"A"}`), input: `{"n":10e-1}`, want: `"A"`},
		{name: "Choice: NumericLessThanEquals takes the bound", machine: fmt.Sprintf(pick, `{"Variable":"$.n","NumericLessThanEquals":-2,"Next":"A"}`), input: `{"n":-2}`, want: `"A"`},
		{name: "Choice: StringLessThan compares text, not numbers", machine: fmt.Sprintf(pick, `{"Variable":"$.s","StringLessThan":"9","Next":"A"}`), input: `{"s":"10"}`, want: `"A"`},
		{name: "Choice: StringEqualsPath reads the other side", machine: fmt.Sprintf(pick, `{"Variable":"$.s","StringEqualsPath":"$.t","Next":"A"}`), input: `{"s":"x","t":"x"}`, want: `"A"`},
		{name: "Choice: StringMatches knows *", machine: fmt.Sprintf(pick, `{"Variable":"$.s","StringMatches":"log-*.txt","Next":"A"}`), input: `{"s":"log-2026.txt"}`, want: `"A"`},
		{name: "Choice: and nothing else", machine: fmt.Sprintf(pick, `{"Variable":"$.s","StringMatches":"log-*.txt","Next":"A"}`), input: `{"s":"log-2026xtxt"}`, want: `"D"`},
		{name: "Choice: BooleanEquals false is no absence", machine: fmt.Sprintf(pick, `{"Variable":"$.b","BooleanEquals":false,"Next":"A"}`), input: `{"b":null}`, want: `"D"`},
		{name: "Choice: TimestampLessThan", machine: fmt.Sprintf(pick, `{"Variable":"$.t","TimestampLessThan":"2026-01-02T00:00:00Z","Next":"A"}`), input: `{"t":"2026-01-01T23:59:59Z"}`, want: `"A"`},
		{name: "Choice: TimestampGreaterThanEquals takes the bound", machine: fmt.Sprintf(pick, `{"Variable":"$.t","TimestampGreaterThanEquals":"2026-01-02T00:00:00Z","Next":"A"}`), input: `{"t":"2026-01-02T00:00:00Z"}`, want: `"A"`},
		{name: "Choice: what is no timestamp does not match", machine: fmt.Sprintf(pick, `{"Variable":"$.t","TimestampLessThan":"2026-01-02T00:00:00Z","Next":"A"}`), input: `{"t":"1"}`, want: `"D"`},
		{name: "Choice: IsNull, IsString, IsNumeric, IsBoolean", machine: fmt.Sprintf(pick, `{"And":[{"Variable":"$.z","IsNull":true},{"Variable":"$.s","IsString":true},{"Variable":"$.n","IsNumeric":true},{"Variable":"$.b","IsBoolean":true},{"Variable":"$.s","IsNumeric":false}],"Next":"A"}`), input: `{"z":null,"s":"1","n":1,"b":false}`, want: `"A"`},
		{name: "Choice: a variable that is not there is an error", machine: fmt.Sprintf(pick, `{"Variable":"$.x","NumericEquals":1,"Next":"A"}`), input: `{}`, want: "!ref_unresolved"},
		{name: "Choice: Or takes the first that holds", machine: fmt.Sprintf(pick, `{"Or":[{"Variable":"$.n","NumericEquals":1},{"Variable":"$.x","NumericEquals":1}],"Next":"A"}`), input: `{"n":1}`, want: `"A"`},
		{name: "Pass: a ResultPath of null drops the result", machine: `{"StartAt":"P","States":{"P":{"Type":"Pass","Result":1,"ResultPath":null,"End":true}}}`, input: `{"y":2}`, want: `{"y":2}`},
		{name: "Task: ResultPath keeps the input", machine: used(fmt.Sprintf(task, `,"ResultPath":"$.a.b"`)), input: `{"y":2}`, task: answers(`7`), want: `{"a":{"b":7},"y":2}`},
		{name: "Wait: SecondsPath", machine: `{"StartAt":"W","States":{"W":{"Type":"Wait","SecondsPath":"$.s","End":true}}}`, input: `{"s":2.5}`, want: `{"s":2.5}`, delays: []float64{2.5}},
		{name: "Wait: Timestamp", machine: `{"StartAt":"W","States":{"W":{"Type":"Wait","Timestamp":"2026-03-14T01:59:00Z","End":true}}}`, input: `1`, want: `1`, delays: []float64{1773453540}},
		{name: "Wait: TimestampPath", machine: `{"StartAt":"W","States":{"W":{"Type":"Wait","TimestampPath":"$.t","End":true}}}`, input: `{"t":"2026-03-14T02:59:00+01:00"}`, want: `{"t":"2026-03-14T02:59:00+01:00"}`, delays: []float64{1773453540}},
		{name: "Wait: seconds that are none", machine: `{"StartAt":"W","States":{"W":{"Type":"Wait","SecondsPath":"$.s","End":true}}}`, input: `{"s":"2"}`, want: "!state_type_error"},
		{name: "Retry: States.ALL stands last, and takes what none before it named", machine: used(fmt.Sprintf(task, `,"Retry":[{"ErrorEquals":["Custom"],"MaxAttempts":5},{"ErrorEquals":["States.ALL"],"IntervalSeconds":2,"MaxAttempts":1}]`)), input: `1`,
			task: answers("!timeout"), want: "!timeout", delays: []float64{2}},
		{name: "Retry: one retrier counts all errors that it names", machine: used(fmt.Sprintf(task, `,"Retry":[{"ErrorEquals":["States.Timeout","States.TaskFailed"],"IntervalSeconds":1,"BackoffRate":3,"MaxAttempts":2}]`)), input: `1`,
			task: answers("!timeout", "!tool_error", "!timeout"), want: "!timeout", delays: []float64{1, 3}},
		{name: "Catch: the error replaces the input where no ResultPath says otherwise", machine: strings.Replace(used2(fmt.Sprintf(task, `,"Catch":[{"ErrorEquals":["States.ALL"],"Next":"X"}]`)), `"Result":"caught",`, "", 1), input: `{"y":2}`,
			task: answers("!timeout"), want: `{"attempt":1,"data":{"code":"x","message":"no","retryable":false},"kind":"timeout","message":"m.read: no","node":"T"}`},
		{name: "Map: ItemSelector makes the input of an iteration", machine: `{"StartAt":"M","States":{"M":{"Type":"Map","ItemsPath":"$.items","ItemSelector":{"i.$":"$$.Map.Item.Index","v.$":"$$.Map.Item.Value","of.$":"$.name","is":{"a":"$.b"}},"ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}},"ResultPath":"$.out","End":true}}}`,
			input: `{"name":"n","items":["x"]}`, want: `{"items":["x"],"name":"n","out":[{"i":0,"is":{"a":"$.b"},"of":"n","v":"x"}]}`},
		{name: "Map: an ItemsPath to no array fails it", machine: `{"StartAt":"M","States":{"M":{"Type":"Map","ItemsPath":"$.items","ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}},"End":true}}}`, input: `{"items":{"0":1}}`, want: "!state_type_error"},
		{name: "Map: a caught error inside fails nothing", machine: `{"StartAt":"M","States":{"M":{"Type":"Map","ItemProcessor":{"StartAt":"P","States":{"P":{"Type":"Task","Resource":"m.read","Catch":[{"ErrorEquals":["States.ALL"],"Next":"Q"}],"End":true},"Q":{"Type":"Pass","Result":"mended","End":true}}},"End":true}}}`,
			input: `[1,2]`, task: answers(`1`, "!tool_error"), want: `[1,"mended"]`},
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
			} else if raw, err := expr.Marshal(s.Output); err == nil {
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

// TestStatesLanguageJitter holds that FULL jitter waits between nothing and the whole interval, and the same when it is told
// again.
func TestStatesLanguageJitter(t *testing.T) {
	const machine = `{"StartAt":"T","States":{"T":{"Type":"Task","Resource":"m.read","End":true,"Retry":[{"ErrorEquals":["States.ALL"],"IntervalSeconds":8,"BackoffRate":2,"MaxAttempts":4,"MaxDelaySeconds":20,"JitterStrategy":"FULL"}]}}}`
	bad := func(string, int) string { return "!timeout" }
	_, delays := aslRun(t, machine, `1`, bad)
	_, again := aslRun(t, machine, `1`, bad)
	most := []float64{8, 16, 20, 20}
	if !cmp.Equal(delays, again) || len(delays) != len(most) {
		t.Fatalf("delays %v, and %v when told again", delays, again)
	}
	for i, d := range delays {
		if d < 0 || d >= most[i] {
			t.Errorf("retry %d waits %g s, at most %g", i, d, most[i])
		}
	}
}
