package services

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// serviceLogDir is where a sprite sees the logs of its services, read-only. They belong to the host.
const serviceLogDir = "/.sprite/logs/services"

// Bounds of a service's log. When the file is full it becomes the older one, NAME.log.1, and a new one is begun.
const (
	maxLogFile  = 4 << 20
	maxLogLine  = 16 << 10        // longer lines are cut into several
	maxStored   = maxLogLine + 64 // of one in the file, with all that is written around it
	maxRecent   = 4096            // events kept for those who follow
	recentBytes = 1 << 20
)

const logTime = "2006-01-02T15:04:05.000Z"

// serviceLog holds the output and the events of one service. Output goes to a file that the sprite sees, a line each:
//
//	2026-06-02T17:11:17.821Z [stderr] listening on port 3000
//
// Followers read events from memory, and never hold the service up: who is too slow is told how many events he missed.
type serviceLog struct {
	path string
	now  func() time.Time

	mu     boltfile.Lock // guards the fields below
	file   *os.File      // nil until something is written, and after writing failed
	size   int64
	recent []sprites.ServiceEvent
	bytes  int           // of data in recent
	first  uint64        // number of recent[0]
	grown  chan struct{} // closed when recent grows
}

func newServiceLog(path string, now func() time.Time) *serviceLog {
	return &serviceLog{path: path, now: now, grown: make(chan struct{})}
}

// logFiles are the members log_files of the API: all output is in one file.
func logFiles(service string) map[string]string {
	file := path.Join(serviceLogDir, service+".log")
	return map[string]string{"combined": file, "stdout": file, "stderr": file}
}

// addOutput adds pieces of output, each a line or the end of one that was cut. On a disk that takes no more the file ends
// early; followers see the output all the same.
func (l *serviceLog) addOutput(stream string, pieces [][]byte) {
	if len(pieces) == 0 {
		return
	}
	now := l.now().UTC()
	prefix := now.Format(logTime) + " [" + stream + "] "
	var text bytes.Buffer
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pieces {
		text.WriteString(prefix)
		text.Write(bytes.TrimSuffix(p, []byte("\n")))
		text.WriteByte('\n')
		l.keepEvent(sprites.ServiceEvent{Type: stream, Data: string(p), Timestamp: now.UnixMilli()})
	}
	l.write(text.Bytes())
	l.wakeReaders()
}

// addEvent adds an event other than output; it is not in the file.
func (l *serviceLog) addEvent(e sprites.ServiceEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Timestamp = l.now().UnixMilli()
	l.keepEvent(e)
	l.wakeReaders()
}

func (l *serviceLog) keepEvent(e sprites.ServiceEvent) {
	l.recent = append(l.recent, e)
	l.bytes += len(e.Data)
	drop := 0
	for len(l.recent)-drop > maxRecent || l.bytes > recentBytes && len(l.recent)-drop > 1 {
		l.bytes -= len(l.recent[drop].Data)
		drop++
	}
	l.recent = l.recent[drop:]
	l.first += uint64(drop)
}

func (l *serviceLog) wakeReaders() {
	close(l.grown)
	l.grown = make(chan struct{})
}

// write appends to the file, beginning a new one when it is full.
func (l *serviceLog) write(data []byte) {
	if l.file != nil && l.size+int64(len(data)) > maxLogFile {
		l.closeFile()
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return
		}
	}
	if l.file == nil && l.open() != nil {
		return
	}
	n, err := l.file.Write(data)
	l.size += int64(n)
	if err != nil {
		l.closeFile() // tried again with the next output
	}
}

func (l *serviceLog) open() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

func (l *serviceLog) closeFile() {
	if l.file != nil {
		_ = l.file.Close() // a log that could not be written whole is cut short, and that is all
		l.file = nil
	}
}

// close lets go of the file; output opens it again.
func (l *serviceLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeFile()
}

// removeFiles removes the files of a log that nothing is added to any more.
func (l *serviceLog) removeFiles() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeFile()
	return errors.Join(ignoreNotExist(os.Remove(l.path)), ignoreNotExist(os.Remove(l.path+".1")))
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// endPosition returns where the next event will be.
func (l *serviceLog) endPosition() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first + uint64(len(l.recent))
}

// eventsAfter returns the events from number at on, where the next ones will be, and a channel that is closed when there are
// some. Missed counts those that are not kept any more.
func (l *serviceLog) eventsAfter(at uint64) (events []sprites.ServiceEvent, next, missed uint64, grown <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at < l.first {
		missed, at = l.first-at, l.first
	}
	next = l.first + uint64(len(l.recent))
	if at > next {
		at = next
	}
	return append(events, l.recent[at-l.first:]...), next, missed, l.grown
}

// readTail reads the last lines of the file, at most n, and says where the events after them begin.
func (l *serviceLog) readTail(n int) (events []sprites.ServiceEvent, next uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = l.first + uint64(len(l.recent))
	var text []byte
	for _, file := range []string{l.path, l.path + ".1"} {
		if bytes.Count(text, []byte("\n")) >= n {
			break
		}
		part, err := readLog(file, int64(n)*maxStored)
		if err != nil {
			return nil, 0, fmt.Errorf("read the log: %w", err)
		}
		text = append(part, text...)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	for _, line := range lines[max(0, len(lines)-n):] {
		events = append(events, parseLogLine(line))
	}
	return events, next, nil
}

// readLog reads the last bytes of one file of a log, at most so many. In a sprite without namespaces the file may have been replaced
// by anything.
func readLog(path string, most int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(max(0, info.Size()-most), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, 2*maxLogFile))
}

// parseLogLine makes an event of a line of the file. A line of another form is taken as it is.
func parseLogLine(line string) sprites.ServiceEvent {
	stamp, rest, ok := strings.Cut(line, " [")
	stream, data, closed := strings.Cut(rest, "] ")
	at, err := time.Parse(logTime, stamp)
	if !ok || !closed || err != nil || stream != "stdout" && stream != "stderr" {
		return sprites.ServiceEvent{Type: "stdout", Data: line}
	}
	return sprites.ServiceEvent{Type: stream, Data: data, Timestamp: at.UnixMilli()}
}

// splitter cuts a stream into lines. The end of a line that has not come is kept for a while.
type splitter struct{ rest []byte }

// splitLines adds data and returns the complete lines. It splits lines that are too long.
func (s *splitter) splitLines(data []byte) (pieces [][]byte) {
	for len(data) > 0 {
		line := data
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			line = data[:i+1]
		}
		line = line[:min(len(line), maxLogLine-len(s.rest))]
		data = data[len(line):]
		s.rest = append(s.rest, line...)
		if s.rest[len(s.rest)-1] == '\n' || len(s.rest) >= maxLogLine {
			pieces = append(pieces, s.flushLine()...)
		}
	}
	return pieces
}

// flushLine returns the unfinished line.
func (s *splitter) flushLine() (pieces [][]byte) {
	if len(s.rest) > 0 {
		pieces, s.rest = [][]byte{s.rest}, nil
	}
	return pieces
}
