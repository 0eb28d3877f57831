package reach

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A proxy socket is one TCP connection to a port of a sprite:
//
//	client → server   text {"host","port","half_close"?}, then binary: the bytes to the port
//	server → client   text {"status":"connected","target"}, then binary: the bytes from it
//
// Either end of the connection closes the socket. A client that says half_close and is answered half_close may end its
// direction alone, and is told when the other end has ended its own, by text {"type":"eof"}.
const (
	proxyInit    = 10 * time.Second // for the first message
	maxProxyInit = 4 << 10
	proxyChunk   = 32 << 10
	maxProxies   = 512 // of one sprite at once
)

// Proxy connects a client with a port of the sprite, which it wakes and keeps awake until the end.
func (a *API) Proxy(w http.ResponseWriter, r *http.Request) error {
	if err := wire.CheckHandshake(r); err != nil {
		return err
	}
	s, leave, err := a.reachSprite(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	defer leave()
	closed, ok := s.OpenProxy(maxProxies)
	if !ok {
		return wire.Refuse(http.StatusTooManyRequests, "too_many_connections", fmt.Sprintf("the sprite has %d connections through the proxy; close some", maxProxies))
	}
	defer closed()
	conn, err := wire.AcceptSocket(w, r)
	if err != nil {
		return nil // accept has answered
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(a.Context)
	defer cancel()
	in, err := readProxyInit(ctx, conn)
	if err != nil {
		conn.Close(websocket.StatusUnsupportedData, err.Error())
		return nil
	}
	tcp, err := a.dialSprite(ctx, r.PathValue("name"), net.JoinHostPort(in.Host, strconv.Itoa(in.Port)))
	if err != nil {
		a.Config.Log.Debug().Err(err).Str("sprite", s.Name).Msg("proxy")
		conn.Close(websocket.StatusInternalError, "Failed to connect to target")
		return nil
	}
	defer tcp.Close()
	if !wire.SendControl(ctx, conn, sprites.ProxyAnswer{Status: "connected", Target: tcp.RemoteAddr().String(), HalfClose: in.HalfClose}) {
		return nil
	}
	relaySocket(ctx, conn, tcp, in.HalfClose)
	return nil
}

// reachSprite wakes a sprite and keeps it awake until leave, without keeping it from being restored.
func (a *API) reachSprite(ctx context.Context, name string) (s *fleet.Sprite, leave func(), err error) {
	s, _, done, err := a.sprites.Use(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	release, err := s.Hold()
	return s, release, err
}

// dialSprite connects to a port of a sprite, whose sandbox it starts when need be.
func (a *API) dialSprite(ctx context.Context, name, addr string) (net.Conn, error) {
	_, box, done, err := a.sprites.Use(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done()
	return box.Dial(ctx, "tcp", addr)
}

func readProxyInit(ctx context.Context, conn *websocket.Conn) (in sprites.ProxyInit, err error) {
	ctx, cancel := context.WithTimeout(ctx, proxyInit)
	defer cancel()
	typ, message, err := conn.Reader(ctx)
	if err != nil {
		return in, errors.New("no first message came")
	}
	data, err := io.ReadAll(io.LimitReader(message, maxProxyInit+1))
	switch {
	case err != nil || typ != websocket.MessageText || len(data) > maxProxyInit || json.Unmarshal(data, &in) != nil:
		return in, errors.New(`the first message must be {"host","port"}`)
	case in.Port < 1 || in.Port > 65535:
		return in, errors.New("port must be between 1 and 65535")
	}
	in.Host = cmp.Or(in.Host, "localhost")
	return in, nil
}

// relaySocket copies both ways until both have ended, or either where an end cannot be told alone. Neither direction reads
// faster than the other side takes.
func relaySocket(ctx context.Context, conn *websocket.Conn, tcp net.Conn, half bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The library says not to end a read by its context; closing ends both.
	defer context.AfterFunc(ctx, func() { tcp.Close(); conn.CloseNow() })()
	var up, after sync.WaitGroup
	up.Go(func() {
		if !toSprite(ctx, conn, tcp) {
			cancel() // the other direction has no reader, either
			return
		}
		after.Go(func() {
			wire.IgnoreMessages(ctx, conn) // a loss is seen only by who reads
			cancel()
		})
	})
	if fromSprite(ctx, conn, tcp) {
		if half && wire.SendControl(ctx, conn, sprites.ProxyNote{Type: "eof"}) {
			up.Wait()
		}
		conn.Close(websocket.StatusNormalClosure, "")
	}
	cancel()
	tcp.Close()
	conn.CloseNow()
	up.Wait()
	after.Wait()
}

// toSprite copies the client's data; true when the client has ended its direction alone.
func toSprite(ctx context.Context, conn *websocket.Conn, tcp net.Conn) bool {
	buf := make([]byte, proxyChunk)
	for {
		typ, message, err := wire.NextMessage(ctx, conn)
		if err != nil {
			return false
		}
		if typ == websocket.MessageBinary {
			_, err = io.CopyBuffer(onlyWriter{tcp}, message, buf)
			if err != nil {
				return false
			}
			continue
		}
		data, err := io.ReadAll(io.LimitReader(message, wire.MaxControl))
		var note sprites.ProxyNote
		if err != nil {
			return false
		}
		if json.Unmarshal(data, &note) == nil && note.Type == "eof" {
			closer, ok := tcp.(interface{ CloseWrite() error })
			return ok && closer.CloseWrite() == nil
		}
	}
}

// onlyWriter hides a connection's ReadFrom, which would copy with a buffer of its own.
type onlyWriter struct{ io.Writer }

// fromSprite copies the port's data; true when it has ended and all of it was sent.
func fromSprite(ctx context.Context, conn *websocket.Conn, tcp net.Conn) bool {
	buf := make([]byte, proxyChunk)
	for {
		n, err := tcp.Read(buf)
		if n > 0 && conn.Write(ctx, websocket.MessageBinary, buf[:n]) != nil {
			return false
		}
		if err != nil {
			return err == io.EOF
		}
	}
}
