package outbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

func open(t *testing.T, dir string, now func() time.Time) *outbox.Log {
	t.Helper()
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := outbox.Open(root, outbox.Stamp{SpriteID: "s", WorkItemID: "w", CallID: "c"}, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); root.Close() })
	return l
}

func info(message string) protocol.Info { return protocol.Info{Message: message} }

func add(t *testing.T, l *outbox.Log, p protocol.Payload) protocol.Event {
	t.Helper()
	e, err := l.Append(p)
	if err != nil {
		t.Fatalf("Append(%+v) = %v", p, err)
	}
	return e
}

// lines reads the outbox and fails unless every line is a valid event, later than the one before.
func lines(t *testing.T, dir string) (events []protocol.Event) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, protocol.OutboxFile))
	if err != nil {
		t.Fatal(err)
	}
	s := protocol.NewOutboxScanner(bytes.NewReader(data))
	last := ""
	for {
		r, err := s.Next()
		if err == io.EOF {
			return events
		}
		if err != nil || r.Kind != protocol.KindEvent || len(r.Problems) > 0 {
			t.Fatalf("outbox record %+v, %v", r, err)
		}
		if r.Event.Timestamp <= last {
			t.Fatalf("time %s does not follow %s", r.Event.Timestamp, last)
		}
		last = r.Event.Timestamp
		events = append(events, r.Event)
	}
}

func TestTimeRisesThoughTheClockDoesNot(t *testing.T) {
	dir := t.TempDir()
	add(t, open(t, dir, at(noon)), info("one"))
	l := open(t, dir, at(noon.Add(-time.Hour))) // a new process after the clock was set back
	add(t, l, info("two"))
	e := add(t, l, info("three"))
	if want := "2026-05-01T12:00:00.000000002Z"; e.Timestamp != want {
		t.Errorf("timestamp %s, want %s", e.Timestamp, want)
	}
	lines(t, dir)
}

// A clock that jumps never makes two events of one order: what was stamped stays before what comes, unless it lies in a
// future that no clock should follow.
func TestClockJumps(t *testing.T) {
	const hour = time.Hour
	for _, tc := range []struct {
		name string
		last time.Time // of the line that is there
		now  time.Time
		want time.Time // of the next
	}{
		{"set back an hour", noon, noon.Add(-hour), noon.Add(1)},
		{"never set, 1970", noon, time.Unix(5, 0), noon.Add(1)},
		{"never set, nothing there", time.Time{}, time.Unix(5, 0), time.Unix(5, 0).UTC()},
		{"was 1970, now set", time.Unix(5, 0), noon, noon},
		{"jumped to 2100", noon, noon.AddDate(74, 0, 0), noon.AddDate(74, 0, 0)},
		{"was 2100, now set back", noon.AddDate(74, 0, 0), noon, noon},
		{"the same instant", noon, noon, noon.Add(1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if !tc.last.IsZero() {
				add(t, open(t, dir, at(tc.last)), info("one"))
			}
			l := open(t, dir, at(tc.now))
			if e := add(t, l, info("two")); e.Timestamp != protocol.FormatTime(tc.want) {
				t.Errorf("timestamp %s, want %s", e.Timestamp, protocol.FormatTime(tc.want))
			}
			if e := add(t, l, info("three")); e.Timestamp != protocol.FormatTime(tc.want.Add(1)) {
				t.Errorf("timestamp %s, want the next", e.Timestamp)
			}
		})
	}
}

