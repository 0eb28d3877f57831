package dashboard

import (
	"context"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// spender is a leader of one run, of which two nodes asked models.
type spender struct{ crowd }

func (s *spender) Run(context.Context, string) (api.RunView, error) {
	use := func(calls int, usd float64) api.ModelUse {
		return api.ModelUse{Calls: calls, ModelUsage: lattice.ModelUsage{CostUSD: usd}}
	}
	all := use(3, 0.75)
	all.Nodes = map[string]api.ModelUse{"plan": use(1, 0.25), "edit": use(2, 0.5)}
	return api.RunView{RunID: "run_1", Flow: "fix", Status: lattice.Succeeded, Models: &all}, nil
}

func (s *spender) Runs(ctx context.Context, _ api.RunList) ([]api.RunView, error) {
	run, err := s.Run(ctx, "")
	return []api.RunView{run}, err
}

// TestCostAgrees: the lists and the page of a run say the same cost, and the page divides it by node.
func TestCostAgrees(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/runs", "/cost", "/runs/run_1"} {
		if text := get(t, &spender{}, path); !strings.Contains(text, "$0.7500") {
			t.Errorf("%s does not say the cost of the run", path)
		}
	}
	text := get(t, &spender{}, "/runs/run_1")
	edit, plan := strings.Index(text, `<td class="main" data-label="Node">edit</td><td class="num" data-label="Calls">2</td>`), strings.Index(text, `<td class="main" data-label="Node">plan</td><td class="num" data-label="Calls">1</td>`)
	if edit < 0 || plan < edit || !strings.Contains(text, "$0.5000") || !strings.Contains(text, "$0.2500") {
		t.Error("the run does not say the cost of its nodes, the dearest first")
	}
}

// taken is a leader of one run, of which a step is over and its agent had two turns; the files of the second turn are gone.
type taken struct{ Leader }

func (taken) Moments(context.Context, string) ([]api.Moment, error) {
	return []api.Moment{{Node: "plan", Visit: 1, Seq: 3, Available: true}, {Node: "edit", Visit: 2, Seq: 7, Available: true}}, nil
}

func (taken) Turns(context.Context, string) ([]api.Turn, error) {
	edit := api.Moment{Node: "edit", Visit: 2, Seq: 7}
	lost, kept := edit, edit
	kept.Available, lost.Why = true, "checkpoint v4 is gone"
	return []api.Turn{{Turn: 1, Moment: kept, Tool: "Bash"}, {Turn: 2, Moment: lost, Agent: "claude"}}, nil
}

// TestStops: the turns of an agent follow the moment at which its step began, each with the name by which a request refers to it.
func TestStops(t *testing.T) {
	t.Parallel()
	var got []string
	stops, err := New(taken{}).listStops(t.Context(), "run_1")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stops {
		got = append(got, s.To+"="+s.Title+" "+s.Why)
	}
	if all := strings.Join(got, "|"); all != "plan#1=plan#1 |edit#2=edit#2 |@1=edit#2, turn 1: Bash |@2=edit#2, turn 2: claude checkpoint v4 is gone" {
		t.Errorf("the stops are %s", all)
	}
	if of, err := New(taken{}).findStops(t.Context(), "run_1", 7); err != nil || len(of) != 3 {
		t.Errorf("the step has the stops %v, %v", of, err)
	}
}
