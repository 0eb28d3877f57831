package timeline

import (
	"fmt"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// modelAnswered shows which model answered a step's question, and the cost of its questions so far.
func (t *Timeline) modelAnswered(f lattice.ModelAnswered) {
	if t.Current == nil {
		return
	}
	s := t.Current
	s.Skill = f.Class
	s.answers++
	s.spent = s.spent.Plus(f.Usage)
	message := cli.Count(s.answers, "answer", "answers") + ", " + s.spent.String()
	switch {
	case f.Kind != "":
		message = f.Kind + ": " + f.Message
	case !ladder.IsJSON(f.Text):
		message += "; not JSON: " + f.Text
	}
	t.setState(Running, message)
}

// DescribeModels returns the cost of a run's questions to models as text, "" when it asked none.
func DescribeModels(use *api.ModelUse) string {
	if use == nil {
		return ""
	}
	text := cli.Count(use.Calls, "question", "questions") + ", " + use.ModelUsage.String()
	if use.Estimated {
		text += " (in part estimated)"
	}
	return fmt.Sprintf("%s; by node with --json", text)
}
