package wire

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// Command moves one ref of the remote, which must be at Old; a zero New deletes it.
type Command struct {
	Name     string
	Old, New ID
}

// Push sends commands and, unless all delete, the pack that write sends. It returns for each ref that the remote refused
// the reason.
func (c *Conn) Push(ctx context.Context, commands []Command, write func(io.Writer) error, said func(string)) (map[string]string, error) {
	if !c.Can("report-status") {
		return nil, fmt.Errorf("%w: it does not report what becomes of a push", ErrRefused)
	}
	answer, err := c.transport.exchange(ctx, func(w io.Writer) error { return c.command(w, commands, write) })
	if err != nil {
		return nil, err
	}
	var r io.Reader = buffered(answer)
	if c.sideband() != "" {
		r = c.demux(r, said)
	}
	defer answer.Close()
	return readReport(r)
}

func (c *Conn) command(w io.Writer, commands []Command, write func(io.Writer) error) error {
	caps := []string{"report-status"}
	if name := c.sideband(); name != "" {
		caps = append(caps, name)
	}
	if c.Can("agent") {
		caps = append(caps, agent)
	}
	pack := false
	for i, cmd := range commands {
		end := ""
		if i == 0 {
			end = "\x00 " + strings.Join(caps, " ")
		}
		if err := line(w, "%s %s %s%s", cmd.Old, cmd.New, cmd.Name, end); err != nil {
			return err
		}
		pack = pack || !cmd.New.IsZero()
	}
	if err := flush(w); err != nil || !pack {
		return err
	}
	return write(w)
}

// readReport reads "unpack ok", then "ok REF" or "ng REF REASON" for each ref.
func readReport(r io.Reader) (map[string]string, error) {
	refused := map[string]string{}
	s := pktline.NewScanner(r)
	for first := true; s.Scan(); first = false {
		text := strings.ToValidUTF8(strings.TrimSuffix(string(s.Bytes()), "\n"), "\uFFFD")
		switch {
		case text == "":
			return refused, nil
		case first && text != "unpack ok":
			return nil, fmt.Errorf("%w: %s", ErrRefused, text)
		case strings.HasPrefix(text, "ng "):
			name, reason, _ := strings.Cut(text[3:], " ")
			refused[name] = reason
		}
	}
	return nil, spoken(s.Err())
}
