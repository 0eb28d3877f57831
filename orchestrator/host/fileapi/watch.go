package fileapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/coder/websocket"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

const (
	maxSubscribe = 1 << 20          // bytes of a message that subscribes
	maxNames     = 700 << 10        // bytes of the names in a subscription: a watcher takes one line of 1 MiB, in base64
	nameCost     = 16               // bytes that a name takes besides its own
	maxAsked     = 64               // subscriptions that have not been answered
	watchSend    = 30 * time.Second // a client that takes no event for so long is gone
)

// WatchFiles reports changes of files until the client leaves or the sprite's files are replaced: a watch does not keep a sprite
// awake, and ends when its sandbox is stopped or its files are replaced.
func (a *API) WatchFiles(w http.ResponseWriter, r *http.Request) error {
	if err := wire.CheckHandshake(r); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(a.Context) // not the request's: it ends with the handler, and the library says not to use it
	defer cancel()
	watcher, err := a.startWatch(ctx, r)
	if err != nil {
		return err
	}
	defer watcher.stop()
	conn, err := wire.AcceptSocket(w, r)
	if err != nil {
		return nil // accept has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxSubscribe)
	c := fileWatch{ws: conn, watcher: watcher, asked: make(chan []string, maxAsked)}
	var helpers sync.WaitGroup
	helpers.Go(func() {
		c.readSubscriptions(ctx)
		cancel()
		watcher.conn.Close()
	})
	helpers.Go(func() { wire.KeepAlive(ctx, conn, a.PingEvery) })
	if c.sendEvents(ctx) && ctx.Err() == nil {
		conn.Close(websocket.StatusGoingAway, "the sprite's files are gone: it was stopped, restored or deleted")
	}
	cancel()
	conn.CloseNow()
	helpers.Wait()
	return nil
}

// fileWatcher watches a sprite's files and reports their changes over conn.
type fileWatcher struct {
	conn  net.Conn
	stop  func()       // ends it and waits for it; may be called again
	ended func() error // why it ended; after stop
}

// startWatch starts a watcher of the sprite that r names. It ends with ctx at the latest.
func (a *API) startWatch(ctx context.Context, r *http.Request) (fileWatcher, error) {
	if a.confiner.Confined().Level() == spec.LevelProcess {
		return a.watchRooted(ctx, r)
	}
	_, box, done, err := a.sprites.Use(r.Context(), r.PathValue("name"))
	if err != nil {
		return fileWatcher{}, err
	}
	defer done()
	return newFileWatcher(func(theirs *os.File) error { return box.Files().Watch(ctx, theirs) })
}

// watchRooted watches where the host does it: until a caller wants the sprite's files alone.
func (a *API) watchRooted(ctx context.Context, r *http.Request) (fileWatcher, error) {
	s, rec, leave, err := a.sprites.Enter(r.Context(), r.PathValue("name"), 1)
	if err != nil {
		return fileWatcher{}, err
	}
	defer leave()
	tree, err := a.openRooted(rec)
	if err != nil {
		return fileWatcher{}, err
	}
	wanted := s.WantedAlone() // while no call can have passed the gate alone: a later one closes it
	return newFileWatcher(func(theirs *os.File) error {
		defer tree.close()
		conn, err := net.FileConn(theirs)
		if err != nil {
			return err
		}
		over, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(over, func() { conn.Close() })()
		var bell sync.WaitGroup
		bell.Go(func() {
			select {
			case <-wanted:
			case <-over.Done():
			}
			conn.Close()
		})
		err = files.Watch(tree, conn)
		cancel()
		bell.Wait()
		return err
	})
}

// newFileWatcher runs watch with one end of a socket and keeps the other.
func newFileWatcher(watch func(theirs *os.File) error) (fileWatcher, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return fileWatcher{}, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "watch"), os.NewFile(uintptr(fds[1]), "watch")
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		theirs.Close()
		return fileWatcher{}, err
	}
	var work sync.WaitGroup
	var failed error
	work.Go(func() {
		failed = watch(theirs)
		theirs.Close()
	})
	w := fileWatcher{conn: conn, stop: func() {
		conn.Close()
		work.Wait()
	}}
	w.ended = func() error {
		work.Wait()
		return failed
	}
	return w, nil
}

// fileWatch connects a client with a watcher.
type fileWatch struct {
	ws      *websocket.Conn
	watcher fileWatcher
	asked   chan []string // the paths of subscriptions that the watcher has not answered
}

// readSubscriptions passes on the client's subscriptions until it leaves. Other messages are ignored.
func (c *fileWatch) readSubscriptions(ctx context.Context) {
	for {
		_, message, err := wire.NextMessage(ctx, c.ws)
		if err != nil {
			return
		}
		text, err := io.ReadAll(message)
		if err != nil {
			return
		}
		var in struct {
			Type       string   `json:"type"`
			Paths      []string `json:"paths"`
			Recursive  bool     `json:"recursive"`
			WorkingDir string   `json:"workingDir"`
		}
		if json.Unmarshal(text, &in) != nil || in.Type != "subscribe" {
			continue
		}
		names, ok := watchedNames(in.Paths, in.WorkingDir)
		if !ok {
			if !c.sendEvent(ctx, sprites.FileEvent{Type: string(files.Failed), Message: fmt.Sprintf("the names of a subscription are longer than %d bytes: subscribe to them in parts", maxNames), Timestamp: time.Now().UTC()}) {
				return
			}
			continue
		}
		s := files.Subscription{Recursive: in.Recursive}
		for _, name := range names {
			s.Paths = append(s.Paths, []byte(name))
		}
		select {
		case c.asked <- names:
		case <-ctx.Done():
			return
		}
		if json.NewEncoder(c.watcher.conn).Encode(s) != nil {
			return
		}
	}
}

// watchedNames returns the absolute names of a subscription; false when they are too long together. Each holds the folder that the
// client works in, so that a short message could ask for more names than fit into memory.
func watchedNames(paths []string, workingDir string) (names []string, ok bool) {
	size := 0
	for _, p := range paths {
		name := fileName(p, workingDir)
		if size += len(name) + nameCost; size > maxNames {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// sendEvents passes on the watcher's events, and reports whether the watcher ended. Output of a sandbox is not trusted: a line
// that is too long, or not an event, ends the watch.
func (c *fileWatch) sendEvents(ctx context.Context) (ended bool) {
	lines := bufio.NewScanner(c.watcher.conn)
	lines.Buffer(make([]byte, 4<<10), files.MaxEvent)
	for lines.Scan() {
		var e files.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			return true
		}
		out := sprites.FileEvent{Type: string(e.Type), Path: string(e.Path), Timestamp: e.Time.UTC()}
		switch e.Type {
		case files.Subscribed:
			select {
			case out.Paths = <-c.asked:
			default: // an answer to nothing
				return true
			}
		case files.Changed:
			out.Event, out.Size, out.IsDir = e.Event, e.Size, e.IsDir
		case files.Failed:
			out.Message = e.Text
		}
		if !c.sendEvent(ctx, out) {
			return false
		}
	}
	if ctx.Err() == nil {
		c.watcher.conn.Close()
		if errors.Is(c.watcher.ended(), syscall.EMFILE) {
			c.sendEvent(ctx, sprites.FileEvent{Type: string(files.Failed), Message: "too many watches of this sprite at a time: end one first", Timestamp: time.Now().UTC()})
		}
	}
	return true
}

func (c *fileWatch) sendEvent(ctx context.Context, e sprites.FileEvent) bool {
	text, err := json.Marshal(e)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, watchSend)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, text) == nil
}
