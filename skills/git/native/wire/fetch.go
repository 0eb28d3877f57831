package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// Wanted says what to fetch.
type Wanted struct {
	IDs   []ID
	Depth int // 0 is all
	Said  func(text string)
}

// Pack is an answer to Fetch: the pack as a stream, and the commits whose parents are not in it.
type Pack struct {
	io.ReadCloser
	Shallow []ID
}

// Fetch asks for objects of which nothing is here yet.
func (c *Conn) Fetch(ctx context.Context, want Wanted) (*Pack, error) {
	if want.Depth > 0 && !c.Can("shallow") {
		return nil, fmt.Errorf("%w: it gives no shallow history", ErrRefused)
	}
	answer, err := c.transport.exchange(ctx, func(w io.Writer) error { return c.ask(w, want) })
	if err != nil {
		return nil, err
	}
	r := buffered(answer)
	p := &Pack{}
	if want.Depth > 0 {
		if p.Shallow, err = readShallow(r); err != nil {
			return nil, errors.Join(err, answer.Close())
		}
	}
	if err := readNAK(r); err != nil {
		return nil, errors.Join(err, answer.Close())
	}
	p.ReadCloser = body{c.demux(r, want.Said), answer}
	return p, nil
}

func (c *Conn) ask(w io.Writer, want Wanted) error {
	var caps []string
	for _, name := range []string{"ofs-delta", c.sideband(), "shallow"} {
		if name != "" && c.Can(name) && (name != "shallow" || want.Depth > 0) {
			caps = append(caps, name)
		}
	}
	if want.Said == nil && c.Can("no-progress") {
		caps = append(caps, "no-progress")
	}
	if c.Can("agent") {
		caps = append(caps, agent)
	}
	for i, id := range want.IDs {
		end := "\n"
		if i == 0 {
			end = " " + strings.Join(caps, " ") + "\n"
		}
		if err := line(w, "want %s%s", id, end); err != nil {
			return err
		}
	}
	if want.Depth > 0 {
		if err := line(w, "deepen %d\n", want.Depth); err != nil {
			return err
		}
	}
	if err := flush(w); err != nil {
		return err
	}
	return line(w, "done\n")
}

// sideband is the capability by which progress and data share the connection, "" for none.
func (c *Conn) sideband() string {
	for _, name := range []string{"side-band-64k", "side-band"} {
		if c.Can(name) {
			return name
		}
	}
	return ""
}

// demux takes the data out of what the remote says.
func (c *Conn) demux(r io.Reader, said func(string)) io.Reader {
	kind := c.sideband()
	if kind == "" {
		return r
	}
	t := sideband.Sideband64k
	if kind == "side-band" {
		t = sideband.Sideband
	}
	d := sideband.NewDemuxer(t, r)
	if said != nil {
		d.Progress = teller(said)
	}
	return told{d}
}

// told gives the errors of a stream their names.
type told struct{ r io.Reader }

func (t told) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if text, ok := strings.CutPrefix(err.Error(), "unexpected error: "); ok {
		return n, fmt.Errorf("%w: %s", ErrRefused, strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")))
	}
	return n, spoken(err)
}

// teller passes progress on.
type teller func(string)

func (t teller) Write(p []byte) (int, error) {
	t(string(p))
	return len(p), nil
}

// readShallow reads which commits come without parents.
func readShallow(r io.Reader) ([]ID, error) {
	var list []ID
	s := pktline.NewScanner(r)
	for s.Scan() {
		text := strings.TrimSuffix(string(s.Bytes()), "\n")
		if text == "" {
			return list, nil
		}
		if id, ok := strings.CutPrefix(text, "shallow "); ok && len(id) == 40 && plumbing.IsHash(id) {
			list = append(list, plumbing.NewHash(id))
		} else if !strings.HasPrefix(text, "unshallow ") {
			return nil, fmt.Errorf("%w: it told %.80q where shallow commits belong", ErrRefused, text)
		}
	}
	return nil, spoken(s.Err())
}

// readNAK reads the end of the negotiation, in which there was nothing to negotiate.
func readNAK(r io.Reader) error {
	s := pktline.NewScanner(r)
	if !s.Scan() {
		return spoken(s.Err())
	}
	if text := strings.TrimSpace(string(s.Bytes())); text != "NAK" && !strings.HasPrefix(text, "ACK ") {
		return fmt.Errorf("%w: it told %.80q before the pack", ErrRefused, text)
	}
	return nil
}
