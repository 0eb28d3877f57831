package task

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/worker"
)

// completer offers the values of one argument of a board.
type completer func(b *board.Board) ([]string, error)

// completeArgs completes the arguments of a command, each by its own completer; nil stands for files. Without a board it offers nothing.
func (p *place) completeArgs(each ...completer) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, _ string) (offered []string, how cobra.ShellCompDirective) {
		how = cobra.ShellCompDirectiveNoFileComp
		if len(given) >= len(each) {
			return nil, how
		}
		if each[len(given)] == nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		_ = p.withBoard(func(b *board.Board, _ string) (err error) { // a shell shows no errors
			b.Warn = func(string) {}
			offered, err = each[len(given)](b)
			return err
		})
		return offered, how
	}
}

func listTasks(b *board.Board) (offered []string, err error) {
	tasks, err := b.Tasks()
	for _, t := range tasks {
		offered = append(offered, complete.Describe(t.Name(), t.Status+" "+t.Title))
	}
	return offered, err
}

func listStatuses(b *board.Board) ([]string, error) { return b.Config.Workflow.Statuses, nil }

func listWorkers(b *board.Board) (offered []string, err error) {
	all, err := worker.Load(b.FS(), b.Config)
	for _, d := range all {
		offered = append(offered, complete.Describe(d.Worker.Name, d.Worker.Description))
	}
	return offered, err
}
