package api

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/spritekit/fault"
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

// RunList says which runs are listed; the zero value lists all. A list costs what it holds, however many runs there are.
type RunList struct {
	Open     bool   // only those that have not ended
	WorkItem string // only those for a work item
	Flow     string // only those of a flow
	Before   string // only those that are older than this one, which is an id or the beginning of one
	Limit    int    // at most so many, the newest; 0 means all
}

func (l RunList) query() url.Values {
	q := url.Values{}
	if l.Open {
		q.Set("open", "true")
	}
	if l.WorkItem != "" {
		q.Set("work_item", l.WorkItem)
	}
	if l.Flow != "" {
		q.Set("flow", l.Flow)
	}
	if l.Before != "" {
		q.Set("before", l.Before)
	}
	if l.Limit != 0 {
		q.Set("limit", strconv.Itoa(l.Limit))
	}
	return q
}

func readRunList(q url.Values) (l RunList, err error) {
	l.Open, l.WorkItem, l.Flow, l.Before = q.Get("open") == "true", q.Get("work_item"), q.Get("flow"), q.Get("before")
	if text := q.Get("limit"); text != "" {
		if l.Limit, err = strconv.Atoi(text); err != nil || l.Limit < 0 {
			return l, fault.BadInput("bad_request", "the limit of a list is a number, not %q", text)
		}
	}
	return l, nil
}

var runListParams = []Param{
	{"open", "boolean", "only those that have not ended"}, {"work_item", "string", "only those for a work item"},
	{"flow", "string", "only those of a flow"}, {"before", "string", "only those that are older than this run"}, {"limit", "integer", "at most so many; 0 is all"},
}
