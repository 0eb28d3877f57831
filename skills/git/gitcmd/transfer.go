package gitcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Transfer follows the progress of a clone, fetch or push and ends git at a limit. A line of progress is such as
// "Receiving objects:  42% (1234/2938), 1.20 MiB | 2.00 MiB/s".
type Transfer struct {
	Ctx     context.Context // for git; canceled at a limit
	end     context.CancelCauseFunc
	limits  engine.Limits
	follow  engine.Follow
	Objects int64 // that the remote has announced
}

// receiving is the phase in which the objects of the remote arrive.
const receiving = "receiving"

// NewTransfer returns a Transfer. The caller must call Finish.
func NewTransfer(ctx context.Context, limits engine.Limits, follow engine.Follow) *Transfer {
	t := &Transfer{limits: limits, follow: follow}
	t.Ctx, t.end = context.WithCancelCause(ctx)
	return t
}

// Line takes one line of stderr.
func (t *Transfer) Line(line string) {
	p, ok := parseProgress(line)
	if !ok {
		return
	}
	if p.Phase == receiving {
		t.Objects = max(t.Objects, p.Total)
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

// Finish releases the context. It returns the limit that ended git, if any, else the error of git.
func (t *Transfer) Finish(gitErr error) error {
	if exceeded, ok := errors.AsType[*skill.Error](context.Cause(t.Ctx)); ok && exceeded.Exit == protocol.ExitLimit {
		gitErr = exceeded
	}
	t.end(nil)
	return gitErr
}

// parseProgress reads a line of progress; ok is false for any other line. The remote tells about its own phases; how many objects are
// received only git itself can say.
func parseProgress(line string) (engine.Progress, bool) {
	line, fromRemote := strings.CutPrefix(line, "remote: ")
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
	if fromRemote && p.Phase == receiving {
		return engine.Progress{}, false
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
