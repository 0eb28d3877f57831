package mcp

import (
	"cmp"
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/spritekit/fault"
)

type listTasksInput struct {
	Status string `json:"status,omitempty" jsonschema:"list only the tasks in this status"`
}

type moveTaskInput struct {
	Task   string `json:"task" jsonschema:"the short id of the task, such as LAT-42, or its id"`
	Status string `json:"status" jsonschema:"the status to which the task is moved"`
	Reason string `json:"reason,omitempty" jsonschema:"the reason, for the record"`
}

type commentInput struct {
	Task string `json:"task" jsonschema:"the short id of the task, such as LAT-42, or its id"`
	Text string `json:"text" jsonschema:"the comment"`
}

// addBoardTools offers the board of the folder in which the client started the server.
func (s *Server) addBoardTools() {
	add(s, "board_tasks", "List the tasks of the repository's board, the oldest first.", hints{reads: true}, func(_ context.Context, _ *sdk.CallToolRequest, in listTasksInput) (any, error) {
		return withBoard(s, func(b *board.Board, _ string) ([]*board.Task, error) {
			tasks, err := b.Tasks()
			var listed []*board.Task
			for _, t := range tasks {
				if in.Status == "" || t.Status == in.Status {
					listed = append(listed, t)
				}
			}
			return listed, err
		})
	})
	add(s, "board_move", "Move a task of the board to another status. The rules of the board decide, as for people.", hints{repeats: true}, func(ctx context.Context, _ *sdk.CallToolRequest, in moveTaskInput) (any, error) {
		return s.changeTask(ctx, func(b *board.Board, actor string) (*board.Task, []board.Event, error) {
			return b.Move(ctx, in.Task, actor, in.Status, in.Reason)
		})
	})
	add(s, "board_comment", "Add a comment to a task of the board.", hints{}, func(ctx context.Context, _ *sdk.CallToolRequest, in commentInput) (any, error) {
		return s.changeTask(ctx, func(b *board.Board, actor string) (*board.Task, []board.Event, error) {
			t, err := b.Resolve(in.Task)
			if err != nil {
				return nil, nil, err
			}
			return b.Update(ctx, t.ID, actor, func(*board.Task) ([]board.Change, error) { return board.AddComment(in.Text) })
		})
	})
}

// withBoard opens the board for one call, and names the actor of its events.
func withBoard[Out any](s *Server, do func(b *board.Board, actor string) (Out, error)) (out Out, err error) {
	actor := cmp.Or(s.env.Getenv("LATTICE_ACTOR"), "agent:mcp")
	if err := board.CheckActor(actor); err != nil {
		return out, fault.BadInput("bad_input", "LATTICE_ACTOR: %v", err)
	}
	b, err := board.OpenNearest(s.env.Getenv("LATTICE_ROOT"))
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return do(b, actor)
}

// changeTask changes a task and runs the hooks that the user trusts.
func (s *Server) changeTask(ctx context.Context, change func(b *board.Board, actor string) (*board.Task, []board.Event, error)) (*board.Task, error) {
	return withBoard(s, func(b *board.Board, actor string) (*board.Task, error) {
		t, events, err := change(b, actor)
		if err != nil {
			return nil, err
		}
		return t, b.RunTrustedHooks(ctx, s.env.Home, events, s.env.Environ, cli.Sanitize(s.env.Err))
	})
}
