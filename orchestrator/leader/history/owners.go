package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// An owner is a line of the file next to a log: from the byte At on, until that of the next line, the node Node wrote the log. It
// is appended before the output, so that a crash never leaves output to the node before it; of several lines about one
// byte the last one counts.
type owner struct {
	At   int64  `json:"at"`
	Node string `json:"node"`
}

// maxOwners bounds the file, in bytes. A log whose nodes take turns so often takes no more output.
const maxOwners = 16 << 20

func appendOwner(path string, o owner) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > maxOwners {
		err = errors.New("the nodes of the log took turns too often")
	}
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	return errors.Join(err, f.Close())
}

// readOwners reads the file. A run of an older lattice has none. A line that a crash cut short is left out.
func readOwners(path string) (owners []owner, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read which node wrote the log: %w", err)
	}
	for line := range bytes.Lines(text) {
		var o owner
		if json.Unmarshal(line, &o) == nil {
			owners = append(owners, o)
		}
	}
	return owners, nil
}

// part is a part of a log, from a byte up to but not including another.
type part struct{ from, to int64 }

// partsOf returns the parts that some nodes wrote of a log of a size, in their order.
func partsOf(owners []owner, nodes []string, size int64) (parts []part) {
	for i, o := range owners {
		to := size
		if i+1 < len(owners) {
			to = min(to, owners[i+1].At)
		}
		if slices.Contains(nodes, o.Node) && o.At < to {
			parts = append(parts, part{o.At, to})
		}
	}
	return parts
}
