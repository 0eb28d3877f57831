package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/durable"
	"github.com/spritekit/lattice/spritekit/fault"
)

// maxNotes is how many notes a spool holds, so that a sprite cannot fill the disk while a channel is down.
const maxNotes = 1000

// Spool is a folder of notes on their way, one file each. It is safe for concurrent use by one process.
type Spool struct{ dir string }

// Waiting is a note in a spool.
type Waiting struct {
	Note
	Attempts int       `json:"attempts,omitempty"`
	Next     time.Time `json:"next,omitzero"` // of the next attempt
	Problem  string    `json:"problem,omitempty"`
}

// NewSpool returns the spool in dir, which is made when the first note comes.
func NewSpool(dir string) *Spool { return &Spool{dir} }

// Add puts a note into the spool; the note is on disk when Add returns. A note with the id of one in the spool changes
// nothing.
func (s *Spool) Add(n Note) error {
	n, err := n.checkNote()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(s.pathOf(n.ID)); err == nil {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("keep a notification: %w", err)
	}
	if files, err := os.ReadDir(s.dir); err != nil || len(files) >= maxNotes {
		return errors.Join(err, fault.Busy("notifications_full", "%d notifications wait to be delivered; no more are kept", len(files)).
			WithHint("lattice notify ls shows why they wait"))
	}
	return s.writeNote(Waiting{Note: n})
}

// List returns the notes in the spool, the oldest first. A file that is not a note is left out.
func (s *Spool) List() ([]Waiting, error) {
	files, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list notifications: %w", err)
	}
	var all []Waiting
	for _, f := range files {
		name, isNote := strings.CutSuffix(f.Name(), ".json")
		text, err := os.ReadFile(filepath.Join(s.dir, f.Name()))
		if !isNote || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list notifications: %w", err)
		}
		var w Waiting
		if json.Unmarshal(text, &w) == nil && w.ID == name {
			all = append(all, w)
		}
	}
	slices.SortStableFunc(all, func(a, b Waiting) int { return a.At.Compare(b.At) })
	return all, nil
}

// writeNote replaces the file of a note; it is on disk when write returns.
func (s *Spool) writeNote(w Waiting) error {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, ".new-")
	if err != nil {
		return fmt.Errorf("keep a notification: %w", err)
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("keep a notification: %w", err)
	}
	if err := os.Rename(f.Name(), s.pathOf(w.ID)); err != nil {
		return fmt.Errorf("keep a notification: %w", err)
	}
	return durable.SyncDir(s.dir)
}

// removeNote takes a note out of the spool. A loss of power may bring it back; it is then delivered again.
func (s *Spool) removeNote(id string) error {
	if err := os.Remove(s.pathOf(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a notification: %w", err)
	}
	return nil
}

func (s *Spool) pathOf(id string) string { return filepath.Join(s.dir, id+".json") }
