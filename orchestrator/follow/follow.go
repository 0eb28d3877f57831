// Package follow shows a run while it goes on, and ends the command as the run ends: progress, the end in words with the
// command to type next, and the exit code.
//
// Begin with Run.
package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Run shows a run until it ends or pauses, and ends the command as the run ended. Entries up to known are not
// printed again. When the leader goes away, this process takes over.
func Run(ctx context.Context, console *cli.Console, c *connect.Conn, view api.RunView, known lattice.Seq) error {
	view, err := Watch(ctx, console, c, view, known)
	if err != nil {
		return err
	}
	return Conclude(ctx, console, c, view)
}

// Watch shows a run until it ends or pauses, and returns its last state.
func Watch(ctx context.Context, console *cli.Console, c *connect.Conn, view api.RunView, known lattice.Seq) (api.RunView, error) {
	p := newProgress(console, view, known)
	defer p.leavePicture()
	watch, after := c.WatchOutline, lattice.Seq(0)
	if console.JSON { // every entry once, and nothing has to be drawn from those before
		watch, after = c.Watch, known
	}
	for {
		err := watch(ctx, view.RunID, after, func(l api.WatchLine) error {
			if l.Entry != nil {
				after = l.Entry.Seq
			}
			if l.View != nil {
				view = *l.View
			}
			return p.takeReport(l)
		})
		switch {
		case ctx.Err() != nil:
			p.leavePicture()
			c.StopDriving(view.RunID)
			fmt.Fprintf(console.Err, "stopped; to continue: lattice resume %s\n", view.RunID)
			return view, &cli.ExitError{Code: protocol.ExitCancelled}
		case errors.Is(err, api.ErrGone):
			if err := c.TakeOver(ctx, view); err != nil {
				return view, err
			}
		case err != nil:
			return view, err
		default:
			p.leavePicture()
			return view, nil
		}
	}
}

// Conclude prints the end of a followed run and picks the exit code.
func Conclude(ctx context.Context, console *cli.Console, c *connect.Conn, v api.RunView) error {
	if console.JSON {
		if err := console.PrintJSON(api.RunLine{RunID: v.RunID, Status: v.Status, Outputs: v.Outputs, Error: v.Error, Waits: v.Waits, Problem: v.Problem}); err != nil {
			return err
		}
	}
	switch v.Status {
	case lattice.Succeeded:
		if !console.JSON {
			fmt.Fprintf(console.Out, "%s %s\n", v.RunID, v.Status)
			printPushed(ctx, console, c, v)
			PrintOutputs(console, v.Outputs)
		}
		return nil
	case lattice.Waiting, lattice.BlockedWaitingForUser, lattice.Blocked:
		for _, w := range v.Waits {
			DescribeWait(console.Err, v, w)
		}
		return &cli.ExitError{Code: protocol.ExitWaiting}
	case lattice.Canceled:
		fmt.Fprintf(console.Err, "%s canceled%s\n", v.RunID, describeContinuation(v))
		return &cli.ExitError{Code: protocol.ExitCancelled}
	case lattice.Failed:
		DescribeFailure(console, v)
		return &cli.ExitError{Code: failedExit(v.Error)}
	}
	if v.Problem != nil {
		return fmt.Errorf("the run %s stopped: %w", v.RunID, v.Problem)
	}
	fmt.Fprintf(console.Err, "lattice: the run stopped: %s\n  try: lattice resume %s\n", v.Note, v.RunID)
	return &cli.ExitError{Code: protocol.ExitFailed}
}

// PrintOutputs shows a run's outputs to a person.
func PrintOutputs(console *cli.Console, outputs json.RawMessage) {
	var text bytes.Buffer
	if len(outputs) > 2 && string(outputs) != "null" && json.Indent(&text, outputs, "  ", "  ") == nil {
		fmt.Fprintf(cli.Sanitize(console.Out), "  %s\n", text.Bytes())
	}
}

