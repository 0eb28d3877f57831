package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newTopCmd(env *setup.Env) *cobra.Command {
	var once bool
	every := 2 * time.Second
	cmd := connect.NewQueryCmd(env, "top", "Show the open runs and the sprites, and what they use", "  lattice top\n  lattice top --once --json", cobra.NoArgs,
		func(ctx context.Context, c *connect.Conn, _ []string) error {
			if every < 100*time.Millisecond {
				return cli.UsageErrorf("--every must be at least 100ms")
			}
			t := topView{console: env.Console}
			if !once && (env.Terminal || env.JSON) {
				c.YieldLead()
				return t.drawUntil(ctx, c, every)
			}
			return t.printOnce(ctx, c)
		})
	cmd.Long = `Show the runs that have not ended and the sprites, every two seconds until Ctrl-C: state, node, age, tokens and cost of runs,
processors, memory and processes of sprites where control groups count them. A cost counts when its call has ended. 100% is one
processor. Without a terminal, and with --once, it prints one picture. With --json, each picture is one line.
` + cli.ExitCodes
	cmd.Flags().BoolVar(&once, "once", false, "print one picture and end")
	cmd.Flags().DurationVar(&every, "every", every, "the time between two pictures")
	return cmd
}

// topView draws snapshots. It keeps the last one, because the use of processors is a difference.
type topView struct {
	console *cli.Console
	last    api.Snapshot
}

// drawUntil draws snapshots until ctx ends. It waits for the next leader if this one ends.
func (t *topView) drawUntil(ctx context.Context, c *connect.Conn, every time.Duration) error {
	if !t.console.JSON {
		fmt.Fprint(t.console.Out, "\x1b[?1049h\x1b[?25l")       // another screen, without a cursor
		defer fmt.Fprint(t.console.Out, "\x1b[?25h\x1b[?1049l") // as it was
	}
	for {
		now, err := c.Top(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // as asked
		case errors.Is(err, api.ErrGone):
			continue
		case err != nil:
			return err
		}
		if err := t.drawPicture(now); err != nil {
			return err
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil
		}
	}
}

// printOnce prints one picture. The use of processors needs a second look shortly after the first one.
func (t *topView) printOnce(ctx context.Context, c *connect.Conn) error {
	now, err := c.Top(ctx)
	if err != nil {
		return err
	}
	if t.console.JSON {
		return t.console.PrintJSON(now)
	}
	if t.last = now; sumUse(now, "cpu") > 0 {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if now, err = c.Top(ctx); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(t.console.Out, strings.Join(t.formatLines(now), "\n"))
	return err
}

func (t *topView) drawPicture(now api.Snapshot) error {
	if t.console.JSON {
		return t.console.PrintJSON(now)
	}
	width, height := cli.TerminalSize(t.console.Out)
	var picture strings.Builder
	picture.WriteString("\x1b[H")
	lines := t.formatLines(now)
	if len(lines) >= height {
		lines = append(lines[:height-2], fmt.Sprintf("… %d more lines", len(lines)-height+2))
	}
	for _, line := range lines {
		picture.WriteString(cli.Cut(line, width) + "\x1b[K\n")
	}
	t.last = now
	_, err := fmt.Fprint(t.console.Out, picture.String(), "\x1b[J")
	return err
}

// formatLines returns the picture of a snapshot.
func (t *topView) formatLines(now api.Snapshot) []string {
	byStatus := map[lattice.RunStatus]int{}
	var runs, boxes [][]any
	for _, v := range now.Runs {
		byStatus[v.Status]++
		runs = append(runs, []any{v.RunID, v.Status, v.Flow, v.Node, cli.Age(v.CreatedAt), v.Spent.Tokens, budget.Money.Text(v.Spent.MicroUSD), v.Sprite})
	}
	awake := 0
	for _, s := range now.Sprites {
		if s.Status == "running" {
			awake++
		}
		boxes = append(boxes, []any{s.Name, s.Status, t.describeCPU(now, s), describeUse(s, "memory"), describeUse(s, "pids"), cli.Age(s.CreatedAt), api.OwnerOf(s.Labels)})
	}
	lines := []string{fmt.Sprintf("%s  %s (%d running, %d waiting), %s (%d running), spent today: %s", now.At.Local().Format(time.TimeOnly),
		cli.Count(len(now.Runs), "open run", "open runs"), byStatus[lattice.Running], byStatus[lattice.Waiting], cli.Count(len(now.Sprites), "sprite", "sprites"), awake, now.Today), ""}
	lines = append(lines, cli.FormatTable("RUN\tSTATUS\tFLOW\tAT\tAGE\tTOKENS\tCOST\tSPRITE", runs)...)
	return append(append(lines, ""), cli.FormatTable("SPRITE\tSTATUS\tCPU\tMEMORY\tPROCESSES\tAGE\tRUN", boxes)...)
}

// describeCPU returns the part of a processor that a sprite used since the last snapshot.
func (t *topView) describeCPU(now api.Snapshot, s sprites.Sprite) string {
	passed := now.At.Sub(t.last.At).Seconds()
	for _, before := range t.last.Sprites {
		used := s.Uses("cpu") - before.Uses("cpu")
		if before.ID == s.ID && before.Uses("cpu") > 0 && used >= 0 && passed > 0 {
			return fmt.Sprintf("%.0f%%", 100*used/passed)
		}
	}
	return "-"
}

// describeUse returns how much memory or how many processes a sprite has.
func describeUse(s sprites.Sprite, limit string) string {
	switch used := s.Uses(limit); {
	case used == 0:
		return "-"
	case limit == "memory":
		return cli.FormatBytes(int64(used))
	default:
		return fmt.Sprint(int64(used))
	}
}

func sumUse(now api.Snapshot, limit string) (sum float64) {
	for _, s := range now.Sprites {
		sum += s.Uses(limit)
	}
	return sum
}
