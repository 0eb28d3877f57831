// Package disk runs flows on the disk alone: an append and an fdatasync for each step, which all that wait share. No engine
// with its steps on disk is faster. Start with Open.
package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/spritekit/lattice/scripts/bench/peers/peer"
)

// record is as long as the bytes that lattice appends for a step.
var record = make([]byte, 128)

type journal struct {
	file    *os.File
	appends chan chan error
	syncing sync.WaitGroup
}

// Open creates a file, and starts the goroutine that writes it.
func Open(_ context.Context, dir string) (peer.Engine, error) {
	f, err := os.Create(filepath.Join(dir, "journal"))
	if err != nil {
		return nil, err
	}
	j := &journal{file: f, appends: make(chan chan error, 256)}
	j.syncing.Go(j.write)
	return j, nil
}

// write appends all records that wait, and syncs them together.
func (j *journal) write() {
	for first := range j.appends {
		waiting := []chan error{first}
		for more := len(j.appends); more > 0; more-- {
			waiting = append(waiting, <-j.appends)
		}
		var err error
		for range waiting {
			_, wrong := j.file.Write(record)
			err = errors.Join(err, wrong)
		}
		err = errors.Join(err, syscall.Fdatasync(int(j.file.Fd())))
		for _, w := range waiting {
			w <- err
		}
	}
}

func (j *journal) Run(ctx context.Context, f peer.Flow) error {
	done := make(chan error, 1)
	for range f.Steps {
		if err := f.Step(ctx); err != nil {
			return err
		}
		j.appends <- done
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) About() string {
	return "the disk alone: 128 bytes appended for each step, and one fdatasync for all that wait; no history, retries or queries"
}

func (j *journal) Close() error {
	close(j.appends)
	j.syncing.Wait()
	return j.file.Close()
}
