package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Ask answers for models: small ones name a candidate that is none, middling ones the second.
func (w *world) Ask(_ context.Context, q lattice.ModelRequest) (lattice.ModelReply, error) {
	reply := lattice.ModelReply{Provider: "test", Model: "m", Text: `{"id":"C9"}`, Usage: lattice.ModelUsage{InputTokens: 10, OutputTokens: 2, CostUSD: 0.25}}
	if q.Class == "MEDIUM_PLAN" {
		reply.Text = `{"id":"C2"}`
	}
	err := w.around(func() error { w.asked++; return nil })
	return reply, err
}

const policies = `"validators":[],"retry_policy":{"strategy":"PATCH_JSON_FROM_ERROR","max_attempts":2}`

// choosing is a flow of one choice; more are members of its node, head members of the document.
func choosing(more, head string) string {
	return `{"execir_version":"1.0",` + head + `"entry_node":"pick","nodes":[{"id":"pick","op":"LLM_CHOOSE","model_class":"SMALL_EXEC","prompt_template":"choose_v1",
"inputs":{"question":"who?","candidates":{"ref":"$in.found","pick":["id","name"]}},"output_schema":"ChoiceById","resolve":true,
"outputs":{"result":"$vars.choice","item":"$vars.item","attempts":"$vars.n","escalated":"$vars.up","repaired":"$vars.mended"},` + policies + more + `}` +
		`,{"id":"sorry","op":"PACK","inputs":{"kind":{"ref":"$err.kind","default":null}},"outputs":{"kind":"$vars.kind"}}],
"edges":[{"from":"pick","to":"sorry","when":{"op":"never"}},{"from":"pick","to":"sorry"}]}`
}

const (
	found    = `{"found":[{"id":"C1","name":"A","email":"a@x"},{"id":"C2","name":"B","email":"b@x"}]}`
	escalate = `,"escalation":{"on":["invariant_failure"],"to_model_class":"MEDIUM_PLAN"}`
	caught   = `,"catch":[{"on":["ALL"],"to":"sorry"}]`
)

// asking steps a run to its first question.
func asking(t testing.TB, doc, input string) *script {
	t.Helper()
	c := &script{t: t, p: parse(t, []byte(doc)), s: runstate.New("run_1")}
	c.feed(lattice.RunStarted{RunID: "run_1", WorkItem: "w", Program: c.p.Digest, Input: json.RawMessage(input)})
	return c
}

// says answers the pending question.
func (c *script) says(text string) lattice.ModelRequest {
	c.t.Helper()
	return c.reply(lattice.ModelReply{Text: text, Usage: lattice.ModelUsage{InputTokens: 100, OutputTokens: 10, CostUSD: 0.5}})
}

func (c *script) reply(r lattice.ModelReply) lattice.ModelRequest {
	c.t.Helper()
	cmd := c.command(lattice.DoModel)
	c.feed(cmd.Model.Answered(cmd.ID, r))
	return *cmd.Model
}

const chose = `"choice":{"id":"C2"},"item":{"email":"b@x","id":"C2","name":"B"},"kind":null,`

