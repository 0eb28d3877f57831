package board

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"slices"
	"time"
)

// Issue is the issue of a code host that a task mirrors, as it was last seen (package mirror).
type Issue struct {
	ID      int64     `json:"id"` // stays when the repository is renamed
	Number  int64     `json:"number"`
	URL     string    `json:"url"`
	Open    bool      `json:"open"`
	Labels  []string  `json:"labels,omitempty"` // as labels of tasks, without those that show statuses
	Updated time.Time `json:"updated"`
	// Shown is the status that a label of the issue shows, "" if none does.
	Shown string `json:"shown,omitempty"`
}

func applyIssue(t *Task, e Event) error {
	d, err := decode[Issue](e)
	if err != nil {
		return err
	}
	if t.Issue == nil || t.Issue.ID != d.ID {
		return fmt.Errorf("changes the issue %d, which the task does not mirror", d.ID)
	}
	t.Issue = &d
	return nil
}

// WordLabels returns labels of a code host as labels of a task, which are words.
func WordLabels(labels []string) (words []string) {
	for _, label := range labels {
		word := []rune{}
		for _, c := range label {
			if slices.Contains([]rune(", \t\r\n"), c) {
				c = '-'
			}
			word = append(word, c)
		}
		if label = string(word); checkLabels([]string{label}) == nil && !slices.Contains(words, label) {
			words = append(words, label)
		}
	}
	return words
}

// Stamp returns a number that changes when an event is written.
func (b *Board) Stamp() (uint64, error) {
	entries, err := fs.ReadDir(b.root.FS(), eventsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("list the tasks: %w", err)
	}
	sum := fnv.New64a()
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it was removed since
			fmt.Fprintln(sum, e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return sum.Sum64(), nil
}
