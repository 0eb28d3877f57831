package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
)

// performCall is init's side: it works in a goroutine that serve waits for. The host keeps to channel.MaxCalls; one that did not would
// wait.
func (s *server) performCall(id uint64, c channel.Call, files []*os.File) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.mu.Lock()
	s.cancels[id] = cancel
	s.mu.Unlock()
	s.calls.Go(func() error {
		defer channel.CloseAll(files)
		answer, send, err := s.handleCall(ctx, c.Name, c.Body, files)
		s.mu.Lock()
		delete(s.cancels, id)
		s.mu.Unlock()
		cancel()
		return s.sendAnswer(id, c.Name, answer, send, err)
	})
}

// sendAnswer sends the outcome of a call, and closes the descriptors in send. A failure to send means that the host has ended;
// next notices it too.
func (s *server) sendAnswer(id uint64, name string, answer any, send []*os.File, err error) error {
	r := channel.Reply{Op: channel.OpAnswer, ID: id}
	if err == nil && answer != nil {
		r.Body, err = json.Marshal(answer)
	}
	if err == nil && (len(r.Body) > channel.MaxAnswer || len(send) > channel.MaxCallFDs) {
		err = fmt.Errorf("%s: %d bytes and %d descriptors in answer: %w", name, len(r.Body), len(send), syscall.EMSGSIZE)
	}
	if err != nil {
		channel.CloseAll(send)
		text := err.Error()
		r = channel.Reply{Op: channel.OpAnswer, ID: id, Code: errnoOf(err), Error: text[:min(len(text), channel.MaxText)]}
		return s.control.Send(r)
	}
	if len(send) == 0 {
		return s.control.Send(r)
	}
	s.holdFiles(id, send) // the host may take them before hand returns
	held, err := s.control.Hand(r, send...)
	if !held {
		s.releaseFiles(id)
	}
	return err
}

// handleCall does one call. The files that came along are closed after it, those in send when they are sent.
func (s *server) handleCall(ctx context.Context, name string, body json.RawMessage, files []*os.File) (answer any, send []*os.File, err error) {
	if inner, ok := strings.CutPrefix(name, channel.AsRoot); ok {
		if !strings.HasPrefix(inner, "fs.") || inner == channel.FSWatch { // which is work of several threads
			return nil, nil, unknownCall(name)
		}
		if s.root.keeper != nil {
			return s.root.keeper.callKeeper(ctx, channel.Call{Name: inner, Body: body}, files)
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

// holdFiles keeps files until the host has taken those of id.
func (s *server) holdFiles(id uint64, files []*os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[id] = files
}

// releaseFiles closes the files that are held for id.
func (s *server) releaseFiles(id uint64) {
	s.mu.Lock()
	files := s.held[id]
	delete(s.held, id)
	s.mu.Unlock()
	channel.CloseAll(files)
}

// boxCall performs the calls that concern the whole box.
func (s *server) boxCall(ctx context.Context, name string, _ json.RawMessage) (answer any, err error) {
	switch name {
	case "box.freeze":
		return nil, s.still.stopAll(ctx, s)
	case "box.thaw":
		return s.still.continueAll(s), nil
	default:
		return nil, unknownCall(name)
	}
}