func TestChoosing(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"the first answer holds": func(t *testing.T) {
			c := asking(t, choosing("", ""), found)
			q := c.says(`{"id":"C2"}`)
			c.is(lattice.Succeeded, "", `{`+chose+`"mended":false,"n":1,"up":false}`)
			if strings.Contains(q.User, "@x") || strings.Contains(q.System+q.User, "LLM_CHOOSE") || q.MaxOutputTokens != ir.DefaultOutputTokens {
				t.Errorf("the model saw more than its inputs: %+v", q)
			}
			if want := (runstate.Spent{Calls: 1, ModelUsage: lattice.ModelUsage{InputTokens: 100, OutputTokens: 10, CostUSD: 0.5}}); c.s.Models != want || c.s.ModelsBy["pick"] != want {
				t.Errorf("spent %+v, by node %+v", c.s.Models, c.s.ModelsBy)
			}
		},
		"a refused answer is mended": func(t *testing.T) {
			c := asking(t, choosing("", ""), found)
			c.says(`{"id":"C9"}`)
			q := c.says(`{"id":"C2"}`)
			c.is(lattice.Succeeded, "", `{`+chose+`"mended":true,"n":2,"up":false}`)
			if !strings.Contains(q.User, `"allowed_ids":["C1","C2"]`) || !strings.Contains(q.User, `"previous_output":{"id":"C9"}`) {
				t.Errorf("repair prompt: %s", q.User)
			}
		},
		"repair, escalate, pass": func(t *testing.T) {
			c := asking(t, choosing(escalate, ""), found)
			c.says(`C9`)
			c.says(`{"id":"C9"}`)
			if q := c.says(`{"id":"C2"}`); q.Class != "MEDIUM_PLAN" || q.Try != 3 || !strings.Contains(q.User, "C9") {
				t.Errorf("the last question: %+v", q)
			}
			c.is(lattice.Succeeded, "", `{`+chose+`"mended":true,"n":3,"up":true}`)
		},
		"exhausted, the last answer goes nowhere": func(t *testing.T) {
			c := asking(t, choosing("", ""), found)
			c.says(`{"id":"C8"}`)
			c.says(`{"id":"C9"}`)
			c.is(lattice.Failed, expr.FailInvariant, `{}`)
			if !strings.Contains(string(c.s.Failure.Data), `"previous_output":{"id":"C9"}`) || c.s.Failure.Attempt != 2 {
				t.Errorf("failure = %+v %s", c.s.Failure, c.s.Failure.Data)
			}
		},
		"exhausted, caught": func(t *testing.T) {
			c := asking(t, choosing(caught, ""), found)
			c.says(`nonsense`)
			c.says(`{"id":2,"x":1}`)
			c.is(lattice.Succeeded, "", `{"kind":"schema_failure"}`)
		},
		"refused": func(t *testing.T) {
			c := asking(t, choosing("", ""), found)
			c.reply(lattice.ModelReply{Kind: expr.FailRefusal, Message: "no"})
			c.reply(lattice.ModelReply{Kind: expr.FailRefusal, Message: "no"})
			c.is(lattice.Failed, expr.FailRefusal, `{}`)
		},
		"a provider that is down is not asked again here": func(t *testing.T) {
			c := asking(t, choosing("", ""), found)
			c.reply(lattice.ModelReply{Kind: expr.FailProvider, Message: "down"})
			c.is(lattice.Failed, expr.FailProvider, `{}`)
		},
		"one candidate needs no model": func(t *testing.T) {
			c := asking(t, choosing("", ""), `{"found":[{"id":7,"name":"A","email":"a@x"}]}`)
			c.is(lattice.Succeeded, "", `{"choice":{"id":7},"item":{"email":"a@x","id":7,"name":"A"},"kind":null,"mended":false,"n":0,"up":false}`)
		},
		"one candidate, asked for": func(t *testing.T) {
			asking(t, choosing(`,"on_single":"ask"`, ""), `{"found":[{"id":"C1"}]}`).command(lattice.DoModel)
		},
		"none": func(t *testing.T) {
			asking(t, choosing("", ""), `{"found":[]}`).is(lattice.Failed, expr.FailInvariant, `{}`)
		},
		"none is null": func(t *testing.T) {
			c := asking(t, choosing(`,"on_empty":"null"`, ""), `{"found":[]}`)
			c.is(lattice.Succeeded, "", `{"choice":null,"item":null,"kind":null,"mended":false,"n":0,"up":false}`)
		},
		"candidates without ids": func(t *testing.T) {
			asking(t, choosing("", ""), `{"found":[{"name":"A"},{"name":"B"}]}`).is(lattice.Failed, expr.FailStateType, `{}`)
		},
		"the same id twice": func(t *testing.T) {
			asking(t, choosing("", ""), `{"found":[{"id":1},{"id":1}]}`).is(lattice.Failed, expr.FailStateType, `{}`)
		},
		"too many calls": func(t *testing.T) {
			c := asking(t, choosing(caught, `"limits":{"max_llm_calls":1},`), found)
			c.says(`{"id":"C9"}`)
			c.is(lattice.Failed, expr.FailLimit, `{}`)
		},
		"too many tokens": func(t *testing.T) {
			c := asking(t, choosing(`,"max_output_tokens":50`, `"limits":{"max_tokens":400},`), found)
			c.says(`{"id":"C9"}`)
			c.is(lattice.Failed, expr.FailLimit, `{}`)
		},
		"the budget that is left": func(t *testing.T) {
			c := asking(t, choosing("", `"limits":{"max_cost_usd":2},`), found)
			c.says(`{"id":"C9"}`)
			if q := c.command(lattice.DoModel).Model; q.BudgetUSD == nil || *q.BudgetUSD != 1.5 {
				t.Errorf("budget = %v, want 1.5", q.BudgetUSD)
			}
		},
		"an answer to another question": func(t *testing.T) {
			c := asking(t, choosing("", ""), found)
			if _, _, err := engine.Step(c.p, c.s, lattice.ModelAnswered{CommandID: c.command(lattice.DoModel).ID, Request: "sha256:0"}); err == nil {
				t.Error("Step took it")
			}
		},
		"asked again counts": func(t *testing.T) {
			c := asking(t, choosing("", `"limits":{"max_llm_calls":2},`), found)
			again := lattice.ModelAskedAgain{CommandID: c.command(lattice.DoModel).ID, Again: 1}
			c.feed(again)
			if c.s.Models.Calls != 2 {
				t.Errorf("%d calls, want 2", c.s.Models.Calls)
			}
			if _, _, err := engine.Step(c.p, c.s, again); !errors.Is(err, engine.ErrStale) {
				t.Errorf("the same once more: %v, want ErrStale", err)
			}
			again.Again++
			c.feed(again)
			c.is(lattice.Failed, expr.FailLimit, `{}`)
		},
	} {
		t.Run(name, test)
	}
}

