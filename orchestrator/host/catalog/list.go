package catalog

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// maxPage is how many sprites a page of the list holds at most; clients that ask for more get so many.
const maxPage = 50

func (a *API) GetSprite(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.Store.Sprite(r.PathValue("name"))
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, a.object(rec))
	return nil
}

// summary counts all sprites by state, whatever the page. Some clients read it next to the list, others in `org`.
type summary struct {
	Name         string `json:"name"`
	Running      int    `json:"running"`
	Warm         int    `json:"warm"`
	Cold         int    `json:"cold"`
	RunningLimit int    `json:"running_limit"` // 0 = none
	WarmLimit    int    `json:"warm_limit"`
}

func (a *API) summarize(all []records.Sprite) summary {
	sum := summary{Name: organization, RunningLimit: a.Config.Limits.Running}
	for _, rec := range all {
		switch a.Fleet.State(rec).Status {
		case fleet.Running:
			sum.Running++
		case fleet.Warm:
			sum.Warm++
		case fleet.Cold:
			sum.Cold++
		}
	}
	return sum
}

func (a *API) ListSprites(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	limit := maxPage
	if n, err := strconv.Atoi(query.Get("max_results")); err == nil && n > 0 {
		limit = min(n, maxPage)
	}
	prefix := query.Get("prefix")
	if wantsStream(r) {
		return a.watchSprites(w, r, prefix)
	}
	var found []records.Sprite
	var next *string
	after := query.Get("continuation_token") // the last name of the page before
	all, err := a.Store.Sprites()
	if err != nil {
		return err
	}
	for _, rec := range all {
		if rec.Name <= after || !strings.HasPrefix(rec.Name, prefix) {
			continue
		}
		if len(found) == limit {
			next = &found[limit-1].Name
			break
		}
		found = append(found, rec)
	}
	sum := a.summarize(all)
	page := make([]spriteObject, len(found))
	for i, rec := range found {
		page[i] = a.object(rec)
	}
	wire.WriteJSON(w, http.StatusOK, struct {
		Sprites []spriteObject `json:"sprites"`
		HasMore bool           `json:"has_more"`
		Next    *string        `json:"next_continuation_token"`
		summary
		Org summary `json:"org"`
	}{page, next != nil, next, sum, sum})
	return nil
}

func (a *API) UpdateSprite(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Labels      *[]string           `json:"labels"`
		ClearLabels bool                `json:"clear_labels"`
		URLSettings sprites.URLSettings `json:"url_settings"`
	}
	if err := wire.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := checkURLSettings(in.URLSettings); err != nil {
		return err
	}
	if in.Labels != nil {
		if err := checkLabels(*in.Labels); err != nil {
			return err
		}
	}
	rec, err := a.Store.UpdateSprite(r.PathValue("name"), func(rec *records.Sprite) {
		if in.ClearLabels {
			rec.Labels = nil
		}
		if in.Labels != nil {
			rec.Labels = *in.Labels
		}
		if in.URLSettings.Auth != "" {
			rec.URLSettings.Auth = in.URLSettings.Auth
		}
		if in.URLSettings.PrivateAccess != "" {
			rec.URLSettings.PrivateAccess = in.URLSettings.PrivateAccess
		}
		rec.UpdatedAt = a.Now()
	})
	if err != nil {
		return err
	}
	a.Fleet.Changes.Tell(rec.Name)
	wire.WriteJSON(w, http.StatusOK, a.object(rec))
	return nil
}
