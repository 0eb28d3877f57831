package decide

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
)

func newAnswerCmd(env *setup.Env) *cobra.Command {
	var o decideOptions
	cmd := &cobra.Command{
		Use:   "answer [RUN] k=v…",
		Short: "Answer a run's question with the inputs that it expects",
		Long: `Answer a run's question. Values are converted to the types that the question expects (lattice waiting shows them); k:=json
gives a value as JSON. If a value is missing, unknown, mistyped or too large, the answer is refused and nothing changes. The
first answer counts: repeating it changes nothing, and a different one ends with 6 and says who answered before, and when.

A program that asked by a legacy question event has ended by asking, and so has its run. The answer, answer=TEXT, starts the
flow again in a new run with the same input and options. That run finds all answers so far in .lattice/answers.json and
task.json. answer= takes the question's default. lattice show names the other run for both.
` + connect.WithoutRun + cli.ExitCodes,
		Example: "  lattice answer count=3\n  lattice answer run_0123 approved=true comments='fine'\n  lattice answer run_0123 'labels:=[\"a\",\"b\"]'",
		Args: cli.Args(func(c *cobra.Command, list []string) error {
			if len(list) > 0 && strings.Contains(list[0], "=") {
				return nil
			}
			return cobra.MinimumNArgs(2)(c, list)
		}),
		RunE: func(c *cobra.Command, list []string) error {
			if strings.Contains(list[0], "=") { // which no id of a run does
				return runDecide(c.Context(), env, o, "", lattice.Answer, list)
			}
			return runDecide(c.Context(), env, o, list[0], lattice.Answer, list[1:])
		},
	}
	o.addDecideFlags(cmd, env)
	cmd.ValidArgsFunction = complete.Answers(env)
	return cmd
}

// splitAnswers sorts k=v (typed by the wait) from k:=json.
func splitAnswers(pairs []string, req *api.DecideRequest) error {
	typed := map[string]json.RawMessage{}
	for _, pair := range pairs {
		name, value, err := cli.ParsePair(pair)
		if err != nil {
			return err
		}
		var text string
		if pair[len(name)] == '=' && json.Unmarshal(value, &text) == nil {
			if req.Inputs == nil {
				req.Inputs = map[string]string{}
			}
			req.Inputs[name] = text
			continue
		}
		typed[name] = value
	}
	if len(typed) > 0 {
		data, err := json.Marshal(typed)
		if err != nil {
			return err
		}
		req.Typed = data
	}
	return nil
}
