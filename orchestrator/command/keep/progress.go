package keep

import (
	"io"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
)

// showStore returns a function that shows how far a work on the store has come.
func showStore(p *cli.Progress) func(api.StoreProgress) {
	return func(s api.StoreProgress) {
		if s.Of > 0 {
			p.ShowPart(s.Doing, s.Done, s.Of)
		}
	}
}

// counted counts the bytes that are written, and shows how many there are.
type counted struct {
	w    io.Writer
	n    uint64
	tell func(uint64)
}

// showBytes returns a writer to w that shows how many bytes of a total were written, 0 for a total that is not known.
func showBytes(w io.Writer, p *cli.Progress, doing string, total uint64) *counted {
	tell := func(n uint64) { p.Show(doing, n, total, cli.FormatSize) }
	tell(0)
	return &counted{w: w, tell: tell}
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += uint64(n)
	c.tell(c.n)
	return n, err
}
