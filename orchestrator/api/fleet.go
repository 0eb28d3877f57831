package api

import (
	"context"
	"net/http"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/fleet"
)

// Fleet compares sprites with a fleet file, and makes them as it declares.
type Fleet interface {
	// InspectFleet changes nothing.
	InspectFleet(ctx context.Context, d fleet.Document) (FleetView, error)
	// ApplyFleet makes the changes of InspectFleet, one after the other. It goes on when one fails.
	ApplyFleet(ctx context.Context, r FleetRequest) (FleetView, error)
}

// FleetRequest is the body of a request to make the changes of a fleet.
type FleetRequest struct {
	Document fleet.Document `json:"document"`
	// Digest is that of the FleetView whose changes are made. If other changes are needed now, none is made. "" makes all.
	Digest string `json:"digest,omitempty"`
	// Remove also makes the changes that remove something.
	Remove bool `json:"remove,omitempty"`
}

// FleetView shows the sprites of a fleet, and the changes that make them as declared.
type FleetView struct {
	Name    string        `json:"name"`
	Digest  string        `json:"digest"` // of the changes
	Sprites []FleetSprite `json:"sprites"`
	Changes []FleetChange `json:"changes"`
}

// FleetSprite is the record of a sprite that a fleet declares or has, or that no fleet has.
type FleetSprite struct {
	ID         string        `json:"id,omitempty"` // "" if the sprite has never been seen
	Name       string        `json:"name"`
	Status     string        `json:"status"` // cold, warm, running; missing
	Labels     []string      `json:"labels,omitempty"`
	CreatedAt  *time.Time    `json:"created_at,omitempty"`
	LastSeenAt *time.Time    `json:"last_seen_at,omitempty"`
	Fleet      string        `json:"fleet,omitempty"` // that the sprite belongs to
	Desired    *fleet.Sprite `json:"desired_state,omitempty"`
}

// FleetChange is a change, with its outcome after ApplyFleet.
type FleetChange struct {
	fleet.Change
	Outcome string `json:"outcome,omitempty"` // done, failed or kept (it removes something, and that was not allowed)
	Error   string `json:"error,omitempty"`
}

func fleetRoutes(s Fleet) []route.Route {
	return []route.Route{
		route.Post(route.Admin, "/fleet/plan", "Compare sprites with a fleet file.", func(r *http.Request, in FleetRequest) (FleetView, error) {
			return s.InspectFleet(r.Context(), in.Document)
		}),
		route.Post(route.Admin, "/fleet/apply", "Make sprites as a fleet file declares them.", func(r *http.Request, in FleetRequest) (FleetView, error) { return s.ApplyFleet(r.Context(), in) }),
	}
}

// InspectFleet compares sprites with a fleet file.
func (c StoreCalls) InspectFleet(ctx context.Context, d fleet.Document) (FleetView, error) {
	return call[FleetView](ctx, c.connection, "POST", Root+"/fleet/plan", nil, FleetRequest{Document: d})
}

// ApplyFleet makes sprites as a fleet file declares them.
func (c StoreCalls) ApplyFleet(ctx context.Context, r FleetRequest) (FleetView, error) {
	return call[FleetView](ctx, c.connection, "POST", Root+"/fleet/apply", nil, r)
}
