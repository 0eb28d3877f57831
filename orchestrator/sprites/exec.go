package sprites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const dialTimeout = 30 * time.Second

// Exec runs a command in the sprite and returns its exit code; 128+n after signal n, 127 or 126 when it could not be
// started. All output has been written when Exec returns. Without an exit from the server the error is a *LostError;
// when ctx ends, too: the command is then not signalled, only disconnected. Nothing is ever run twice.
func (c *Client) Exec(ctx context.Context, name string, e Exec) (int, error) {
	if len(e.Cmd) == 0 {
		return 0, fmt.Errorf("exec in %s: no command given", name)
	}
	env, err := c.completeEnv(ctx, name, e.Env)
	if err != nil {
		return 0, describeError(err, "exec %s in %s", e.Cmd[0], name)
	}
	conn, err := c.dialExec(ctx, spritePath(name, "exec")+"?"+e.execQuery(env).Encode())
	if Uncertain(err) && !failedByItself(err) {
		err = &LostError{Err: err}
	}
	if err != nil {
		return 0, describeError(err, "exec %s in %s", e.Cmd[0], name)
	}
	code, err := c.streamExec(ctx, conn, e, e.TTY)
	return code, describeError(err, "exec %s in %s", e.Cmd[0], name)
}

// failedByItself reports whether the server itself failed to start a command, as opposed to a proxy that lost the answer.
func failedByItself(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.Status == http.StatusInternalServerError
}

// execQuery is how the API takes a command.
func (e Exec) execQuery(env []string) url.Values {
	q := url.Values{"cmd": e.Cmd, "path": {e.Cmd[0]}, "env": env, "stdin": {strconv.FormatBool(e.Stdin != nil || e.TTY)}}
	if e.Dir != "" {
		q.Set("dir", e.Dir)
	}
	if e.TTY {
		q.Set("tty", "true")
		if e.Rows > 0 && e.Cols > 0 {
			q.Set("rows", strconv.Itoa(e.Rows))
			q.Set("cols", strconv.Itoa(e.Cols))
		}
	}
	if e.MaxRunAfterDisconnect > 0 {
		q.Set("max_run_after_disconnect", e.MaxRunAfterDisconnect.String())
	} else if e.MaxRunAfterDisconnect < 0 {
		q.Set("max_run_after_disconnect", "0")
	}
	return q
}

// Attach joins a running session: its recent output, then the output that follows. Cmd, Env and Dir of e are not used, TTY is
// taken from the session. A session that is gone is [ErrNotFound].
func (c *Client) Attach(ctx context.Context, name, session string, e Exec) (int, error) {
	var conn *websocket.Conn
	err := c.retrySafely(ctx, true, func() (err error) { // joining twice is joining once
		conn, err = c.dialOnce(ctx, spritePath(name, "exec", session))
		return err
	})
	if err != nil {
		return 0, describeError(err, "attach to session %s in %s", session, name)
	}
	code, err := c.streamExec(ctx, conn, e, e.TTY)
	return code, describeError(err, "attach to session %s in %s", session, name)
}

// Sessions lists the commands that run in the sprite.
func (c *Client) Sessions(ctx context.Context, name string) ([]Session, error) {
	var out struct {
		Count    *int            `json:"count"`
		Sessions listOf[Session] `json:"sessions"`
	}
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "exec")}, &out)
	switch {
	case err != nil:
	case !out.Sessions.told:
		err = fmt.Errorf("the answer has no list of sessions: %w", errOdd)
	case out.Count != nil && *out.Count != len(out.Sessions.items):
		err = fmt.Errorf("the answer counts %d sessions and lists %d: %w", *out.Count, len(out.Sessions.items), errOdd)
	}
	return out.Sessions.items, describeError(err, "list sessions of %s", name)
}

// Kill says how a session is to end.
type Kill struct {
	Signal  string        // "TERM", "KILL" …
	Timeout time.Duration // until a session that ignores the signal is killed; 0 = never: it is signalled only
}

// Kill signals a session's process group ("TERM", "KILL" …) and waits for its end; a session that ignores the signal is
// killed after ten seconds. A session that has ended already is no error.
func (c *Client) Kill(ctx context.Context, name, session, signal string) error {
	_, err := c.KillSession(ctx, name, session, Kill{Signal: signal, Timeout: killTimeout})
	return err
}

const killTimeout = 10 * time.Second

// KillSession is Kill with a patience of the caller's. The exit code is nil when it is not known: of a session that was
// signalled only, or had ended already. With a timeout above 0 no error means that the session has ended.
func (c *Client) KillSession(ctx context.Context, name, session string, k Kill) (code *int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+k.Timeout)
	defer cancel()
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		err = c.retrySafely(ctx, false, func() (err error) {
			code, err = c.killOnce(ctx, name, session, k)
			return err
		})
		if !Uncertain(err) || ctx.Err() != nil {
			break
		}
		// Whether it was heard, the list tells; a second signal is meant for the same process.
		running, failed := c.Sessions(ctx, name)
		if failed == nil && !slices.ContainsFunc(running, func(s Session) bool { return s.ID == session }) {
			return nil, nil
		}
		if c.o.Wait(ctx, c.retryDelay(attempt, err)) != nil {
			break
		}
	}
	return code, describeError(err, "kill session %s in %s", session, name)
}

