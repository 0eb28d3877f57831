package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
)

// OwnerLabel is the beginning of the label of a sprite that was created for a run; the id of the run follows.
const OwnerLabel = "lattice-run:"

// OwnerOf returns the run for which a sprite with labels was created, "" if a person created it.
func OwnerOf(labels []string) string {
	for _, label := range labels {
		if run, ok := strings.CutPrefix(label, OwnerLabel); ok {
			return run
		}
	}
	return ""
}

// RunList says which runs are listed; the zero value lists all. The cost of a list grows with its length, and not with the number of runs.
type RunList struct {
	Open     bool   // only those that have not ended
	WorkItem string // only those for a work item
	Flow     string // only those of a flow
	Before   string // only those that are older than this one, which is an id or the beginning of one
	Limit    int    // at most so many, the newest; 0 means all
}

func (l RunList) toQuery() url.Values {
	return queryOf("open", formatSet(l.Open), "work_item", l.WorkItem, "flow", l.Flow, route.Before, l.Before, "limit", strconv.Itoa(l.Limit))
}

func readRunList(r *http.Request, p exchange.Page) RunList {
	return RunList{Open: exchange.IsSet(r, "open"), WorkItem: r.FormValue("work_item"), Flow: r.FormValue("flow"), Before: p.Last, Limit: p.Limit}
}

var runListParams = []route.Param{
	route.Bool("open", "only those that have not ended"), route.String("work_item", "only those for a work item"), route.String("flow", "only those of a flow"),
}
