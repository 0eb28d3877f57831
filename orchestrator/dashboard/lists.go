package dashboard

import (
	"cmp"
	"errors"
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

func (d *Dashboard) listRoutes() []route {
	return []route{
		{"GET /artifacts", "GET /artifacts", d.showArtifacts},
		{"GET /proposals", "GET /proposals", d.showProposals},
		{"GET /intents", "GET /intents", d.showIntents},
		{"GET /cost", "GET /budgets", d.showCost},
		{"GET /sprites", "GET /runs", d.showSprites},
		{"GET /audit", "GET /audit", d.showAudit},
	}
}

// maxListed bounds the lines of a list.
const maxListed = 100

func (d *Dashboard) showArtifacts(v *visit) error {
	list, err := d.leader.Products(v.ctx, api.ProductQuery{Limit: maxListed, Kind: v.URL.Query().Get("kind")})
	if err != nil {
		return err
	}
	return d.showPage(v, "artifacts", frame{Title: "Artifacts", Nav: "artifacts", Page: list})
}

func (d *Dashboard) showSprites(v *visit) error {
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

func (d *Dashboard) showProposals(v *visit) error {
	list, err := d.leader.Proposals(v.ctx, api.ProposalList{})
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b proposal.State) int { return b.LastAt.Compare(a.LastAt) })
	return d.showPage(v, "proposals", frame{Title: "Proposals", Nav: "proposals", Page: list[:min(len(list), maxListed)]})
}

func (d *Dashboard) showIntents(v *visit) error {
	list, err := d.leader.Intents(v.ctx, maxListed)
	if err != nil {
		return err
	}
	return d.showPage(v, "intents", frame{Title: "Intents", Nav: "intents", Page: list})
}

func (d *Dashboard) showCost(v *visit) error {
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
	}{Budgets: budgets[:min(len(budgets), maxListed)]}
	for _, r := range runs {
		if r.Models != nil {
			page.Runs = append(page.Runs, r)
		}
	}
	return d.showPage(v, "cost", frame{Title: "Cost", Nav: "cost", Page: page})
}

// showAudit shows the newest entries, or those before one.
func (d *Dashboard) showAudit(v *visit) error {
	q := v.URL.Query()
	page := struct {
		Subject string
		Entries []audit.Entry
		Older   uint64
	}{Subject: q.Get("subject")}
	if page.Subject != "" {
		err := d.leader.AuditEntries(v.ctx, page.Subject, 0, func(e audit.Entry) error {
			page.Entries = append(page.Entries, e)
			if len(page.Entries) > maxListed {
				page.Entries = page.Entries[1:]
			}
			return nil
		})
		if err != nil {
			return err
		}
	} else if err := d.readAudit(v, q.Get("before"), &page.Entries); err != nil {
		return err
	}
	slices.Reverse(page.Entries)
	if n := len(page.Entries); page.Subject == "" && n > 0 && page.Entries[n-1].Seq > 1 {
		page.Older = page.Entries[n-1].Seq
	}
	return d.showPage(v, "audit", frame{Title: "Audit", Nav: "audit", Page: page})
}

// readAudit reads the entries before the number in text, by default the newest.
func (d *Dashboard) readAudit(v *visit, text string, entries *[]audit.Entry) error {
	before, err := strconv.ParseUint(cmp.Or(text, "0"), 10, 64)
	if err != nil {
		return fault.BadInput("bad_request", "before is the number of an entry")
	}
	if before == 0 {
		if before, err = d.countAudit(v); err != nil {
			return err
		}
		before++
	}
	err = d.leader.AuditEntries(v.ctx, "", max(before, maxListed+1)-maxListed-1, func(e audit.Entry) error {
		if e.Seq >= before {
			return errEnough
		}
		*entries = append(*entries, e)
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// countAudit returns the number of the newest entry. Numbers have no gaps, so it is found by bisection.
func (d *Dashboard) countAudit(v *visit) (last uint64, err error) {
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
