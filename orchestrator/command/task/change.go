package task

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newCreateCmd(p *place) *cobra.Command {
	var d board.CreatedData
	var id string
	cmd := &cobra.Command{
		Use:   "create TITLE",
		Short: "Create a task",
		Long: `Create a task. With --id the command can be repeated: if the task exists, nothing changes.

Statuses and types are those of .lattice/config.json; a priority is critical, high, medium or low.`,
		Example: `  lattice task create "Retry uploads" --type bug --priority high --label network --label security
  lattice task create "Retry uploads" --id task_01JD0000000000000000000000 --json`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			return p.withBoard(func(b *board.Board, actor string) error {
				d.Title = list[0]
				t, events, err := b.Create(cmd.Context(), actor, id, d)
				if err != nil {
					return err
				}
				return p.printChanged(cmd.Context(), b, t, events, fmt.Sprintf("%s %s (%s)", t.Name(), t.Title, t.ID))
			})
		},
	}
	cmd.Flags().StringVar(&d.Description, "description", "", "`TEXT` that says more than the title")
	cmd.Flags().StringVar(&d.Type, "type", "", "`TYPE` (default: the first of the board)")
	cmd.Flags().StringVar(&d.Status, "status", "", "`STATUS` (default: that of the board)")
	cmd.Flags().StringVar(&d.Priority, "priority", "medium", "`PRIORITY`")
	cmd.Flags().StringArrayVar(&d.Labels, "label", nil, "`LABEL`; can be repeated")
	cmd.Flags().StringVar(&d.AssignedTo, "assign", "", "`ACTOR` who works on it, such as agent:claude")
	cmd.Flags().StringVar(&id, "id", "", "`ID` of the task, task_ and a ULID")
	return cmd
}

// newUpdateCmd returns a command that changes the task of its first argument.
func newUpdateCmd(p *place, cmd *cobra.Command, args int, decide func(b *board.Board, t *board.Task, list []string) ([]board.Change, error), sentence func(t *board.Task) string) *cobra.Command {
	cmd.Args = cli.Args(cobra.ExactArgs(args))
	cmd.RunE = func(cmd *cobra.Command, list []string) error {
		return p.withBoard(func(b *board.Board, actor string) error {
			found, err := b.Resolve(list[0])
			if err != nil {
				return err
			}
			t, events, err := b.Update(cmd.Context(), found.ID, actor, func(t *board.Task) ([]board.Change, error) { return decide(b, t, list) })
			if err != nil {
				return err
			}
			return p.printChanged(cmd.Context(), b, t, events, sentence(t))
		})
	}
	return cmd
}

func newMoveCmd(p *place) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "move TASK STATUS",
		Short:   "Move a task to another status",
		Long:    "Move a task to another status. A move that the rules of the board refuse ends with 4, and says what is missing.",
		Example: "  lattice task move LAT-1 review\n  lattice task move LAT-1 needs_human --reason \"which of the two APIs?\"",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, list []string) error {
			return p.withBoard(func(b *board.Board, actor string) error {
				t, events, err := b.Move(cmd.Context(), list[0], actor, list[1], reason)
				if err != nil {
					return err
				}
				return p.printChanged(cmd.Context(), b, t, events, t.Name()+" is in "+t.Status)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` for the record")
	cmd.ValidArgsFunction = p.completeArgs(listTasks, listStatuses)
	return cmd
}

func newAssignCmd(p *place) *cobra.Command {
	return newUpdateCmd(p, &cobra.Command{
		Use:     "assign TASK ACTOR",
		Short:   "Assign a task, or take the assignment away with -",
		Example: "  lattice task assign LAT-1 agent:claude\n  lattice task assign LAT-1 -",
	}, 2, func(_ *board.Board, t *board.Task, list []string) ([]board.Change, error) {
		to := list[1]
		if to == "-" {
			to = ""
		}
		return board.Assign(t, to)
	}, func(t *board.Task) string {
		if t.AssignedTo == "" {
			return t.Name() + " is not assigned"
		}
		return t.Name() + " is assigned to " + t.AssignedTo
	})
}

func newCommentCmd(p *place) *cobra.Command {
	return newUpdateCmd(p, &cobra.Command{
		Use:     "comment TASK TEXT",
		Short:   "Add a comment to a task",
		Example: "  lattice task comment LAT-1 \"the server answers 503 after ten minutes\"",
	}, 2, func(_ *board.Board, _ *board.Task, list []string) ([]board.Change, error) {
		return board.AddComment(list[1])
	}, func(t *board.Task) string {
		return fmt.Sprintf("%s has %s", t.Name(), cli.Count(len(t.Comments), "comment", "comments"))
	})
}

func newAttachCmd(p *place) *cobra.Command {
	var d board.ArtifactData
	cmd := newUpdateCmd(p, &cobra.Command{
		Use:   "attach TASK FILE|URL",
		Short: "Attach a file of the repository or a URL to a task",
		Long: `Attach an artifact to a task: a file of the repository, by its path, or a URL. Its role, such as review, is what completion
policies ask for. --commit names the commit that the artifact is about.`,
		Example: "  lattice task attach LAT-1 notes/CR-LAT-1.md --role review --commit \"$(git rev-parse HEAD)\"\n  lattice task attach LAT-1 https://ci.example.org/77 --role test-report",
	}, 2, func(b *board.Board, t *board.Task, list []string) ([]board.Change, error) {
		d.ArtifactID = "art_" + ulid.Make().String()
		if strings.HasPrefix(list[1], "https://") || strings.HasPrefix(list[1], "http://") {
			d.URL = list[1]
		} else {
			inside, err := pathInside(b.Root, list[1])
			if err != nil {
				return nil, err
			}
			d.Path = inside
		}
		if slices.ContainsFunc(t.Artifacts, func(a board.Artifact) bool {
			return a.Path == d.Path && a.URL == d.URL && a.Role == d.Role && a.Commit == d.Commit
		}) {
			return nil, nil // it is attached
		}
		return []board.Change{{Type: board.ArtifactAttached, Data: d}}, nil
	}, func(t *board.Task) string {
		return fmt.Sprintf("%s has %s", t.Name(), cli.Count(len(t.Artifacts), "artifact", "artifacts"))
	})
	cmd.ValidArgsFunction = p.completeArgs(listTasks, nil)
	cmd.Flags().StringVar(&d.Role, "role", "", "`ROLE` of the artifact, such as review")
	cmd.Flags().StringVar(&d.Commit, "commit", "", "`SHA` of the commit that it is about")
	return cmd
}

// pathInside returns the path of a regular file relative to the repository.
func pathInside(root, name string) (string, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if full, err = filepath.EvalSymlinks(full); err != nil {
		return "", fault.NotFound("file_not_found", "%s does not exist", name)
	}
	rel, err := filepath.Rel(root, full)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fault.BadInput("file_outside", "%s lies outside of the repository %s", name, root).WithHint("copy it into the repository, such as into notes/")
	}
	if info, err := os.Stat(full); err != nil || !info.Mode().IsRegular() {
		return "", fault.BadInput("file_outside", "%s is not a regular file", name)
	}
	return filepath.ToSlash(rel), nil
}
