package access

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/text"
)

// refusal is the body of an entry about a refused request.
type refusal struct {
	Code string `json:"code"`
	From string `json:"from,omitempty"` // the first one: the host or the site that the request names
}

// RecordRefused records that a request was refused whose caller is not known, or which the page of another site may have sent.
// Anyone can send one, so that there is one entry for each reason and hour.
func (g *Gate) RecordRefused(ctx context.Context, code, from string) error {
	key := "web-refused:" + code + ":" + g.Now().UTC().Format("2006-01-02T15")
	g.mu.Lock()
	known := g.refused[key]
	if len(g.refused) > 100 {
		g.refused = nil // of former hours; the log has their keys
	}
	if g.refused == nil {
		g.refused = map[string]bool{}
	}
	g.refused[key] = true
	g.mu.Unlock()
	if known {
		return nil
	}
	ctx = caller.With(ctx, audit.Who{Name: "web", UID: -1})
	_, err := g.Facts.AddFact(ctx, audit.Entry{Kind: audit.WebRefused, Subject: "web", Key: key}, refusal{code, text.Head(text.Line(from), 100)}, store.Any)
	return err
}
