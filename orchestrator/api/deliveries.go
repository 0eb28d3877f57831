package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/route"
)

// Deliveries lists the webhooks that code hosts sent.
type Deliveries interface {
	// Deliveries lists the deliveries of a code host, the newest first; of all code hosts if forge is "". At most 1000 are listed, also for the limit 0.
	Deliveries(ctx context.Context, forge string, limit int) ([]DeliveryView, error)
}

// DeliveryView is a delivery of a webhook, and its outcome.
type DeliveryView struct {
	Forge      string    `json:"forge"`
	ID         string    `json:"delivery_id"`
	At         time.Time `json:"at"`
	Event      string    `json:"event"`
	Action     string    `json:"action,omitempty"`
	Repository string    `json:"repository,omitempty"`
	Number     int64     `json:"number,omitempty"` // of the issue or pull request
	Sender     string    `json:"sender,omitempty"`
	Handled    bool      `json:"handled"`
	Outcome    string    `json:"outcome,omitempty"`
}

func deliveryRoutes(s Deliveries) []route.Route {
	return []route.Route{
		route.ListAll("/deliveries", "List the last 1000 deliveries of code hosts, the newest first.", route.Before, func(v DeliveryView) string { return v.Forge + "/" + v.ID }, func(r *http.Request) ([]DeliveryView, error) {
			return s.Deliveries(r.Context(), r.FormValue("forge"), 0)
		}, route.String("forge", "only those of this code host")),
	}
}

// Deliveries lists the deliveries of a code host.
func (c DecisionCalls) Deliveries(ctx context.Context, forge string, limit int) ([]DeliveryView, error) {
	return callList[DeliveryView](ctx, c.connection, Root+"/deliveries", url.Values{"forge": {forge}, "limit": {strconv.Itoa(limit)}})
}
