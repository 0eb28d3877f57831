package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Audit is the record of decisions and effects.
type Audit interface {
	// AuditEntries calls yield for the entries of a subject, "" for all, from the first one behind after.
	AuditEntries(ctx context.Context, subject string, after uint64, yield func(audit.Entry) error) error
}

func auditRoutes(s Audit) []route.Route {
	return []route.Route{route.Raw[audit.Entry](route.Viewer, http.MethodGet, "/audit", "Stream the entries of the audit log, the oldest first. The sequence number of the last one is that after which the next page begins.", exchange.MediaLines, func(w http.ResponseWriter, r *http.Request) {
		exchange.Stream(w, r, 1000, func(after lattice.Seq, line func(any) error) error {
			return s.AuditEntries(r.Context(), r.FormValue("subject"), uint64(after), func(e audit.Entry) error { return line(e) })
		})
	}, route.String("subject", "only those of a subject, such as run:ID"), route.Int("after", "only those behind this one"), route.Int("limit", "at most so many, by default 1000; 0 is all"))}
}

// AuditEntries calls yield for the entries of a subject of the audit log, "" for all.
func (c DecisionCalls) AuditEntries(ctx context.Context, subject string, after uint64, yield func(audit.Entry) error) error {
	return c.Again(ctx, func() error {
		query := url.Values{"subject": {subject}, "after": {strconv.FormatUint(after, 10)}, "limit": {"0"}}
		return lines(ctx, c.connection, Root+"/audit", query, func(e audit.Entry) error {
			after = e.Seq
			return yield(e)
		})
	})
}
