package sessionlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// session is the file of a session, and what watches it.
type session struct {
	t    *testing.T
	file string
	log  Log
}

func newSession(t *testing.T, f adapter.SessionFile, text string) *session {
	t.Helper()
	dir := t.TempDir()
	s := &session{t: t, file: filepath.Join(dir, "log-1")}
	s.write(text)
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	f.Result = `"result":`
	s.log.Open(root, s.file[:len(s.file)-1]+"*", &f)
	return s
}

func (s *session) write(text string) {
	s.t.Helper()
	f, err := os.OpenFile(s.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// expect checks whether the file holds all results that were reported.
func (s *session) expect(all bool) {
	s.t.Helper()
	if s.log.holdsAll() != all {
		s.t.Errorf("holdsAll() = %v, want %v", !all, all)
	}
}

func TestNamedResults(t *testing.T) {
	s := newSession(t, adapter.SessionFile{Named: true}, `{"result":"former"}`+"\n")
	s.expect(true)
	s.write(`{"result":"a"}` + "\n")
	s.log.ExpectResult("a")
	s.expect(true)
	s.log.ExpectResult("b")
	s.write(`{"result":"unreported"}` + "\n" + `{"result":"b"}`)
	s.expect(false) // the line goes on
	s.write("\n")
	s.expect(true)
	s.log.ExpectResult("former") // a model may use an id again
	s.expect(false)
	s.write(`{"result":"former"}` + "\n")
	s.expect(true)
}

func TestCountedResults(t *testing.T) {
	const call, result = `{"call":1}` + "\n", `{"result":1}` + "\n"
	s := newSession(t, adapter.SessionFile{Call: `"call":`}, call+result+call) // the last one was cut off
	s.expect(true)
	s.write(call)
	s.expect(false)
	s.write(result)
	s.log.ExpectResult("item_1") // late: the result is there
	s.expect(true)
	s.write(call + result) // not reported
	s.write(call)
	s.log.ExpectResult("item_2")
	s.expect(false)
	s.write(result)
	s.expect(true)
	s.file = filepath.Join(filepath.Dir(s.file), "log-2") // a resumed agent begins another file with all of it
	s.write(strings.Repeat(call+result, 4) + call)
	s.log.ExpectResult("item_3")
	s.expect(false)
	s.write(result)
	s.expect(true)
}

func TestNothingIsAwaitedUnopened(t *testing.T) {
	var l Log
	l.ExpectResult("a")
	if err := l.Await(t.Context()); err != nil {
		t.Error(err)
	}
}
