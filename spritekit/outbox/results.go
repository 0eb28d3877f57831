package outbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// KindResult marks the INFO that records a call's result. It is in the outbox only.
const KindResult = "result"

// Size returns the current size of the outbox: the offset for Results of a call that starts now.
func (l *File) Size() (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := l.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("look at the outbox: %w", err)
	}
	return info.Size(), nil
}

// Results calls use with the records of results that a call left at or after an offset, oldest first, until use returns
// false. It skips other lines in bounded memory. Any process of the sprite may have written the records.
func Results(root *workspace.Root, from int64, callID string, use func(protocol.Info) bool) error {
	f, err := root.Open(protocol.OutboxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read outbox: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read outbox: %w", err)
	}
	if from < 0 || from > info.Size() {
		from = 0 // the outbox was created again, or a journal is wrong
	}
	for scanner := protocol.NewOutboxScanner(io.NewSectionReader(f, from, info.Size()-from)); ; {
		record, err := scanner.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read outbox: %w", err)
		}
		e := record.Event
		if record.Kind != protocol.KindEvent || len(record.Problems) > 0 || e.Legacy || e.Type != protocol.TypeInfo || e.CallID != callID {
			continue
		}
		payload, err := e.Open()
		if info, ok := payload.(protocol.Info); err == nil && ok && info.Kind == KindResult && !use(info) {
			return nil
		}
	}
}
