package dashboard

import (
	"context"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
)

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
