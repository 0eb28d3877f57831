package connect

import (
	"os"
	"sync"
)

// MaxServeLog bounds a leader's log file, in bytes; one older file of the same size is kept next to it.
const MaxServeLog = 8 << 20

// LogFile appends to a bounded file. Logs are never a reason to stop anything: a line that cannot be written is dropped, and
// writing starts again when there is room.
type LogFile struct {
	Path string
	Max  int64

	mu   sync.Mutex // guards all below
	file *os.File   // nil until it could be opened
	size int64
}

// Write never fails.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size+int64(len(p)) > l.Max {
		l.file.Close()
		l.file = nil
		_ = os.Rename(l.Path, l.Path+".1") // a file that cannot be renamed is written over its bound a little
	}
	if l.file == nil {
		f, err := os.OpenFile(l.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return len(p), nil
		}
		l.file, l.size = f, fileSize(l.Path)
	}
	n, _ := l.file.Write(p)
	l.size += int64(n)
	return len(p), nil
}

// Close closes the file.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
