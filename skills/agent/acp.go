package agent

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/skills/agent/acp"
	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/appserver"
	"github.com/spritekit/lattice/skills/agent/control"
	"github.com/spritekit/lattice/skills/agent/idle"
	"github.com/spritekit/lattice/skills/agent/tally"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	maxAgentFile = 8 << 20         // a file that an agent reads or writes through the protocol
	maxUnread    = 32 << 20        // messages that an agent does not read
	politeStop   = 5 * time.Second // in which an agent must end a turn that was cancelled
)

// errDeaf is the reason for which an agent is stopped that does not read its messages.
var errDeaf = errors.New("the agent does not read its messages")

// talk is the client's side of a dialogue with an agent. Its methods are called by the
// goroutine that reads the agent's stdout.
type talk struct {
	l        *launch
	out      *output
	silence  *idle.Timer
	feed     *feed
	dialogue dialogue
	asked    *acp.Request // the request that waits for a person
}

// dialogue is the client's side of a protocol.
type dialogue interface {
	// Take handles a line that the agent printed.
	Take(line []byte)
	// Refuse ends the dialogue because of a line that cannot be a message.
	Refuse(why string)
}

// talks reports whether the agent asks us for something while it works.
func (l *launch) talks() bool { return l.adapter.Output == adapter.OutputACP || l.controlled() }

// controlled reports whether the agent asks for permission by a protocol of its own.
func (l *launch) controlled() bool {
	return l.adapter.Asks != "" && l.in.Permissions.Mode == modeAsk
}

// newTalk returns a dialogue about the prompt of l. It makes the program that l starts read from it.
func (l *launch) newTalk(out *output, s *idle.Timer) (*talk, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("talk to the agent: %w", err)
	}
	l.spec.Input = r
	t := &talk{l: l, out: out, silence: s, feed: newFeed(w)}
	switch {
	case l.controlled() && l.adapter.Asks == adapter.AsksControl:
		t.dialogue = control.Begin(t, l.prompt)
		return t, nil
	case l.controlled():
		t.dialogue = appserver.Begin(appserver.Config{
			Version: l.call.Manifest.Version, Cwd: l.spec.Dir, Model: l.in.Model, Mode: l.mode, Session: l.session.ID, Prompt: l.prompt, Schema: l.in.OutputSchema,
		}, t)
		return t, nil
	}
	d := acp.NewDialogue(acp.Config{
		Version: l.call.Manifest.Version, Cwd: l.spec.Dir, OwnFiles: l.adapter.OwnFiles, Servers: l.servers, Mode: l.mode, Session: l.session.ID,
		Prompt: l.prompt, Restart: l.restart,
	}, t)
	t.dialogue = d
	d.Begin()
	return t, nil
}

// takeLine handles a line of stdout. cut is set if the line was longer.
func (t *talk) takeLine(line string, cut bool) {
	if cut {
		t.dialogue.Refuse(fmt.Sprintf("the agent sent a message of more than %d bytes", maxEventLine))
		return
	}
	t.dialogue.Take([]byte(line))
}

// Event implements [acp.Host].
func (t *talk) Event(e adapter.Event) { t.out.addEvent(e) }

// Send implements [acp.Host].
func (t *talk) Send(line []byte) {
	if !t.feed.send(line) {
		t.silence.End(errDeaf)
	}
}

// Close implements [acp.Host].
func (t *talk) Close() { t.feed.close() }

// Restarted implements [acp.Host].
func (t *talk) Restarted(why string) {
	t.l.session.ID, t.l.session.Base = "", tally.Base{}
	t.l.forgetUse()
	t.l.call.Warn("session_lost", "the agent began a new session, because it could not resume the old one: "+cleanLine(t.l.secrets.Text(why)))
}

// ReadFile implements [acp.Host].
func (t *talk) ReadFile(name string, line, limit int) (string, error) {
	if err := t.checkPlace(name); err != nil {
		return "", err
	}
	data, err := t.l.call.Root.ReadFile(name, maxAgentFile)
	if err != nil || line <= 1 && limit < 0 {
		return string(data), err
	}
	lines := strings.SplitAfter(string(data), "\n")
	lines = lines[min(max(line-1, 0), len(lines)):]
	if limit >= 0 {
		lines = lines[:min(limit, len(lines))]
	}
	return strings.Join(lines, ""), nil
}

// WriteFile implements [acp.Host].
func (t *talk) WriteFile(name, content string) error {
	if len(content) > maxAgentFile {
		return fmt.Errorf("%w: %s has more than %d bytes", workspace.ErrTooLarge, name, maxAgentFile)
	}
	if err := t.checkPlace(name); err != nil {
		return err
	}
	root := t.l.call.Root
	if err := root.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	return root.WriteFile(name, []byte(content), 0)
}

// checkPlace refuses a path outside of the workspace, and one among the runtime's own files. The agent's private home is
// there, too, and is the agent's.
func (t *talk) checkPlace(name string) error {
	root := t.l.call.Root
	if !path.IsAbs(name) {
		return fmt.Errorf("%w: %q is not an absolute path", workspace.ErrUnsafe, name)
	}
	rel, err := root.Rel(name)
	if err != nil {
		return err
	}
	if root.Reserved(name) && (t.l.files.home == "" || !strings.HasPrefix(rel, t.l.files.home+"/")) {
		return fmt.Errorf("%w: %s is one of the runtime's own files", workspace.ErrUnsafe, name)
	}
	return nil
}

// feed carries messages to an agent's stdin in a goroutine of its own, so that an agent that does not read keeps only
// itself from going on.
type feed struct {
	to   *os.File
	done chan struct{}

	mu     sync.Mutex // guards the fields below
	lines  [][]byte
	size   int
	closed bool
	more   chan struct{} // has an element if lines or closed changed
}

func newFeed(to *os.File) *feed {
	f := &feed{to: to, done: make(chan struct{}), more: make(chan struct{}, 1)}
	go f.run()
	return f
}

// send reports false if too many bytes are unread.
func (f *feed) send(line []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return true
	}
	if f.size+len(line) > maxUnread {
		return false
	}
	f.lines, f.size = append(f.lines, line), f.size+len(line)
	f.wake()
	return true
}

// close closes stdin after the lines that were sent.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wake()
}

func (f *feed) wake() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// finish ends the goroutine after the agent has ended.
func (f *feed) finish() {
	f.close()
	_ = f.to.SetWriteDeadline(time.Now()) // closed already if all was written
	<-f.done
}

func (f *feed) run() {
	defer close(f.done)
	defer f.to.Close()
	for {
		<-f.more
		f.mu.Lock()
		lines, closed := f.lines, f.closed
		f.lines = nil
		f.mu.Unlock()
		for _, line := range lines {
			if _, err := f.to.Write(line); err != nil {
				continue // an agent that reads no more will say or show why
			}
			f.mu.Lock()
			f.size -= len(line)
			f.mu.Unlock()
		}
		if closed {
			return
		}
	}
}
