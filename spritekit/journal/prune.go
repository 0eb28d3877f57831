package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// Prune removes the journals of finished calls except for the newest keep. It never removes the journal of a call that
// waits, crashed or runs, or a damaged one: the next step of such a call depends on it. A finished call is asked for again
// only while its run has not received its result, so keep must be far above the number of calls that a run has under way.
func Prune(root *workspace.Root, keep int) error {
	names, err := listCalls(root)
	if err != nil {
		return fmt.Errorf("prune call journals: %w", err)
	}
	var failed error
	for _, name := range names[:max(0, len(names)-keep)] {
		if err := pruneCall(root, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("prune call journal %s: %w", name, err))
		}
	}
	return failed
}

// Results shows use the recorded results of all finished calls. Unreadable journals are skipped.
func Results(root *workspace.Root, use func(result []byte)) error {
	names, err := listCalls(root)
	if err != nil {
		return fmt.Errorf("read call journals: %w", err)
	}
	for _, name := range names {
		file, err := root.Open(name)
		if err != nil {
			continue // pruned since, or not a file
		}
		c := Call{name: name, file: file, root: root}
		if _, err := c.parseRecords(); err == nil {
			use(c.last.Result)
		}
		file.Close()
	}
	return nil
}

// listCalls names the journals, the oldest first.
func listCalls(root *workspace.Root) ([]string, error) {
	files, err := root.Runtime().List(protocol.CallsDir)
	var names []string
	for _, info := range files {
		if strings.HasSuffix(info.Name(), ".jsonl") {
			names = append(names, path.Join(protocol.CallsDir, info.Name()))
		}
	}
	return names, err
}

func pruneCall(root *workspace.Root, name string) error {
	f, err := root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil // the call runs
	}
	if _, still, err := root.StillNamed(f, name); err != nil || !still {
		return err // pruned since; the name belongs to another call now
	}
	c := Call{name: name, file: f, root: root}
	if _, err := c.parseRecords(); err != nil || c.last.State != Done {
		return nil // it may be needed, or shows that something is wrong
	}
	return root.Remove(name) // under the lock: a process that waits for it creates it again
}
