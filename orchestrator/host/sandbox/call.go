package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
)

// callInit has init do name with in and waits. The answer is decoded into out, unless that is nil. The descriptors in send stay
// the caller's. Init is not trusted: out and the received descriptors may be anything of their form, so their reader checks.
//
// An error of init's satisfies errors.Is for its errno and the like of fs.ErrNotExist. When ctx ends, init is told and call
// returns at once; ErrDied says that the box has ended.
// A box that is frozen (Box.Freeze) is asked when it goes on.
func (b *Box) callInit(ctx context.Context, name string, in any, send []*os.File, out any) (received []*os.File, err error) {
	if err := b.waitAwake(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b.askInit(ctx, name, in, send, out)
}

func (b *Box) isFrozen() bool {
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
		return b.deathError()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// askInit does as callInit in a box that may be frozen.
func (b *Box) askInit(ctx context.Context, name string, in any, send []*os.File, out any) (received []*os.File, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("%s: encode: %w", name, err)
	}
	if len(body) > channel.MaxCall || len(send) > channel.MaxCallFDs {
		return nil, fmt.Errorf("%s: %d bytes and %d descriptors: %w", name, len(body), len(send), syscall.E2BIG)
	}
	select {
	case b.slots <- struct{}{}: // given back when the answer has come, or never once the box is gone
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", name, ctx.Err())
	case <-b.done:
		return nil, fmt.Errorf("%s: %w", name, b.deathError())
	}
	come := make(chan channel.Answer, 1)
	b.mu.Lock()
	b.lastID++
	id := b.lastID
	b.calls[id] = come
	b.mu.Unlock()

	fds := make([]int, len(send))
	for i, f := range send {
		fds[i] = int(f.Fd())
	}
	err = b.sendRequest(channel.Request{Op: channel.OpCall, ID: id, Call: &channel.Call{Name: name, Body: body}}, fds...)
	runtime.KeepAlive(send)
	if err != nil {
		b.mu.Lock()
		_, open := b.calls[id]
		delete(b.calls, id)
		b.mu.Unlock()
		if open {
			<-b.slots
		} else { // a hostile init answered a call that it did not get, which gave the slot back
			channel.CloseAll((<-come).Files)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	select {
	case a := <-come:
		return b.decodeResult(a, name, out)
	case <-ctx.Done():
		b.abandonCall(id, come)
		return nil, fmt.Errorf("%s: %w", name, ctx.Err())
	case <-b.done:
	}
	select { // the answer may have come first
	case a := <-come:
		return b.decodeResult(a, name, out)
	default:
		return nil, fmt.Errorf("%s: %w", name, b.deathError())
	}
}

// abandonCall gives up a call whose answer may be on its way.
func (b *Box) abandonCall(id uint64, come <-chan channel.Answer) {
	b.mu.Lock()
	_, waiting := b.calls[id]
	if waiting {
		b.calls[id] = nil // the answer is to be dropped, and only then is there room for another call
	}
	b.mu.Unlock()
	if waiting {
		_ = b.sendRequest(channel.Request{Op: channel.OpCancel, ID: id}) // a box that no longer listens ends by this
		return
	}
	late := <-come // delivered just now
	channel.CloseAll(late.Files)
	if len(late.Held) > 0 {
		b.refuseHeld(id)
	}
}

// deliverAnswer brings an answer to its call. The call may not exist: init may be controlled by a program in the box.
func (b *Box) deliverAnswer(r channel.Reply, files []*os.File) {
	b.mu.Lock()
	come, known := b.calls[r.ID]
	delete(b.calls, r.ID)
	b.mu.Unlock()
	if known {
		<-b.slots
	}
	if come == nil || len(files) > channel.MaxCallFDs {
		channel.CloseAll(files)
		files = nil
	}
	if come != nil {
		come <- channel.Answer{Reply: r, Files: files}
	} else if known && len(r.Held) > 0 {
		b.refuseUnheard(r.ID)
	}
}

// decodeResult decodes an answer, and takes over the descriptors that init holds for it.
func (b *Box) decodeResult(a channel.Answer, name string, out any) ([]*os.File, error) {
	if len(a.Held) > 0 {
		channel.CloseAll(a.Files)
		var err error
		if a.Files, err = b.fetchFiles(a.Reply); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if a.Code != 0 || a.Error != "" {
		channel.CloseAll(a.Files)
		return nil, answered{a.Code, a.Error}
	}
	if out == nil {
		return a.Files, nil
	}
	if err := json.Unmarshal(a.Body, out); err != nil {
		channel.CloseAll(a.Files)
		return nil, fmt.Errorf("%s: decode the answer: %w", name, err)
	}
	return a.Files, nil
}