func TestManyWritersShareOneOutbox(t *testing.T) {
	dir := t.TempDir()
	var writers sync.WaitGroup
	for range 8 {
		l := open(t, dir, at(noon))
		writers.Go(func() {
			for range 25 {
				if _, err := l.Append(info("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if got := len(lines(t, dir)); got != 200 {
		t.Errorf("%d lines, want 200", got)
	}
}

func TestTornTailIsRepaired(t *testing.T) {
	for _, tc := range []struct {
		name string
		keep func(line []byte) []byte // what a crash left of the last of two lines
		want int                      // events once a third was appended
	}{
		{"only the newline is missing", func(line []byte) []byte { return line[:len(line)-1] }, 3},
		{"half a line", func(line []byte) []byte { return line[:len(line)/2] }, 2},
		{"one byte", func(line []byte) []byte { return line[:1] }, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, at(noon))
			add(t, l, info("one"))
			second := add(t, l, info("two"))
			file := filepath.Join(dir, protocol.OutboxFile)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			line := append(bytes.Clone(second.Raw), '\n')
			whole := len(data) - len(line)
			if err := os.WriteFile(file, append(data[:whole:whole], tc.keep(line)...), 0o644); err != nil {
				t.Fatal(err)
			}
			add(t, open(t, dir, at(noon)), info("three"))
			if got := lines(t, dir); len(got) != tc.want || !strings.Contains(string(got[len(got)-1].Payload), "three") {
				t.Errorf("%d events, want %d", len(got), tc.want)
			}
		})
	}
}

func TestPlantedLines(t *testing.T) {
	for name, content := range map[string]string{
		"garbage":             "not json\n\xff\xfe\n",
		"a time far ahead":    `{"event_type":"INFO","timestamp":"9999-12-31T23:59:59.999999999Z","payload":{}}` + "\n",
		"an endless line":     strings.Repeat("x", 3<<20),
		"no time":             `{"event_type":"INFO"}` + "\n",
		"time of wrong shape": `{"timestamp":{}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, protocol.Dir), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, protocol.OutboxFile), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			if e := add(t, open(t, dir, at(noon)), info("mine")); e.Timestamp != "2026-05-01T12:00:00.000000000Z" {
				t.Errorf("timestamp %s", e.Timestamp)
			}
			data, err := os.ReadFile(filepath.Join(dir, protocol.OutboxFile))
			if err != nil || !strings.HasPrefix(string(data), content) {
				t.Errorf("somebody else's lines were changed (%v)", err)
			}
		})
	}
}

func TestRemovedOutboxIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, at(noon))
	add(t, l, info("one"))
	if err := os.RemoveAll(filepath.Join(dir, protocol.Dir)); err != nil {
		t.Fatal(err)
	}
	add(t, l, info("two"))
	if got := lines(t, dir); len(got) != 1 {
		t.Errorf("%d events, want 1", len(got))
	}
}

func TestSymlinkedOutboxIsRefused(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.Mkdir(filepath.Join(dir, protocol.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, protocol.OutboxFile)); err != nil {
		t.Fatal(err)
	}
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := outbox.Open(root, outbox.Stamp{}, time.Now); err == nil {
		t.Error("Open followed a symlink out of the workspace")
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("the victim was made")
	}
}

func TestLargePayloadsAreSpilled(t *testing.T) {
	big := strings.Repeat("ä", 150<<10)
	object, err := json.Marshal(map[string]string{"text": big})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []protocol.Payload{
		protocol.Info{Message: big},
		protocol.Info{Message: big, Metadata: object},
		protocol.Error{Message: "m", Details: object},
		protocol.Artifact{Kind: "file", Metadata: object},
		protocol.Completed{Status: "success", Summary: big},
		protocol.ActionRequest{Action: "OPEN_PR", Parameters: object},
	} {
		dir := t.TempDir()
		e := add(t, open(t, dir, at(noon)), p)
		if len(e.Payload) > protocol.SpillAt {
			t.Errorf("%s: payload of %d bytes", e.Type, len(e.Payload))
		}
		lines(t, dir)
		files, err := os.ReadDir(filepath.Join(dir, outbox.SpillDir))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: nothing spilled: %v", e.Type, err)
		}
	}
	if _, err := open(t, t.TempDir(), at(noon)).Append(protocol.Waiting{Reason: big, CheckpointID: "v1"}); err == nil {
		t.Error("a WAITING that cannot be spilled was accepted")
	}
}

// A text is cut at a whole character, wherever its characters lie.
func TestSpilledTextIsCutCleanly(t *testing.T) {
	for _, text := range []string{"ä", "€", "x€", "😀", "xx😀", "\xff"} {
		e := add(t, open(t, t.TempDir(), at(noon)), info(strings.Repeat("€", 10)+strings.Repeat(text, 300<<10/len(text))))
		payload, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(payload.(protocol.Info).Message, "…")
		if strings.ContainsRune(head, utf8.RuneError) && utf8.ValidString(text) {
			t.Errorf("the head of %q ends in %q", text, head[len(head)-10:])
		}
	}
}

func TestInvalidEventIsNotRecorded(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, at(noon))
	if _, err := l.Append(protocol.Completed{Status: "maybe"}); err == nil {
		t.Error("an event that breaks a rule was accepted")
	}
	if got := lines(t, dir); len(got) != 0 {
		t.Errorf("%d lines, want none", len(got))
	}
}

// What lies in the outbox's place after it was removed, or moved away, is named each time that something is appended; once
// it is gone the outbox is created again.
func TestReplacedOutboxIsNamed(t *testing.T) {
	for what, plant := range map[string]func(file string) error{
		"a directory": func(file string) error { return os.Mkdir(file, 0o755) },
		"a FIFO":      func(file string) error { return syscall.Mkfifo(file, 0o644) },
		"a symlink":   func(file string) error { return os.Symlink("mine", file) },
	} {
		for how, vacate := range map[string]func(file string) error{
			"removed": os.Remove,
			"moved":   func(file string) error { return os.Rename(file, file+".old") },
		} {
			t.Run(what+" "+how, func(t *testing.T) {
				dir := t.TempDir()
				l, file := open(t, dir, at(noon)), filepath.Join(dir, protocol.OutboxFile)
				add(t, l, info("one"))
				if err := errors.Join(vacate(file), plant(file)); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					_, err := l.Append(info("lost"))
					if !errors.Is(err, workspace.ErrPlanted) || !strings.Contains(err.Error(), protocol.OutboxFile+" is "+what) {
						t.Errorf("Append = %v, want it to name %s", err, what)
					}
				}
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
				add(t, l, info("two"))
				if got := lines(t, dir); len(got) != 1 {
					t.Errorf("%d events, want 1", len(got))
				}
			})
		}
	}
}