func (c *transport) killOnce(ctx context.Context, name, session string, k Kill) (code *int, err error) {
	query := url.Values{"signal": {k.Signal}, "timeout": {k.Timeout.String()}}
	res, err := c.sendOnce(ctx, request{method: http.MethodPost, path: spritePath(name, "exec", session, "kill"), query: query})
	if api, ok := errors.AsType[*APIError](err); ok && api.Status == http.StatusGone {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	said, err := c.readProgress(res)
	return said.Exit, err
}

// dialExec opens an exec socket. It is tried again only when the command cannot have been started.
func (c *transport) dialExec(ctx context.Context, target string) (conn *websocket.Conn, err error) {
	err = c.retrySafely(ctx, false, func() error {
		conn, err = c.dialOnce(ctx, target)
		return err
	})
	return conn, err
}

func (c *transport) dialOnce(ctx context.Context, target string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	header := http.Header{}
	c.setAuthorization(header)
	hc := *c.hc
	hc.Transport = sentOnce{c.hc.Transport}
	conn, res, err := websocket.Dial(ctx, c.base+target, &websocket.DialOptions{HTTPClient: &hc, HTTPHeader: header})
	if err != nil {
		if res != nil && res.StatusCode != http.StatusSwitchingProtocols && res.StatusCode != 0 {
			return nil, readAPIError(res)
		}
		return nil, c.connError(err)
	}
	conn.SetReadLimit(maxMessage)
	c.mu.Lock()
	c.offers = res.Header.Get(capabilities)
	c.mu.Unlock()
	return conn, nil
}

// capabilities is the header in which a host lists its extensions of the API.
const capabilities = "X-Sprite-Capabilities"

// LiveCheckpoints is the capability of hosts whose checkpoints leave commands that run undisturbed, and take nothing of
// them that a restored sprite could trip over.
const LiveCheckpoints = "live-checkpoint"

// Offers reports whether the host said, at the last exec, that it has a capability.
func (c *Client) Offers(capability string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(strings.Split(c.offers, ","), func(s string) bool { return strings.TrimSpace(s) == capability })
}

// sentOnce keeps the HTTP client from repeating a handshake by itself. It does that with a GET whose kept connection
// ends before the answer, because a GET changes nothing; this one starts a command. A body, even an empty one, forbids it.
type sentOnce struct{ http.RoundTripper }

func (t sentOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	next := t.RoundTripper
	if next == nil {
		next = http.DefaultTransport
	}
	r = r.Clone(r.Context())
	r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader("")), nil, -1
	return next.RoundTrip(r)
}

// standardEnv are the variables of a sprite that a command needs: without them the shell finds no program and no home.
var standardEnv = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG"}

// defaultEnv is for sprites that do not say.
var defaultEnv = map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/home/sprite"}

// maxEnvironment bounds the sprite's answer: a program named env in it may print anything.
const maxEnvironment = 1 << 20

// environment is the answer as far as it came.
type environment struct{ text strings.Builder }

func (e *environment) Write(p []byte) (int, error) {
	if e.text.Len()+len(p) > maxEnvironment {
		return 0, fmt.Errorf("it is longer than %d bytes", maxEnvironment)
	}
	return e.text.Write(p)
}

// Environment returns those of a sprite's own variables that every command needs, PATH and HOME at least. The sprite is
// asked once.
func (c *Client) Environment(ctx context.Context, name string) ([]string, error) {
	c.mu.Lock()
	env := c.env[name]
	c.mu.Unlock()
	if env != nil {
		return env, nil
	}
	found := map[string]string{}
	maps.Copy(found, defaultEnv)
	var out environment
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	// Commands that are sent no variables get all of the sprite's own.
	_, err := c.Exec(ctx, name, Exec{Cmd: []string{"env", "-0"}, Stdout: &out, MaxRunAfterDisconnect: time.Second})
	if lost, ok := errors.AsType[*LostError](err); ok {
		err = lost.Err // the question is lost, not a command of the caller's
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the sprite's environment: %w", err)
	}
	for kv := range strings.SplitSeq(out.text.String(), "\x00") {
		if name, value, ok := strings.Cut(kv, "="); ok && value != "" && slices.Contains(standardEnv, name) {
			found[name] = value
		}
	}
	for _, name := range standardEnv {
		if value, ok := found[name]; ok {
			env = append(env, name+"="+value)
		}
	}
	c.mu.Lock()
	c.env[name] = env
	c.mu.Unlock()
	return env, nil
}

// completeEnv adds the sprite's own variables to those of an exec, which would replace them.
func (c *Client) completeEnv(ctx context.Context, name string, env []string) ([]string, error) {
	if !c.o.Remote || len(env) == 0 {
		return env, nil
	}
	own, err := c.Environment(ctx, name)
	if err != nil {
		return nil, err
	}
	given := func(kv string) bool {
		prefix, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, prefix+"=") })
	}
	return append(slices.DeleteFunc(slices.Clone(own), given), env...), nil
}
