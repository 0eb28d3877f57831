package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// maxRecord bounds what of git's output is held at a time, in bytes.
const maxRecord = 1 << 20

// records hands git's output on record by record, so that it is never held as a whole. A record that each refuses, or
// that is too long, ends it: the rest is read past, and err says why.
type records struct {
	end     byte
	each    func(record []byte) error // the bytes are valid until it returns
	partial []byte
	err     error
}

// Write never fails: git must not block.
func (r *records) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && r.err == nil; {
		i := bytes.IndexByte(rest, r.end)
		if i < 0 {
			if len(r.partial)+len(rest) > maxRecord {
				r.err = fmt.Errorf("read git's output: a record has more than %d bytes", maxRecord)
				break
			}
			r.partial = append(r.partial, rest...)
			break
		}
		record := rest[:i]
		if len(r.partial) > 0 {
			record = append(r.partial, record...)
			r.partial = r.partial[:0]
		}
		r.err = r.each(record)
		rest = rest[i+1:]
	}
	return len(p), nil
}

// finish reports what went wrong: git's own failure first.
func (r *records) finish(gitErr error) error {
	switch {
	case gitErr != nil:
		return gitErr
	case r.err == nil && len(r.partial) > 0:
		return fmt.Errorf("read git's output: it ends within a record")
	}
	return r.err
}

// transfer follows the progress of a clone, fetch or push, and ends one that passes a limit. Its lines are such as
// "Receiving objects:  42% (1234/2938), 1.20 MiB | 2.00 MiB/s".
type transfer struct {
	ctx     context.Context // for git; ended at a limit
	end     context.CancelCauseFunc
	limits  engine.Limits
	follow  engine.Follow
	objects int64
}

func newTransfer(ctx context.Context, limits engine.Limits, follow engine.Follow) *transfer {
	t := &transfer{limits: limits, follow: follow}
	t.ctx, t.end = context.WithCancelCause(ctx)
	return t
}

func (t *transfer) line(line string) {
	p, ok := parseProgress(line)
	if !ok {
		return
	}
	if p.Phase == "receiving" {
		t.objects = max(t.objects, p.Total)
		switch {
		case t.limits.MaxObjects > 0 && p.Total > t.limits.MaxObjects:
			t.end(engine.TooMany("the remote sends %d objects; the limit is %d", p.Total, t.limits.MaxObjects))
		case t.limits.MaxPackBytes > 0 && p.Bytes > t.limits.MaxPackBytes:
			t.end(engine.TooMany("the remote sends more than %d bytes", t.limits.MaxPackBytes))
		}
	}
	if t.follow != nil {
		t.follow(p)
	}
}

// finish ends the following. A limit that was passed is why git failed.
func (t *transfer) finish(gitErr error) error {
	var passed *skill.Error
	if errors.As(context.Cause(t.ctx), &passed) && passed.Exit == protocol.ExitLimit {
		gitErr = passed
	}
	t.end(nil)
	return gitErr
}

func parseProgress(line string) (engine.Progress, bool) {
	line = strings.TrimPrefix(line, "remote: ")
	title, rest, ok := strings.Cut(line, ":")
	percent, rest, hasPercent := strings.Cut(rest, "%")
	if !ok || !hasPercent {
		return engine.Progress{}, false
	}
	var p engine.Progress
	n, err := strconv.Atoi(strings.TrimSpace(percent))
	if err != nil {
		return engine.Progress{}, false
	}
	p.Percent = n
	if _, err := fmt.Sscanf(strings.TrimSpace(rest), "(%d/%d)", &p.Objects, &p.Total); err != nil {
		return engine.Progress{}, false
	}
	switch verb, _, _ := strings.Cut(strings.ToLower(title), " "); verb {
	case "updating":
		p.Phase = "checkout"
	default:
		p.Phase = verb // counting, compressing, receiving, resolving, writing
	}
	if _, after, ok := strings.Cut(rest, "), "); ok {
		p.Bytes = parseBytes(after)
	}
	return p, true
}

// parseBytes reads "1.20 MiB …".
func parseBytes(text string) int64 {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	amount, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return 0
	}
	for i, unit := range []string{"bytes", "KiB", "MiB", "GiB"} {
		if strings.HasPrefix(fields[1], unit) {
			return int64(amount * float64(int64(1)<<(10*i)))
		}
	}
	return 0
}
