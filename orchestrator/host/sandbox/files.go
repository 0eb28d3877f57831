package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
)

const (
	// fsPatience is how long init may take to end an abandoned call. The caller is kept until then: who
	// replaces the sprite's files must know that no call is at work on the old ones.
	fsPatience = 2 * time.Minute
)

// Files gives access to the files of a box as its user sees them. Names are absolute and clean. Errors are those of the system
// calls, as of a process in the box; ErrDied says that the box has ended. A call does not return before init has ended it:
// when ctx ends, init is asked to give up, and a box whose init does not is ended.
type Files struct {
	box  *Box
	root bool
}

// Files returns the access to the box's files. It is for boxes with namespaces: a plain one has no view of its own.
func (b *Box) Files() Files { return Files{box: b} }

// AsRoot returns f with the rights of the box's root: it may change any file that it can name, as sudo may. A box without
// root answers EPERM.
func (f Files) AsRoot() Files { return Files{f.box, true} }

// Open opens a regular file for reading; anything else is EISDIR or EINVAL. The caller closes it, soon: while it is open the
// box's file system is in use. Its size and content are the box's business: they may change, and end, at any time.
func (f Files) Open(ctx context.Context, name string) (*os.File, int64, error) {
	received, err := f.callInit(ctx, channel.FSOpen, channel.FSTarget{Path: []byte(name)}, nil, nil)
	if err != nil {
		return nil, 0, err
	}
	if len(received) != 1 {
		channel.CloseAll(received)
		return nil, 0, fmt.Errorf("%s: init handed over %d files: %w", channel.FSOpen, len(received), syscall.EIO)
	}
	size, err := checkReceived(received[0])
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s: init handed over something else than a file: %w", channel.FSOpen, err), received[0].Close())
	}
	return received[0], size, nil
}

// Write replaces a file by the first size bytes of content, which is read from its start; see files.Write.
func (f Files) Write(ctx context.Context, name string, content *os.File, size int64, mode *fs.FileMode) (given fs.FileMode, err error) {
	_, err = f.callInit(ctx, channel.FSWrite, channel.FSTarget{Path: []byte(name), Size: size, Mode: mode}, []*os.File{content}, &given)
	return given & fs.ModePerm, err
}

// Do performs an operation and passes its entries to emit, whose error ends it. Entries come from init and are not trusted:
// there may be any number of them, with any names.
func (f Files) Do(ctx context.Context, op files.Op, emit files.Emit) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	defer w.Close()
	decoded := make(chan error, 1)
	go func() { // awaited below
		err := files.Decode(r, emit)
		if err != nil {
			r.Close() // the reader is gone: init stops at its next entry
		}
		decoded <- err
	}()
	stop := context.AfterFunc(ctx, func() { r.Close() })
	defer stop()
	_, err = f.callInit(ctx, channel.FSDo, op, []*os.File{w}, nil)
	w.Close() // init's copy is the last one
	if err != nil {
		r.Close()
		if failed := <-decoded; failed != nil && !errors.Is(failed, files.ErrCut) {
			return failed // the reason why init could not go on
		}
		return err
	}
	// All has been written, or else the end never comes.
	if r.SetReadDeadline(time.Now().Add(sendTimeout)) != nil {
		r.Close() // it is closed already
	}
	return <-decoded
}

// Watch has init talk over conn, one end of a stream socket, as files.Watch does, until the other end is closed, ctx ends or
// the box does. conn stays the caller's. More than a few at a time are EMFILE.
func (f Files) Watch(ctx context.Context, conn *os.File) error {
	_, err := f.box.callInit(ctx, channel.FSWatch, nil, []*os.File{conn}, nil)
	return err
}

// callInit is Box.call that returns only when init is done.
func (f Files) callInit(ctx context.Context, name string, in any, send []*os.File, out any) ([]*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var giveUp *time.Timer
	if f.root {
		name = channel.AsRoot + name
	}
	begun := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		giveUp = time.AfterFunc(fsPatience, func() { f.box.endInit(fmt.Errorf("%s: init does not end it", name)) })
		close(begun)
	})
	received, err := f.box.callInit(context.WithoutCancel(ctx), name, in, send, out)
	if !stop() {
		<-begun
		giveUp.Stop()
	}
	return received, err
}