func TestOtherQuestions(t *testing.T) {
	node := func(op, template, schema, inputs, more string) string {
		return fmt.Sprintf(`{"execir_version":"1.0","entry_node":"n","nodes":[{"id":"n","op":%q,"model_class":"SMALL_EXEC","prompt_template":%q,"output_schema":%q,"inputs":%s,%s,"outputs":{"result":"$vars.r"}%s}],"edges":[]}`,
			op, template, schema, inputs, policies, more)
	}
	c := asking(t, node("LLM_EXTRACT", "extract_intent_v1", "ExtractedIntent", `{"text":{"ref":"$in.text","truncate_chars":4},"now":"2026-01-01T00:00:00Z","timezone":"UTC"}`, ""), `{"text":"Sarah, 14:30"}`)
	if got := string(c.command(lattice.DoModel).Model.Trimmed); got != `[{"path":"/text","unit":"chars","before":12,"after":4}]` {
		t.Errorf("trimmed = %s", got)
	}
	c.says("```json\n" + `{"recipient_name":"Sarah","meeting_time_iso":"","message":"hi","attachment_hint":""}` + "\n```")
	c.is(lattice.Succeeded, "", `{"r":{"attachment_hint":"","meeting_time_iso":"","message":"hi","recipient_name":"Sarah"}}`)

	c = asking(t, node("LLM_CLASSIFY", "classify_v1", "Label", `{"text":"$in.text","question":"what?"}`, `,"labels":["spam","ham"],"allow_unknown":true`), `{"text":"x"}`)
	if q := c.says(`{"label":"jam"}`); !strings.Contains(q.User, `["spam","ham"]`) {
		t.Errorf("prompt = %s", q.User)
	}
	c.says(`{"label":"unknown"}`)
	c.is(lattice.Succeeded, "", `{"r":{"label":"unknown"}}`)

	c = asking(t, node("LLM_WRITE", "draft_email_v1", "EmailDraft", `{"handoff":{"a":1}}`, ""), `{}`)
	c.says(`{"subject":"s","body":"b"}`)
	c.is(lattice.Succeeded, "", `{"r":{"body":"b","subject":"s"}}`)
}