// DescribeWait prints a wait of a run, and the commands that answer it.
func DescribeWait(out io.Writer, v api.RunView, w lattice.Wait) {
	at := w.Node
	if w.Path != "" {
		at += " of " + w.Path
	}
	how := "waits"
	if w.Kind == lattice.WaitBlocked {
		how = "is blocked"
	}
	fmt.Fprintf(out, "%s %s at %s: %s\n", v.RunID, how, at, PromptText(w.Prompt))
	if until := w.Until(); until != "" {
		fmt.Fprintln(out, "  "+until)
	}
	if w.Legacy() {
		fmt.Fprintln(out, "  the answer starts the flow again, in a new run that has it in .lattice/answers.json")
	}
	DescribeInputs(out, w)
	if w.Action != nil {
		for _, line := range timeline.DescribeRequest(*w.Action) {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
	fmt.Fprintf(out, "  next: %s\n", strings.Join(NextCommands(v.RunID, w), "\n    or: "))
}

// maxPrompt is how much of a prompt is printed, in characters.
const maxPrompt = 4000

// PromptText returns a prompt for people: further lines are indented, and of a long one the end counts, where the question is.
func PromptText(prompt string) string {
	text := []rune(strings.TrimSpace(prompt))
	if len(text) > maxPrompt {
		text = append([]rune("…"), text[len(text)-maxPrompt:]...)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = cli.CleanLine(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n  ")
}

// DescribeInputs prints the inputs that a decision is about.
func DescribeInputs(out io.Writer, w lattice.Wait) {
	if len(w.Details) > 0 {
		fmt.Fprintf(out, "  inputs: %s\n", cli.Clean(string(w.Details)))
	}
	for _, c := range w.Calls {
		fmt.Fprintf(out, "  an approval allows %s to call %s, which acts outside of the sprite\n    inputs: %s\n", c.Node, c.Skill, cli.Clean(string(c.Input)))
	}
}

// DescribeFailure tells why a run failed and how to look into it.
func DescribeFailure(console *cli.Console, v api.RunView) {
	var fault protocol.Fault
	if v.Error != nil {
		at := ""
		if v.Error.Node != "" {
			at = " at " + v.Error.Node
		}
		fmt.Fprintf(console.Err, "%s failed%s: %s: %s\n", v.RunID, at, v.Error.Kind, cli.Clean(v.Error.Message))
		if json.Unmarshal(v.Error.Data, &fault) == nil && fault.Hint != "" {
			fmt.Fprintf(console.Err, "   try: %s\n", cli.Clean(fault.Hint))
		}
		var model struct {
			Text string `json:"previous_text"`
		}
		if json.Unmarshal(v.Error.Data, &model) == nil && model.Text != "" { // no JSON, as far as it is kept
			fmt.Fprintf(console.Err, "the model's last answer:\n  %s\n", PromptText(model.Text))
		}
	}
	fmt.Fprintf(console.Err, "  look: lattice show %s\n    or: lattice logs %s\n", v.RunID, v.RunID)
	if v.Sprite != "" && fault.Code != session.CodeSpriteGone {
		fmt.Fprintf(console.Err, "    or: lattice sprite exec %s -- sh -c 'cd /workspace && ls -la'\n", v.Sprite)
	}
	if len(v.Copies) > 0 {
		fmt.Fprintf(console.Err, "  kept: %s of its sprite, such as %s; to remove everything that failed runs left: lattice sprite prune --all\n", cli.Count(len(v.Copies), "copy", "copies"), v.Copies[0])
	}
}

// NextCommands are the commands that answer w.
func NextCommands(run string, w lattice.Wait) []string {
	switch {
	case w.Kind == lattice.WaitUnknown:
		return []string{"lattice answer " + run + " outcome=done|retry|fail"}
	case w.Legacy():
		return answerCommands(run, w)
	case !w.YesOrNo():
		var pairs []string
		for _, name := range cli.SortedKeys(w.Expected) {
			value := "<" + w.Expected[name] + ">"
			if value == "<string>" {
				value = "TEXT"
			}
			pairs = append(pairs, shellWord(name)+"="+value) // a sprite chooses the name
		}
		commands := []string{"lattice answer " + run + " " + strings.Join(pairs, " ")}
		if w.CanReject() {
			commands = append(commands, "lattice reject "+run)
		}
		return commands
	}
	if w.ResumeAt != "" {
		return []string{"lattice approve " + run + "   to go on now", "lattice reject " + run + "   to give up", "lattice resume " + run + "   to follow it"}
	}
	return []string{"lattice approve " + run, "lattice reject " + run + " --comment TEXT"}
}

// answerCommands are those that answer a legacy question, or one that gives up.
func answerCommands(run string, w lattice.Wait) []string {
	const most = 8 // choices that are spelt out
	answer := "lattice answer " + run + " answer="
	var commands []string
	for _, choice := range w.Choices {
		if len(commands) == most {
			commands = append(commands, fmt.Sprintf("%s…   one of %d more; lattice show --json has them", answer, len(w.Choices)-most))
			break
		}
		commands = append(commands, answer+shellWord(choice))
	}
	if len(w.Choices) == 0 {
		commands = append(commands, answer+"TEXT")
	}
	if w.Default != "" {
		commands = append(commands, answer+"   for the default, "+cli.Clean(w.Default))
	}
	return append(commands, "lattice cancel "+run)
}

// describeContinuation says where a run goes on, if it does.
func describeContinuation(v api.RunView) string {
	if v.ContinuedIn == "" {
		return ""
	}
	return "; it goes on in " + v.ContinuedIn
}

// failedExit returns the exit code for a failed run: 1, or that of the reason why a model could not be asked.
func failedExit(e *api.RunError) int {
	var data struct {
		Code string `json:"code"`
	}
	if e == nil || !slices.Contains([]string{expr.FailProvider, expr.FailRateLimited, expr.FailTimeout}, e.Kind) || json.Unmarshal(e.Data, &data) != nil {
		return protocol.ExitFailed
	}
	switch data.Code {
	case lattice.ModelUnreachable:
		return protocol.ExitNetwork
	case lattice.ModelDenied:
		return protocol.ExitDenied
	case lattice.ModelNotFound:
		return protocol.ExitNotFound
	case lattice.ModelRateLimited:
		return protocol.ExitBusy
	case lattice.ModelTimeout:
		return protocol.ExitTimeout
	}
	return protocol.ExitFailed
}
