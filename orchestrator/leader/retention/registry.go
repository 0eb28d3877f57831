package retention

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/artifact"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Products lists artifacts of all runs, the newest first. Those of a course that a run left are not among them. A run that
// declared one several times has it once.
func (r *Artifacts) Products(_ context.Context, q api.ProductQuery) ([]artifact.Product, error) {
	if q.Run != "" {
		id, err := r.Records.Resolve(q.Run)
		if err != nil {
			return nil, err
		}
		q.Run = id
	}
	limit, known, found := cmp.Or(q.Limit, 100), map[string]*declarant{}, []artifact.Product{}
	listed, reached := map[[5]string]bool{}, q.Before == ""
	for e, err := range r.Store.Artifacts(q.Run) {
		if err != nil {
			return nil, fmt.Errorf("list artifacts: %w", err)
		}
		behind := reached
		reached = reached || q.Before == artifact.Product{RunID: e.Run, Seq: e.Seq}.Name()
		declared, ok := readArtifact(e)
		p := artifact.New(declared)
		if !ok {
			continue
		}
		if p.Kind == "file" {
			p.Report = r.readReport(e)
		}
		if q.Kind != "" && p.Kind != q.Kind && declared.Kind != q.Kind && (p.Report == nil || p.Report.Format != q.Kind) {
			continue
		}
		d := known[e.Run]
		if d == nil {
			if d, err = r.loadDeclarant(e.Run); err != nil {
				return nil, err
			}
			known[e.Run] = d
		}
		if q.Intent != "" && d.intent != q.Intent || q.Repo != "" && policy.RepositoryName(d.repo) != policy.RepositoryName(q.Repo) || d.isSuperseded(e) {
			continue
		}
		key := [5]string{e.Run, p.Kind, p.Ref, p.URL, p.Path}
		if listed[key] {
			continue
		}
		listed[key] = true
		if !behind {
			continue
		}
		p.RunID, p.IntentID, p.Repo, p.Sprite, p.At, p.Seq = e.Run, d.intent, d.repo, e.Sprite, e.At, e.Seq
		if found = append(found, p); len(found) == limit {
			break
		}
	}
	if !reached {
		return nil, fault.BadInput("bad_request", "the list does not have %.64q", q.Before).WithHint("read it from its first page")
	}
	return found, nil
}

// readArtifact returns the declaration that an entry is; ok is false if it does not count.
func readArtifact(e lattice.Entry) (a protocol.Artifact, ok bool) {
	if e.Kind != lattice.EntryEvent || e.Type != string(protocol.TypeArtifact) || len(e.Problems) > 0 || !session.Declares(e.Flags) {
		return a, false
	}
	ev, _, ok := protocol.Decode(e.Body)
	if !ok {
		return a, false
	}
	payload, err := ev.Open()
	if err != nil {
		return a, false
	}
	a, ok = payload.(protocol.Artifact)
	return a, ok
}

// A declarant is a run that declared artifacts.
type declarant struct {
	intent, repo string
	facts        []lattice.Entry
	travelled    bool // the run left a course: some of its events may be superseded
}

func (r *Artifacts) loadDeclarant(run string) (*declarant, error) {
	rec, err := r.Records.LoadBrief(run)
	if err != nil {
		return nil, err
	}
	d := &declarant{intent: rec.Kept.Intent, repo: rec.Kept.Repo}
	past, err := r.Store.Load(run)
	if err != nil {
		return nil, fmt.Errorf("read facts of run %s: %w", run, err)
	}
	d.facts = past.Facts
	leave := []string{lattice.Rewound{}.FactType(), lattice.PowerLost{}.FactType(), lattice.Restored{}.FactType()}
	d.travelled = slices.ContainsFunc(d.facts, func(e lattice.Entry) bool { return slices.Contains(leave, e.Type) })
	return d, nil
}

func (d *declarant) isSuperseded(e lattice.Entry) bool {
	if !d.travelled {
		return false
	}
	at, _ := slices.BinarySearchFunc(d.facts, e.Seq, func(f lattice.Entry, seq lattice.Seq) int { return cmp.Compare(f.Seq, seq) })
	return lattice.Superseded(slices.Insert(slices.Clone(d.facts), at, e))[e.Seq]
}
