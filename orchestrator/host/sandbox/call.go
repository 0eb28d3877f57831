package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// A call asks init for something that is best done inside: it has a name, a JSON body and descriptors, and so has its
// answer, or an error that keeps its number and text.
const (
	maxCalls   = 64      // at work at a time in one box; more wait on the host's side
	maxCallFDs = 16      // descriptors of one call or answer
	maxCall    = 1 << 20 // bytes of a call's body
	maxAnswer  = 1 << 20 // bytes of an answer's body
	maxText    = 4 << 10 // bytes of an error's text
)

// call is one call on its way to init.
type call struct {
	Name string          `json:"name"`
	Body json.RawMessage `json:"body,omitempty"`
}

// callAnswer is what came back, with the descriptors, which then belong to the caller.
type callAnswer struct {
	reply
	files []*os.File
}

// call has init do name with in and waits. The answer is decoded into out, unless that is nil. The descriptors in send stay
// the caller's. Init is not trusted: out and the received descriptors may be anything of their form, so their reader checks.
//
// An error of init's satisfies errors.Is for its errno and the like of fs.ErrNotExist. When ctx ends, init is told and call
// returns at once; ErrDied says that the box has ended.
// A box that is frozen (Box.Freeze) is asked when it goes on.
func (b *Box) call(ctx context.Context, name string, in any, send []*os.File, out any) (received []*os.File, err error) {
	if err := b.waitAwake(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b.ask(ctx, name, in, send, out)
}

func (b *Box) frozen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.awake != nil
}

