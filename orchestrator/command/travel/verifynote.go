package travel

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"

	"github.com/spritekit/lattice/orchestrator/attest"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/fault"
)

// verifyNote checks the statements in the git note about a commit of a local repository. It needs neither a leader nor a store.
func verifyNote(ctx context.Context, env *setup.Env, repo, revision string, key ed25519.PublicKey) error {
	noted, err := readNote(ctx, env, repo, revision)
	if no, refused := errors.AsType[*lattice.Refusal](err); refused {
		return fault.NotFound(no.Fault.Code, "%s", no.Fault.Message).WithHint("%s", no.Fault.Hint)
	}
	if err != nil {
		return err
	}
	if len(noted.Lines) == 0 {
		return fault.NotFound("statement_not_found", "%s has no note about the commit %.12s in %s", repo, noted.Commit, worktree.NotesRef).
			WithHint("git fetch origin %s:%[1]s", worktree.NotesRef)
	}
	out := verification{Commit: noted.Commit, Verdict: "forged", note: true, Statements: attest.CheckNote(noted.Lines, noted.Commit, noted.Tree, key)}
	for _, c := range out.Statements {
		if c.Problem == "" {
			out.RunID, out.Verdict, out.OK = c.Predicate.RunID, string(c.Predicate.Verdict), c.Green()
		}
	}
	if out.RunID == "" {
		out.Problem = "the key signed no statement about the commit"
	}
	return printVerification(env, out)
}

// readNote reads the note about a commit.
func readNote(ctx context.Context, env *setup.Env, repo, revision string) (worktree.Noted, error) {
	scratch, err := os.MkdirTemp("", "lattice-verify-")
	if err != nil {
		return worktree.Noted{}, err
	}
	defer os.RemoveAll(scratch)
	git, err := worktree.New(worktree.Options{Env: env.Environ, Scratch: scratch})
	if err != nil {
		return worktree.Noted{}, err
	}
	return git.Note(ctx, repo, revision)
}
