package system

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
)

// Commit is git commit and, where its output does not describe the commit completely, git log.
func (r *repo) Commit(ctx context.Context, spec engine.CommitSpec) (engine.Committed, error) {
	if spec.Key != "" || spec.ExpectHead != "" {
		head, err := r.commitOf(ctx, "HEAD")
		if err != nil {
			return engine.Committed{}, err
		}
		already, err := r.hasKey(ctx, head, spec.Key)
		if err != nil {
			return engine.Committed{}, gitcmd.Explain(err, "commit_failed")
		}
		if already {
			done, err := r.describeHead(ctx)
			done.Already = true
			return done, err
		}
		if spec.ExpectHead != "" && head != spec.ExpectHead {
			return engine.Committed{}, engine.HeadMoved(head, spec.ExpectHead)
		}
	}
	if spec.All {
		if err := r.stageAll(ctx); err != nil {
			return engine.Committed{}, err
		}
	}
	summary, err := r.runCommit(ctx, spec)
	if err != nil {
		return engine.Committed{}, err
	}
	if done, ok := r.parseSummary(summary); ok {
		return done, nil
	}
	return r.describeHead(ctx)
}

// stageAll stages all changes. It refuses unresolved conflicts, which would be committed with their markers.
func (r *repo) stageAll(ctx context.Context) error {
	if r.files.Operation() != "" {
		conflicts, err := r.listConflicts(ctx)
		if err != nil {
			return err
		}
		if len(conflicts) > 0 {
			return engine.Conflict(conflicts, "conflicts are left in %d files of %s", len(conflicts), r.at.Name)
		}
	}
	return r.runAdd(ctx, engine.AddSpec{All: true}, nil)
}

// hasKey reports whether the message of the commit has the key.
func (r *repo) hasKey(ctx context.Context, head, key string) (bool, error) {
	if head == "" || key == "" {
		return false, nil
	}
	message, err := r.readMessage(ctx, head)
	return engine.HasKey(message, key), err
}

// runCommit runs git commit and returns its summary of the new commit.
func (r *repo) runCommit(ctx context.Context, spec engine.CommitSpec) (summary []byte, err error) {
	var env []string
	if spec.Author != nil {
		env = append(env, identityVariables("AUTHOR", *spec.Author)...)
	}
	env = append(env, identityVariables("COMMITTER", spec.Committer)...)
	// This limits the search for renames: parseSummary does not use them.
	args := []string{"-c", "diff.renameLimit=1", "commit", "--no-verify", "--no-gpg-sign", "--no-status", "--cleanup=verbatim", "--file=-"}
	if spec.AllowEmpty {
		args = append(args, "--allow-empty")
	}
	if spec.Amend {
		args = append(args, "--amend", "--allow-empty")
		if spec.Author != nil {
			args = append(args, "--reset-author")
		}
	}
	if len(spec.Paths) > 0 {
		args = append(args, "--only")
	}
	args = append(append(args, "--"), spec.Paths...)
	summary, err = r.Run(ctx, gitcmd.Command{Args: args, Env: env, Stdin: spec.Message})
	f, ok := err.(*gitcmd.Failure)
	switch {
	case !ok:
		return summary, err
	case f.Code == 1 && f.Stderr == "":
		return nil, engine.NothingToCommit(r.at.Name)
	case f.Says("due to empty commit message"):
		// The message was not empty: another commit was writing its own to .git/COMMIT_EDITMSG.
		return nil, engine.Locked("%v", f)
	case f.Says("unmerged files"):
		return nil, engine.Conflict(nil, "%v", f)
	case f.Says("did not match any file"):
		return nil, engine.NoSuchPath("%v", f)
	}
	return nil, gitcmd.Explain(err, "commit_failed")
}

// identityVariables returns the environment in which git finds a person and a time.
func identityVariables(role string, s engine.Signature) []string {
	return []string{
		"GIT_" + role + "_NAME=" + s.Name, "GIT_" + role + "_EMAIL=" + s.Email,
		"GIT_" + role + "_DATE=" + strconv.FormatInt(s.When.Unix(), 10) + " " + s.When.Format("-0700"),
	}
}

// describeHead reads HEAD and its changes against its first parent.
func (r *repo) describeHead(ctx context.Context) (engine.Committed, error) {
	done := engine.Committed{Parents: []string{}}
	fields := 0
	cmd := gitcmd.Command{
		Args: []string{"-c", "log.showRoot=true", "log", "--max-count=1", "--first-parent", "-m", "--numstat", "-z", "--no-renames",
			"--no-ext-diff", "--no-textconv", "--no-notes", "--no-decorate", "--format=%H%x00%T%x00%P", "HEAD", "--"},
		Reading: true,
	}
	err := r.Scan(ctx, cmd, 0, func(record []byte) error {
		switch fields++; fields {
		case 1:
			done.Commit = string(record)
		case 2:
			done.Tree = string(record)
		case 3:
			done.Parents = append(done.Parents, strings.Fields(string(record))...)
		default:
			return countFile(&done, record)
		}
		return nil
	})
	if err != nil {
		return done, gitcmd.Explain(err, "commit_failed")
	}
	if fields < 3 {
		return done, fmt.Errorf("read the new commit: git gave %d fields", fields)
	}
	done.Empty = done.FilesChanged == 0
	done.Branch, err = r.currentBranch(ctx)
	return done, err
}

// countFile reads "additions TAB deletions TAB path", with "-" for binary files.
func countFile(done *engine.Committed, record []byte) error {
	record = bytes.TrimLeft(record, "\n")
	if len(record) == 0 {
		return nil
	}
	counts := strings.SplitN(string(record), "\t", 3)
	if len(counts) < 3 {
		return fmt.Errorf("read the new commit: unexpected record %q", record)
	}
	done.FilesChanged++
	for i, to := range []*int{&done.Additions, &done.Deletions} {
		n, err := strconv.Atoi(counts[i])
		if err != nil && counts[i] != "-" {
			return fmt.Errorf("read the new commit: unexpected record %q", record)
		}
		*to += n
	}
	return nil
}
