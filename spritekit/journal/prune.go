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

// Prune removes the journals of calls that are done, all but the newest keep. It never removes one that waits, that
// crashed, that does not make sense, or that anybody works on: what such a call does next rests on it. A call
// that is done is asked for again only while its run has not heard of its result, so that keep must be far more
// than a run has calls under way.
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

// Results shows use the recorded results of all calls that are done. What cannot be read is passed over.
func Results(root *workspace.Root, use func(result []byte)) error {
	names, err := listCalls(root)
	if err != nil {
		return fmt.Errorf("read call journals: %w", err)
	}
	for _, name := range names {
		file, err := root.Open(name)
		if err != nil {
			continue // pruned meanwhile, or no file
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
	files, err := root.OwnFiles(protocol.CallsDir)
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
		return nil // somebody works on it
	}
	if _, still, err := root.StillNamed(f, name); err != nil || !still {
		return err // pruned meanwhile; what has the name now is another call's
	}
	c := Call{name: name, file: f, root: root}
	if _, err := c.parseRecords(); err != nil || c.last.State != Done {
		return nil // it may be needed, or shows that something is wrong
	}
	return root.Remove(name) // under the lock: who waits for it makes it anew
}
