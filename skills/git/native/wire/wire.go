// Package wire talks to a remote: it asks for refs, fetches packs and pushes them, by git's protocol of version 0 over
// HTTP and git's own port. Start with Dial and Conn. The framing is go-git's; conversations, redirects and who gets to see
// a credential are decided here. It does not speak ssh: what that takes would weigh on the start of every skill.
//
// A credential is sent to the scheme, host and port of the remote alone. A redirect is followed only when a fetch begins,
// never to a less protected scheme, and takes no credential along to another host.
package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// ID names an object.
type ID = plumbing.Hash

// What a caller may want to tell apart. Anything else is the remote's own word.
var (
	ErrAuthentication = errors.New("the remote wants a credential")
	ErrNotRepository  = errors.New("there is no repository")
	ErrUnreachable    = errors.New("the remote cannot be reached")
	ErrRefused        = errors.New("the remote refused")
	ErrUntrusted      = errors.New("nobody vouches for the remote")
	ErrTransport      = errors.New("there is no transport for")
)

// The two conversations.
const (
	UploadPack  = "git-upload-pack"  // to fetch
	ReceivePack = "git-receive-pack" // to push
)

// agent is how this engine introduces itself.
const agent = "agent=git/lattice-native"

// Remote says where to dial and as whom.
type Remote struct {
	URL      string
	Protocol string // https, http, git: the only one that is used
	Username string
	Token    string   // for http and https; "" goes without
	Env      []string // proxies and whom to trust, NAME=value
}

// Ref is a ref of the remote.
type Ref struct {
	Name   string
	ID     ID
	Peeled ID // of an annotated tag
}

// Conn is a conversation that has begun: the remote has told its refs.
type Conn struct {
	Refs    []Ref
	Head    string // the ref that HEAD stands for, "" when the remote does not tell
	caps    map[string]string
	shallow bool

	transport transport
}

// transport carries one request: what write sends, the returned reader answers. For a stream it is the same connection
// that told the refs, for HTTP another request.
type transport interface {
	exchange(ctx context.Context, write func(io.Writer) error) (io.ReadCloser, error)
	io.Closer
}

// Dial begins a conversation.
func Dial(ctx context.Context, to Remote, service string) (*Conn, error) {
	var t transport
	var hello io.Reader
	var err error
	switch to.Protocol {
	case "http", "https":
		t, hello, err = dialHTTP(ctx, to, service)
	case "git":
		t, hello, err = dialGit(ctx, to, service)
	default:
		return nil, fmt.Errorf("%w %q", ErrTransport, to.Protocol)
	}
	if err != nil {
		return nil, err
	}
	c := &Conn{caps: map[string]string{}, transport: t}
	if err := c.listen(hello); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return c, nil
}

// Close ends the conversation.
func (c *Conn) Close() error { return c.transport.Close() }

// Can reports whether the remote knows a capability.
func (c *Conn) Can(name string) bool {
	_, ok := c.caps[name]
	return ok
}

// maxRefs bounds what a remote may tell of itself.
const maxRefs = 2 << 20

// listen reads the advertisement: "id SP name [NUL capabilities]" for each ref, then a flush.
func (c *Conn) listen(from io.Reader) error {
	s := pktline.NewScanner(from)
	for first := true; s.Scan(); {
		line := string(s.Bytes())
		if line == "" {
			return nil
		}
		line = strings.TrimSuffix(line, "\n")
		if first && strings.HasPrefix(line, "version ") {
			continue
		}
		if first {
			var caps string
			line, caps, _ = strings.Cut(line, "\x00")
			c.capabilities(caps)
			first = false
		}
		if strings.HasPrefix(line, "shallow ") {
			c.shallow = true
			continue
		}
		id, name, ok := strings.Cut(line, " ")
		if !ok || len(id) != 40 || !plumbing.IsHash(id) {
			return fmt.Errorf("%w: it told %.80q where a ref belongs", ErrNotRepository, line)
		}
		if name == "capabilities^{}" {
			continue
		}
		if tag, ok := strings.CutSuffix(name, "^{}"); ok {
			if n := len(c.Refs); n > 0 && c.Refs[n-1].Name == tag {
				c.Refs[n-1].Peeled = plumbing.NewHash(id)
			}
			continue
		}
		if len(c.Refs) == maxRefs {
			return fmt.Errorf("%w: it has more than %d refs", ErrRefused, maxRefs)
		}
		c.Refs = append(c.Refs, Ref{Name: name, ID: plumbing.NewHash(id)})
	}
	return spoken(s.Err())
}

func (c *Conn) capabilities(text string) {
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		c.caps[name] = value
		if target, ok := strings.CutPrefix(value, "HEAD:"); ok && name == "symref" {
			c.Head = target
		}
	}
}

// spoken turns what went wrong while reading into an error that says whose word it is.
func spoken(err error) error {
	var said *pktline.ErrorLine
	switch {
	case errors.As(err, &said):
		text := strings.ToValidUTF8(said.Text, "\uFFFD")
		for _, absent := range []string{"not found", "does not exist", "not exported", "no such repository", "access denied or repository"} {
			if strings.Contains(strings.ToLower(text), absent) {
				return fmt.Errorf("%w: %s", ErrNotRepository, text)
			}
		}
		return fmt.Errorf("%w: %s", ErrRefused, text)
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it stopped in the middle", ErrUnreachable)
	case errors.Is(err, pktline.ErrInvalidPktLen):
		return fmt.Errorf("%w: what it says is not git's protocol", ErrNotRepository)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// line frames one line.
func line(w io.Writer, format string, args ...any) error {
	return pktline.NewEncoder(w).Encodef(format, args...)
}

func flush(w io.Writer) error { return pktline.NewEncoder(w).Flush() }

// body closes the connection that a pack is read from.
type body struct {
	io.Reader
	io.Closer
}

func buffered(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 64<<10) }
