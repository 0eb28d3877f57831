package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	scrubTimeout = 30 * time.Second
	scrubPiece   = 1 << 20
)

var errScrubTimeout = errors.New("looking through the agent's files takes too long")

// scrub takes the values of keys out of what the agent left in its own home, its sessions above all, which checkpoints keep.
// The agent is dead. What it copied elsewhere, and what a checkpoint holds that it took while it worked, stays.
func (l *launch) scrub() {
	if l.private == "" || !l.secrets.Any() {
		return
	}
	if err := scrubTree(l.call.Root, l.private, l.secrets, time.Now().Add(scrubTimeout)); err != nil {
		l.call.Warn("secret_not_scrubbed", fmt.Sprintf("a key may still be in the agent's files: %v", err))
	}
}

// ScrubHomes takes values out of the homes of all agents of a workspace, also of one that is at work: it overwrites them in
// place. state is where the workspace's .lattice lies when it does not lie in it.
func ScrubHomes(dir, state string, values []string) error {
	s := redact.New(values...)
	if !s.Any() {
		return nil
	}
	root, err := workspace.OpenWithState(dir, state)
	if err != nil {
		return err
	}
	err = scrubTree(root, homesDir, s, time.Now().Add(scrubTimeout))
	if errors.Is(err, fs.ErrNotExist) { // no agent was here, or it removed a file meanwhile
		err = nil
	}
	return errors.Join(err, root.Close())
}

func scrubTree(root *workspace.Root, dir string, s *redact.Secrets, until time.Time) (failed error) {
	entries, err := root.List(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case time.Now().After(until):
			return errors.Join(failed, errScrubTimeout)
		case e.IsDir():
			err = scrubTree(root, name, s, until)
		case e.Type().IsRegular():
			err = scrubFile(root, name, s)
		default:
			err = nil
		}
		if errors.Is(err, errScrubTimeout) {
			return errors.Join(failed, err)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// scrubFile overwrites secrets in place, byte for byte, so that files with an index of their own stay what they are.
func scrubFile(root *workspace.Root, name string, s *redact.Secrets) error {
	f, err := root.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	found, err := findSecrets(f, s)
	if err := errors.Join(err, f.Close()); err != nil || len(found) == 0 {
		return err
	}
	info, err := root.Lstat(name)
	if err == nil && info.Mode().Perm()&0o200 == 0 {
		if err := root.Chmod(name, info.Mode().Perm()|0o200); err != nil {
			return err
		}
		defer func() { _ = root.Chmod(name, info.Mode().Perm()) }() // the key is gone, whatever the mode
	}
	if f, err = root.OpenFile(name, os.O_WRONLY, 0); err != nil {
		return err
	}
	for _, at := range found {
		if _, err = f.WriteAt(bytes.Repeat([]byte("*"), at.End-at.Begin), int64(at.Begin)); err != nil {
			break
		}
	}
	return errors.Join(err, f.Close())
}

// findSecrets finds all places, by their offsets in f; one where two pieces meet may be told twice.
func findSecrets(f io.ReaderAt, s *redact.Secrets) (found []redact.Span, err error) {
	buf := make([]byte, scrubPiece+2*s.Longest())
	for begin := 0; ; begin += scrubPiece {
		n, err := f.ReadAt(buf, int64(begin))
		for _, at := range s.Find(buf[:n]) {
			found = append(found, redact.Span{Begin: begin + at.Begin, End: begin + at.End})
		}
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return found, err
		}
	}
}