// waitAwake waits for a frozen box to be thawed.
func (b *Box) waitAwake(ctx context.Context) error {
	b.mu.Lock()
	awake := b.awake
	b.mu.Unlock()
	if awake == nil {
		return nil
	}
	select {
	case <-awake:
		return nil
	case <-b.done:
		return b.died()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask is call of a box that may be frozen.
func (b *Box) ask(ctx context.Context, name string, in any, send []*os.File, out any) (received []*os.File, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("%s: encode: %w", name, err)
	}
	if len(body) > maxCall || len(send) > maxCallFDs {
		return nil, fmt.Errorf("%s: %d bytes and %d descriptors: %w", name, len(body), len(send), syscall.E2BIG)
	}
	select {
	case b.slots <- struct{}{}: // given back when the answer has come, or never once the box is gone
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", name, ctx.Err())
	case <-b.done:
		return nil, fmt.Errorf("%s: %w", name, b.died())
	}
	come := make(chan callAnswer, 1)
	b.mu.Lock()
	b.lastID++
	id := b.lastID
	b.calls[id] = come
	b.mu.Unlock()

	fds := make([]int, len(send))
	for i, f := range send {
		fds[i] = int(f.Fd())
	}
	err = b.send(request{Op: opCall, ID: id, Call: &call{Name: name, Body: body}}, fds...)
	runtime.KeepAlive(send)
	if err != nil {
		b.mu.Lock()
		delete(b.calls, id)
		b.mu.Unlock()
		<-b.slots
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	select {
	case a := <-come:
		return b.result(a, name, out)
	case <-ctx.Done():
		b.abandon(id, come)
		return nil, fmt.Errorf("%s: %w", name, ctx.Err())
	case <-b.done:
	}
	select { // the answer may have come first
	case a := <-come:
		return b.result(a, name, out)
	default:
		return nil, fmt.Errorf("%s: %w", name, b.died())
	}
}

// abandon gives up a call whose answer may be on its way.
func (b *Box) abandon(id uint64, come <-chan callAnswer) {
	b.mu.Lock()
	_, waiting := b.calls[id]
	if waiting {
		b.calls[id] = nil // the answer is to be dropped, and only then is there room for another call
	}
	b.mu.Unlock()
	if waiting {
		_ = b.send(request{Op: opCancel, ID: id}) // a box that no longer listens ends by this
		return
	}
	late := <-come // delivered just now
	closeAll(late.files)
	if len(late.Held) > 0 {
		b.refuseHeld(id)
	}
}

// deliverAnswer brings an answer to its call. Nobody may wait for it: init may be in the hands of what runs in the box.
func (b *Box) deliverAnswer(r reply, files []*os.File) {
	b.mu.Lock()
	come, known := b.calls[r.ID]
	delete(b.calls, r.ID)
	b.mu.Unlock()
	if known {
		<-b.slots
	}
	if come == nil || len(files) > maxCallFDs {
		closeAll(files)
		files = nil
	}
	if come != nil {
		come <- callAnswer{reply: r, files: files}
	} else if known && len(r.Held) > 0 {
		b.refuseUnheard(r.ID)
	}
}

// result is what an answer says. What init holds with it is taken over now.
func (b *Box) result(a callAnswer, name string, out any) ([]*os.File, error) {
	if len(a.Held) > 0 {
		closeAll(a.files)
		var err error
		if a.files, err = b.fetch(a.reply); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if a.Code != 0 || a.Error != "" {
		closeAll(a.files)
		return nil, answered{a.Code, a.Error}
	}
	if out == nil {
		return a.files, nil
	}
	if err := json.Unmarshal(a.Body, out); err != nil {
		closeAll(a.files)
		return nil, fmt.Errorf("%s: decode the answer: %w", name, err)
	}
	return a.files, nil
}

// call is init's side: it works in a goroutine that serve waits for. The host keeps to maxCalls; one that did not would wait.
func (s *server) call(id uint64, c call, files []*os.File) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.mu.Lock()
	s.cancels[id] = cancel
	s.mu.Unlock()
	s.calls.Go(func() error {
		defer closeAll(files)
		answer, send, err := s.handle(ctx, c.Name, c.Body, files)
		s.mu.Lock()
		delete(s.cancels, id)
		s.mu.Unlock()
		cancel()
		return s.answer(id, c.Name, answer, send, err)
	})
}

// answer sends what came of a call, and closes the descriptors in send. A failure to send means that the host is gone; next
// sees it too.
func (s *server) answer(id uint64, name string, answer any, send []*os.File, err error) error {
	r := reply{Op: opAnswer, ID: id}
	if err == nil && answer != nil {
		r.Body, err = json.Marshal(answer)
	}
	if err == nil && (len(r.Body) > maxAnswer || len(send) > maxCallFDs) {
		err = fmt.Errorf("%s: %d bytes and %d descriptors in answer: %w", name, len(r.Body), len(send), syscall.EMSGSIZE)
	}
	if err != nil {
		closeAll(send)
		text := err.Error()
		r = reply{Op: opAnswer, ID: id, Code: errnoOf(err), Error: text[:min(len(text), maxText)]}
		return s.control.send(r)
	}
	if len(send) == 0 {
		return s.control.send(r)
	}
	s.hold(id, send) // the host may take them before hand returns
	held, err := s.control.hand(r, send...)
	if !held {
		s.release(id)
	}
	return err
}

// handle does one call. The files that came along are closed after it, those in send when they are sent.
func (s *server) handle(ctx context.Context, name string, body json.RawMessage, files []*os.File) (answer any, send []*os.File, err error) {
	if inner, ok := strings.CutPrefix(name, asRoot); ok {
		if !strings.HasPrefix(inner, "fs.") || inner == fsWatch { // which is work of several threads
			return nil, nil, unknownCall(name)
		}
		refused := s.asRoot(func() { answer, send, err = s.fsCall(ctx, inner, body, files) })
		return answer, send, errors.Join(refused, err)
	}
	area, _, _ := strings.Cut(name, ".")
	switch area {
	case "box":
		answer, err = s.boxCall(ctx, name, body)
		return answer, nil, err
	case "fs":
		return s.fsCall(ctx, name, body, files)
	case "net":
		return s.netCall(ctx, name, body, files)
	default:
		return nil, nil, unknownCall(name)
	}
}

func unknownCall(name string) error { return fmt.Errorf("unknown call %q: %w", name, syscall.ENOSYS) }

// errnoOf is the number under which an error travels; 0 when it has none.
func errnoOf(err error) int {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return int(errno)
	case errors.Is(err, fs.ErrNotExist):
		return int(syscall.ENOENT)
	case errors.Is(err, fs.ErrExist):
		return int(syscall.EEXIST)
	case errors.Is(err, fs.ErrPermission):
		return int(syscall.EPERM)
	case errors.Is(err, fs.ErrInvalid):
		return int(syscall.EINVAL)
	default:
		return 0
	}
}
