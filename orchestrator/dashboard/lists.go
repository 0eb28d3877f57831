package dashboard

import (
	"cmp"
	"errors"
	"math"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// listPages are the pages of lists over all runs.
type listPages struct{ *Dashboard }

func (d listPages) routes() []pageRoute {
	return []pageRoute{
		{"GET /artifacts", "GET /artifacts", d.showArtifacts},
		{"GET /proposals", "GET /proposals", d.showProposals},
		{"GET /intents", "GET /intents", d.showIntents},
		{"GET /cost", "GET /budgets", d.showCost},
		{"GET /sprites", "GET /runs", d.showSprites},
		{"GET /audit", "GET /audit", d.showAudit},
		{"GET /deliveries", "GET /deliveries", d.showDeliveries},
	}
}

// maxListed bounds the lines of a list.
const maxListed = 100

func (d listPages) showArtifacts(v *visit) error {
	list, err := d.leader.Products(v.ctx, api.ProductQuery{Limit: maxListed, Kind: v.URL.Query().Get("kind")})
	if err != nil {
		return err
	}
	return d.showPage(v, "artifacts", frame{Title: "Artifacts", Nav: "artifacts", Page: list})
}

func (d listPages) showDeliveries(v *visit) error {
	list, err := d.leader.Deliveries(v.ctx, v.URL.Query().Get("forge"), maxListed)
	if err != nil {
		return err
	}
	return d.showPage(v, "deliveries", frame{Title: "Deliveries", Nav: "audit", Poll: pollBoard, Page: list})
}

func (d listPages) showSprites(v *visit) error {
	list, err := d.leader.Sprites(v.ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b sprites.Sprite) int { return b.CreatedAt.Compare(a.CreatedAt) })
	page := struct {
		Sprites []fleetSprite
		Total   int
	}{Total: len(list)}
	for _, s := range list[:min(len(list), maxListed)] {
		row := fleetSprite{Sprite: s}
		for _, label := range s.Labels {
			if id, ok := strings.CutPrefix(label, api.OwnerLabel); ok {
				row.Run = id
			}
		}
		page.Sprites = append(page.Sprites, row)
	}
	return d.showPage(v, "sprites", frame{Title: "Sprites", Nav: "sprites", Live: api.Root + "/events", Page: page})
}

// fleetSprite is a sprite with the run that it was created for.
type fleetSprite struct {
	sprites.Sprite
	Run string
}

func (d listPages) showProposals(v *visit) error {
	list, err := d.leader.Proposals(v.ctx, api.ProposalList{})
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b proposal.State) int { return b.LastAt.Compare(a.LastAt) })
	return d.showPage(v, "proposals", frame{Title: "Proposals", Nav: "proposals", Page: list[:min(len(list), maxListed)]})
}

func (d listPages) showIntents(v *visit) error {
	list, err := d.leader.Intents(v.ctx, "", maxListed/2)
	if err != nil {
		return err
	}
	return d.showPage(v, "intents", frame{Title: "Intents", Nav: "intents", Page: list})
}

// costTable is what models and agents took, by one kind of thing.
type costTable struct {
	Title, Column, By string
	Lines             []api.CostLine
}

func (d listPages) showCost(v *visit) error {
	budgets, err := d.leader.Budgets(v.ctx, "", false)
	if err != nil {
		return err
	}
	runs, err := d.leader.Runs(v.ctx, api.RunList{Limit: maxListed})
	if err != nil {
		return err
	}
	page := struct {
		Budgets []api.BudgetView
		Runs    []api.RunView
		Costs   []costTable
	}{Budgets: budgets[:min(len(budgets), maxListed)]}
	for _, t := range []costTable{{Title: "Days", Column: "Day", By: "day"}, {Title: "Repositories", Column: "Repository", By: "repo"}, {Title: "Models", Column: "Model", By: "model"}} {
		if t.Lines, err = d.leader.Cost(v.ctx, t.By); err != nil {
			return err
		}
		t.Lines = t.Lines[:min(len(t.Lines), maxListed/4)]
		page.Costs = append(page.Costs, t)
	}
	for _, r := range runs {
		if r.Models != nil {
			page.Runs = append(page.Runs, r)
		}
	}
	return d.showPage(v, "cost", frame{Title: "Cost", Nav: "cost", Page: page})
}

// auditPage is the newest entries of the audit log, or those before one.
type auditPage struct {
	Subject string
	All     bool // with the calls of the Sprites API
	Entries []audit.Entry
	Older   string // the address of earlier entries, "" if there are none
}

func (d listPages) showAudit(v *visit) error {
	q := v.URL.Query()
	page := auditPage{Subject: q.Get("subject"), All: q.Get("all") != ""}
	before, err := strconv.ParseUint(cmp.Or(q.Get("before"), "0"), 10, 63)
	switch {
	case err != nil:
		return fault.BadInput("bad_request", "before is the number of an entry")
	case page.Subject != "":
		page.Entries, err = d.readAudit(v, page.Subject, 0, math.MaxUint64)
	default:
		if before == 0 {
			before, err = d.countAudit(v)
			before++
		}
		for windows := 0; err == nil && before > 1 && len(page.Entries) < maxListed && windows < maxWindows; windows++ {
			from := max(before, maxListed+1) - maxListed
			var entries []audit.Entry
			entries, err = d.readAudit(v, "", from-1, before)
			entries = slices.DeleteFunc(entries, func(e audit.Entry) bool { return e.IsCall() && !page.All })
			page.Entries, before = slices.Concat(entries, page.Entries), from
		}
		if before > 1 {
			older := url.Values{"before": {strconv.FormatUint(before, 10)}}
			if page.All {
				older.Set("all", "yes")
			}
			page.Older = "/audit?" + older.Encode()
		}
	}
	if err != nil {
		return err
	}
	slices.Reverse(page.Entries)
	return d.showPage(v, "audit", frame{Title: "Audit", Nav: "audit", Page: page})
}

// maxWindows bounds how many stretches of maxListed entries one page looks at.
const maxWindows = 20

// readAudit returns the last entries of a subject between two numbers.
func (d listPages) readAudit(v *visit, subject string, after, before uint64) (entries []audit.Entry, err error) {
	err = d.leader.AuditEntries(v.ctx, subject, after, func(e audit.Entry) error {
		if e.Seq >= before {
			return errEnough
		}
		if entries = append(entries, e); len(entries) > maxListed {
			entries = entries[1:]
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return entries, err
}

// countAudit returns the number of the newest entry. Numbers have no gaps, so it is found by bisection.
func (d listPages) countAudit(v *visit) (last uint64, err error) {
	exists := func(seq uint64) bool {
		found := false
		e := d.leader.AuditEntries(v.ctx, "", seq-1, func(audit.Entry) error {
			found = true
			return errEnough
		})
		if e != nil && !errors.Is(e, errEnough) {
			err = e
		}
		return found
	}
	high := uint64(1)
	for exists(high) && err == nil {
		high *= 2
	}
	n := sort.Search(int(high), func(i int) bool { return i > 0 && !exists(uint64(i)) })
	return uint64(max(n-1, 0)), err
}
