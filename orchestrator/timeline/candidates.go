package timeline

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Candidates folds the journal of a run into the attempts that it makes side by side: the items of its MAPs with a copy of the sprite
// each. Start with [Candidates.Add].
type Candidates struct {
	// Run and Sprite are those of the run, and Nodes are the MAPs.
	Run, Sprite string
	Nodes       []string

	steps *Timeline
	epoch int
	begun map[string]*attempt // by path
}

// attempt is a candidate and where it began.
type attempt struct {
	api.Candidate
	copied string // the name of its copy
}

// Add takes the next entry. It never fails.
func (c *Candidates) Add(e lattice.Entry) error {
	if c.steps == nil {
		c.steps, c.begun = New(), map[string]*attempt{}
	}
	c.steps.Add(e)
	if e.Kind != lattice.EntryFact {
		return nil
	}
	fact, err := lattice.DecodeFact(e.Type, e.Body)
	if err != nil {
		return nil // of a newer lattice
	}
	switch f := fact.(type) {
	case lattice.Rewound:
		c.epoch++
	case lattice.CallFinished:
		if a := c.find(lattice.IterationPath(f.CommandID)); a != nil {
			a.take(f)
		}
	case lattice.Prepared: // its copy is made, after a rewind once more
		path := lattice.IterationPath(f.CommandID)
		if a := c.find(path); a != nil && !strings.Contains(path, "/") {
			*a = attempt{Candidate: api.Candidate{Try: a.Try}, copied: lattice.CopyName(c.Sprite, c.Run, c.epoch, path)}
		}
	}
	return nil
}

// find returns the candidate of an iteration, which may be inside of one; nil of others.
func (c *Candidates) find(path string) *attempt {
	top, _, _ := strings.Cut(path, "/")
	node, index, ok := strings.Cut(strings.TrimSuffix(top, "]"), "[")
	try, err := strconv.Atoi(index)
	if !ok || err != nil || !slices.Contains(c.Nodes, node) {
		return nil
	}
	if c.begun[top] == nil {
		c.begun[top] = &attempt{Candidate: api.Candidate{Try: try}}
	}
	return c.begun[top]
}

// take notes the outcome of a call, by its members: tests, the use of an agent, or a change.
func (a *attempt) take(f lattice.CallFinished) {
	data := f.Data
	if !f.OK && f.Fault != nil {
		data = f.Fault.Details
	}
	var d struct {
		Status string `json:"status"`
		Counts *struct{ Total, Failed int }
		Patch  *string
		spent
		Inherited spent // taken by another call
	}
	if json.Unmarshal(data, &d) != nil {
		return
	}
	if d.Counts != nil {
		a.Tests = &api.CandidateTests{Status: d.Status, Total: d.Counts.Total, Failed: d.Counts.Failed}
	}
	if d.Patch != nil {
		a.Patch = *d.Patch
	}
	a.CostUSD += d.Cost.USD - d.Inherited.Cost.USD
	a.Tokens += d.tokens() - d.Inherited.tokens()
}

// spent is what an agent says that it took.
type spent struct {
	Cost  struct{ USD float64 }
	Usage struct{ Input, Output int64 }
}

func (s spent) tokens() int64 { return s.Usage.Input + s.Usage.Output }

// List returns the candidates in their order. exists tells which copies there are, with their URLs.
func (c *Candidates) List(exists func(sprite string) (url string, ok bool)) []api.Candidate {
	list := []api.Candidate{}
	if c.steps == nil {
		return list
	}
	for _, s := range c.steps.All() {
		a := c.find(s.Path())
		if a == nil || strings.Contains(s.Path(), "/") {
			continue
		}
		a.State, a.Node, a.Message = string(s.State), s.Node, s.Message
	}
	for _, a := range c.begun {
		if url, ok := exists(a.copied); ok {
			a.Sprite, a.URL = a.copied, url
		}
		list = append(list, a.Candidate)
	}
	slices.SortFunc(list, func(a, b api.Candidate) int { return a.Try - b.Try })
	return list
}
