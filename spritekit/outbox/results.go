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

// Size is how long the outbox is now: where Results may begin to look for what a call that starts now will write.
func (l *File) Size() (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := l.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("look at the outbox: %w", err)
	}
	return info.Size(), nil
}

// Results shows use the records of results that a call left at or after an offset, oldest first, until use returns
// false. Whatever else is there is passed over in bounded memory. Anything in the sprite may have written the records.
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
		from = 0 // the outbox was made anew, or a journal lies
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
