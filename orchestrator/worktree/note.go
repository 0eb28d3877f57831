package worktree

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// NotesRef is the ref of the git notes about commits that lattice pushes. Each line of a note is a JSON document.
const NotesRef = "refs/notes/lattice"

// noteAttempts bounds how often a note is written again because the notes of the remote changed meanwhile.
const noteAttempts = 5

// notes reads and pushes the notes about commits.
type notes struct{ git *Git }

// pushNote adds the line s.Note to the note about s.Head at the destination, unless it is there. Like a branch, the notes move as a
// compare-and-swap; notes of others stay.
func (n notes) pushNote(ctx context.Context, s staged) error {
	for range noteAttempts {
		if done, err := n.tryNote(ctx, s); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("push %s to %s: the notes there changed %d times meanwhile", NotesRef, s.RemoteURL, noteAttempts)
}

// tryNote is one attempt of pushNote. done is false if the notes at the destination moved.
func (n notes) tryNote(ctx context.Context, s staged) (done bool, err error) {
	old, err := n.fetchNotes(ctx, s)
	if err != nil {
		return false, err
	}
	head, err := s.repo.addNote(ctx, s.Head, s.Note)
	if err != nil || head == old {
		return err == nil, err
	}
	r, err := n.git.pushRef(ctx, s, NotesRef, old, head)
	if err != nil || r.Exit == 0 {
		return err == nil, err
	}
	refs, err := n.git.remote.List(ctx, s.target.url, NotesRef)
	if err != nil {
		return false, err
	}
	switch now := refs.Values[NotesRef]; {
	case now == head:
		return true, nil // the reply was lost
	case now != old:
		return false, nil
	}
	if flag, reason := parsePorcelain(string(r.Stdout), NotesRef); flag == '!' {
		return false, gitexec.Refuse("rejected_by_remote", "allow pushes to "+NotesRef+" there, or leave notes out of the policy",
			"%s rejected the statement about the commit (%s): %s", s.RemoteURL, reason, remoteReason(r.Stderr))
	}
	return false, &remote.Error{Doing: "push to " + s.RemoteURL, Stderr: r.Stderr}
}

// fetchNotes makes the notes of the scratch repository those of the destination, and returns their commit, "" if there are none.
func (n notes) fetchNotes(ctx context.Context, s staged) (commit string, err error) {
	refs, err := n.git.remote.List(ctx, s.target.url, NotesRef)
	if err != nil {
		return "", err
	}
	if refs.Values[NotesRef] == "" {
		_, err := s.repo.mustRun(ctx, "update-ref", "-d", NotesRef)
		return "", err
	}
	r, err := n.git.remote.Run(ctx, s.target.url, gitexec.Command{Dir: s.repo.dir, User: true, Hide: s.Request.Hide, Limits: gitexec.PushLimits, Args: []string{"fetch", "-q", "--no-tags",
		"--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options", s.target.url, "+" + NotesRef + ":" + NotesRef}})
	if err != nil {
		return "", err
	}
	if r.Exit != 0 {
		return "", &remote.Error{Doing: "fetch " + NotesRef + " of " + s.RemoteURL, Stderr: r.Stderr}
	}
	return s.repo.notes(ctx)
}

// notes returns the commit of the notes.
func (q quarantine) notes(ctx context.Context) (string, error) {
	r, err := q.mustRun(ctx, "rev-parse", "--verify", NotesRef)
	return r.StdoutText(), err
}

// addNote adds a line to the note about a commit, and returns the commit of all notes.
func (q quarantine) addNote(ctx context.Context, commit, line string) (string, error) {
	lines, err := notes{q.git}.readNote(ctx, q.gitCommand(), commit)
	if err != nil {
		return "", err
	}
	if slices.Contains(lines, line) {
		return q.notes(ctx)
	}
	store := q.gitCommand("hash-object", "-w", "--stdin")
	store.Stdin = strings.NewReader(strings.Join(append(lines, line), "\n") + "\n")
	blob, err := q.git.proc.MustRun(ctx, store)
	if err != nil {
		return "", err
	}
	add := q.gitCommand("notes", "--ref="+NotesRef, "add", "-f", "-C", blob.StdoutText(), commit)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		add.Env = append(add.Env, "GIT_"+who+"_NAME=lattice", "GIT_"+who+"_EMAIL=lattice@localhost")
	}
	if _, err := q.git.proc.MustRun(ctx, add); err != nil {
		return "", err
	}
	return q.notes(ctx)
}

// readNote returns the lines of the note about a commit, none if there is none. in says where and how git runs.
func (n notes) readNote(ctx context.Context, in gitexec.Command, commit string) ([]string, error) {
	in.Args = []string{"notes", "--ref=" + NotesRef, "show", commit}
	r, err := n.git.proc.Run(ctx, in)
	switch {
	case err != nil:
		return nil, err
	case r.Exit == 1: // there is no note
		return nil, nil
	case r.Exit != 0 || r.Cut:
		return nil, fmt.Errorf("read the note about %s (exit %d): %s", commit, r.Exit, r.Stderr)
	}
	return strings.Split(r.StdoutText(), "\n"), nil
}

// Noted is a commit with its note.
type Noted struct {
	Commit, Tree string
	Lines        []string
}

// Note returns the note about a commit of a local repository. It contacts no remote.
func (g *Git) Note(ctx context.Context, path, revision string) (n Noted, err error) {
	t, err := g.locateRepo(ctx, path)
	if err != nil {
		return n, err
	}
	in := gitexec.Command{Dir: t.top, User: true}
	if n.Commit, err = g.commitTree(ctx, t.top, revision); err != nil {
		return n, err
	}
	if n.Commit == "" {
		return n, gitexec.Refuse("ref_not_found", "list them with git log", "%s has no commit %q", t.remote, revision)
	}
	in.Args = []string{"rev-parse", n.Commit + "^{tree}"}
	r, err := g.proc.MustRun(ctx, in)
	if err != nil {
		return n, err
	}
	n.Tree = r.StdoutText()
	n.Lines, err = notes{g}.readNote(ctx, in, n.Commit)
	return n, err
}