// However many items ask at once, answers are taken in item order; and where money is limited, one asks at a time.
func TestQuestionsSideBySide(t *testing.T) {
	doc := func(head string) string {
		return `{"execir_version":"1.0",` + head + `"entry_node":"each","nodes":[{"id":"each","op":"MAP","items":"$in.l","max_items":9,"concurrency":3,"outputs":{"result":"$vars.r"},"result":"$tmp.l.label",
"body":{"entry_node":"n","nodes":[{"id":"n","op":"LLM_CLASSIFY","model_class":"SMALL_EXEC","prompt_template":"classify_v1","labels":["a","b"],"output_schema":"Label","inputs":{"text":"$item","question":"?"},` + policies + `,"outputs":{"result":"$tmp.l"}}]}}],"edges":[]}`
	}
	for head, wide := range map[string]int{"": 3, `"limits":{"max_parallel":3,"max_cost_usd":9},`: 1} {
		c := asking(t, doc(head), `{"l":["w","x","y","z"]}`)
		for len(c.s.Pending) > 0 {
			if len(c.s.Pending) > wide {
				t.Fatalf("%d questions at once, want %d", len(c.s.Pending), wide)
			}
			label := "a"
			if strings.Contains(c.command(lattice.DoModel).Model.User, `"y"`) {
				label = "b"
			}
			c.says(`{"label":"` + label + `"}`)
		}
		c.is(lattice.Succeeded, "", `{"r":["a","a","b","a"]}`)
	}
}

// Going back takes back what was answered, and not what it cost.
func TestNoWayBackTakesMoneyBack(t *testing.T) {
	p, w := flowOf(t, []string{"model", "pack"}), newWorld(-1)
	if _, err := play(p, w); err != nil {
		t.Fatal(err)
	}
	first := points(t, p, w)[0]
	r := load(t, p, "run_1", w)
	spent := r.State().Models
	if err := r.Rewind(t.Context(), lattice.Rewound{Moment: first.Moment, State: stateAt(t, p, w, first), By: "ada"}); err != nil {
		t.Fatal(err)
	}
	if now := r.State().Models; now.Calls != spent.Calls+1 || now.CostUSD != spent.CostUSD || spent.CostUSD != 0.75 {
		t.Errorf("spent %+v before and %+v behind the way back, with one question under way", spent, now)
	}
}

// Wherever the driver dies, what was answered is not asked again, what was not is, and each question counts.
func TestQuestionsSurviveTheDriver(t *testing.T) {
	p := parse(t, []byte(strings.ReplaceAll(choosing(escalate, ""), `{"ref":"$in.found","pick":["id","name"]}`, `[{"id":"C1"},{"id":"C2"}]`)))
	whole := newWorld(-1)
	want, err := play(p, whole)
	if err != nil || want.Status != lattice.Succeeded || want.Models.Calls != 3 {
		t.Fatalf("%s %v, %+v, %v", want.Status, want.Failure, want.Models, err)
	}
	for fuse := range whole.ticks {
		w := newWorld(fuse)
		got, err := play(p, w)
		if err != nil || got.Status != lattice.Succeeded || !cmp.Equal(got.Vars, want.Vars) {
			t.Fatalf("killed at tick %d: %s with %v, %v", fuse, got.Status, got.Vars, err)
		}
		answered, again := 0, 0
		for _, e := range w.log {
			switch e.Type {
			case "ModelAnswered":
				answered++
			case "ModelAskedAgain":
				again++
			}
		}
		if answered != 3 || again > 1 || got.Models.Calls != answered+again || w.asked > answered+again {
			t.Errorf("killed at tick %d: %d answers, %d asked again, %d asked, %d counted", fuse, answered, again, w.asked, got.Models.Calls)
		}
		if r, err := replay.Verify(p, "run_1", nil, replay.History{Facts: w.log, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq}); err != nil || r.Diverged != nil {
			t.Errorf("killed at tick %d: replay: %+v, %v", fuse, r.Diverged, err)
		}
	}
}
