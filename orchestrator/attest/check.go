package attest

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Checked is a statement of a journal, or of the note about a commit, and the problem that its check found.
type Checked struct {
	Seq       lattice.Seq `json:"seq"`       // its place in the journal, or its line in the note
	Statement string      `json:"statement"` // sha256 of the payload
	Problem   string      `json:"problem,omitempty"`
	Predicate Predicate   `json:"predicate"`
	Envelope  Envelope    `json:"envelope"`
}

// Green reports whether the statement is sound and says that the commit is green.
func (c Checked) Green() bool { return c.Problem == "" && c.Predicate.Verdict == Green }

// Check checks a journal and returns its statements in order. It fails if a fact of the journal was changed, removed or
// inserted. A statement that the key did not sign, or that contradicts the journal, has a problem.
func Check(journal []lattice.Entry, key ed25519.PublicKey) ([]Checked, error) {
	var all []Checked
	chain := ""
	reports := map[string]json.RawMessage{} // of calls, by id
	for _, e := range journal {
		if e.Kind != lattice.EntryFact {
			continue
		}
		if want := lattice.Chain(chain, e); e.Chain != want {
			return nil, fmt.Errorf("entry %d does not follow from those before it: it was changed, or others are missing", e.Seq)
		}
		chain = e.Chain
		fact, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return nil, err
		}
		switch f := fact.(type) {
		case lattice.CallFinished:
			reports[f.CallID] = f.Data
		case lattice.Attested:
			all = append(all, checkStatement(e, f, reports, key))
		}
	}
	return all, nil
}

// CheckNote checks the lines of the note about a commit with a tree, and returns its statements in order. A line that the key did not
// sign, or that is about another commit, has a problem: other installations write lines, and anyone who may push.
func CheckNote(lines []string, commit, tree string, key ed25519.PublicKey) (all []Checked) {
	for i, line := range lines {
		c := Checked{Seq: lattice.Seq(i + 1)}
		if err := json.Unmarshal([]byte(line), &c.Envelope); err != nil {
			c.Problem = "the envelope cannot be read"
		} else if s, err := c.Envelope.Open(key); err != nil {
			c.Problem = err.Error()
		} else if c.Predicate = s.Predicate; s.Predicate.Commit != commit || s.Predicate.Tree != tree {
			c.Problem = "it is about the commit " + s.Predicate.Commit
		}
		c.Statement = c.Envelope.Digest()
		all = append(all, c)
	}
	return all
}

// checkStatement checks one statement against the key and against the report in the journal.
func checkStatement(e lattice.Entry, f lattice.Attested, reports map[string]json.RawMessage, key ed25519.PublicKey) Checked {
	c := Checked{Seq: e.Seq, Statement: f.Statement}
	if err := json.Unmarshal(f.Envelope, &c.Envelope); err != nil {
		c.Problem = "the envelope cannot be read"
		return c
	}
	s, err := c.Envelope.Open(key)
	if err != nil {
		c.Problem = err.Error()
		return c
	}
	c.Predicate = s.Predicate
	p := s.Predicate
	report, found := reports[p.CallID]
	judged := Judge(lattice.Verification{Input: p.Input, Report: report})
	switch {
	case c.Envelope.Digest() != f.Statement:
		c.Problem = "the journal names another statement"
	case p.RunID != e.Run:
		c.Problem = "it is about the run " + p.RunID
	case f.Green != (p.Verdict == Green) || f.Commit != p.Commit:
		c.Problem = "the journal says otherwise"
	case !found:
		c.Problem = "the journal holds no report of the call " + p.CallID
	case p.Verdict == Green && (judged.Verdict != Green || judged.Commit != p.Commit || judged.Tree != p.Tree):
		c.Problem = "the report in the journal does not support it"
	}
	return c
}
