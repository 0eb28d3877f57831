package travel

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Shells is a Reviewer that opens shells in copies of runs' sprites (api.PastFiles).
type Shells struct {
	*Reviewer
	Record func(ctx context.Context, kind audit.Kind, subject, key string, body any) error

	open atomic.Int32
}

// maxShells bounds the shells that are open; each has a sprite.
const maxShells = 8

// ServeShell serves a shell until either side ends it (api.PastFiles). The audit log names the person before it begins.
func (s *Shells) ServeShell(w http.ResponseWriter, r *http.Request, id, at string, rows, cols int) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return fault.BadInput("bad_request", "a shell is opened over a WebSocket")
	}
	defer s.open.Add(-1)
	if s.open.Add(1) > maxShells {
		return fault.Busy("too_many_shells", "%d shells are open", maxShells).WithHint("end one of them, or fork the run: lattice fork, then lattice sprite console")
	}
	ctx := r.Context()
	run, sprite, remove, err := s.copyMoment(ctx, id, at)
	if err != nil {
		return err
	}
	defer remove()
	if err := s.Record(ctx, audit.Sprite, "sprite:"+sprite, "", map[string]string{"call": "shell", "run_id": run, "at": at}); err != nil {
		return err
	}
	s.Client.Forward(w, r, sprite, sprites.Exec{Cmd: []string{"sh", "-c", sprites.Shell}, Dir: "/workspace", Env: []string{"TERM=xterm-256color"}, TTY: true, Rows: rows, Cols: cols, MaxRunAfterDisconnect: time.Second})
	return nil
}
