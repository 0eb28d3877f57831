package gitcmd

import (
	"testing"

	"github.com/spritekit/lattice/skills/git/engine"
)

// TestTransfer has lines that git prints, and those with which a remote would forge them.
func TestTransfer(t *testing.T) {
	t.Parallel()
	const git = "Receiving objects:  50% (2/4), 1.50 MiB | 2.00 MiB/s"
	for line, want := range map[string]struct {
		progress engine.Progress
		objects  int64 // that the transfer counts
	}{
		git: {engine.Progress{Phase: "receiving", Percent: 50, Objects: 2, Total: 4, Bytes: 3 << 19}, 4},
		"remote: Compressing objects: 100% (3/3), done.":  {engine.Progress{Phase: "compressing", Percent: 100, Objects: 3, Total: 3}, 0},
		"remote: Resolving deltas: 100% (1/1)":            {engine.Progress{Phase: "resolving", Percent: 100, Objects: 1, Total: 1}, 0},
		"Updating files:  10% (1/10)":                     {engine.Progress{Phase: "checkout", Percent: 10, Objects: 1, Total: 10}, 0},
		"remote: Receiving objects:  50% (2/4000)":        {},
		"remote: receiving:  50% (2/4000)":                {},
		"remote: remote: Receiving objects: 50% (2/4000)": {},
		"remote: RECEIVING\tobjects: 50% (2/4000)":        {engine.Progress{Phase: "receiving\tobjects", Percent: 50, Objects: 2, Total: 4000}, 0},
		"fatal: the remote end hung up":                   {},
	} {
		var got engine.Progress
		transfer := NewTransfer(t.Context(), engine.Limits{MaxObjects: 100}, func(p engine.Progress) { got = p })
		transfer.Line(line)
		if err := transfer.Finish(nil); got != want.progress || transfer.Objects != want.objects || err != nil {
			t.Errorf("%q = %+v with %d objects, %v, want %+v", line, got, transfer.Objects, err, want)
		}
	}
}
