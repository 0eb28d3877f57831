package dialogue

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/gather"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/spritekit/text"
)

const (
	researchFlow = "research"
	maxRounds    = 5       // earlier rounds that a model gets
	maxAnswer    = 4 << 10 // bytes of the answer of each
)

// round is the result of the flow research: a question, its answer, and the addresses that were read for it.
type round struct {
	Question string   `json:"question"`
	Answer   string   `json:"answer"`
	URLs     []string `json:"urls"`
}

// startResearch creates the intent that answers a question with notes from pages of the web. Further questions in the thread go on with
// the dialogue: a model gets the rounds before. Their answers quote pages, which are hostile, so that the flow shows them only to
// the model that writes claims, and not to the one that chooses pages.
func (d *Dialogue) startResearch(ctx context.Context, a asked) (intent.State, error) {
	runs, err := thread.FindRuns(ctx, d.Runs, d.Facts, a.Thread, 0)
	if err != nil {
		return intent.State{}, err
	}
	g, err := gather.Read(ctx, a.Source)
	if err != nil {
		return intent.State{}, err
	}
	earlier := roundsOf(runs)
	known := []string{}
	for i, r := range earlier {
		known = append(known, r.URLs...)
		earlier[i].Answer = text.Head(r.Answer, maxAnswer)
	}
	slices.Sort(known)
	input, err := json.Marshal(map[string]any{"question": a.Text, "context": g.Title + "\n\n" + g.Text(), "earlier": earlier, "known": slices.Compact(known)})
	if err != nil {
		return intent.State{}, err
	}
	return d.Runs.CreateIntent(ctx, api.IntentRequest{Kind: "issue_research", Subject: a.Thread.String(), Signal: "forge", Key: a.key(), Input: input})
}

// roundsOf returns the last rounds of research among the runs of a thread, the newest run first, in the order of time.
func roundsOf(runs []api.RunView) []round {
	rounds := []round{}
	for _, r := range runs {
		var one round
		if r.Flow == researchFlow && r.Status == lattice.Succeeded && len(rounds) < maxRounds && json.Unmarshal(r.Outputs, &one) == nil {
			rounds = append(rounds, one)
		}
	}
	slices.Reverse(rounds)
	return rounds
}
