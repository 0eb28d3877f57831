package api

import (
	_ "embed"
	"slices"
)

// Media types of answers.
const (
	mediaText  = "text/plain; charset=utf-8"
	mediaBytes = "application/octet-stream"
	mediaTar   = "application/x-tar"
)

// Routes lists the operations on s, which may be nil if none is served.
func Routes(s Service) []Route {
	return slices.Concat(
		leaderRoutes(s), runRoutes(s), travelRoutes(s), reviewRoutes(s), candidateRoutes(s), pastFileRoutes(s), actionRoutes(s), artifactRoutes(s), intentRoutes(s),
		proposalRoutes(s), scheduleRoutes(s), secretRoutes(s), auditRoutes(s), budgetRoutes(s), accessRoutes(s), deliveryRoutes(s), boardRoutes(s), loopRoutes(s), storageRoutes(s),
		fleetRoutes(s), flowRoutes(s), usageRoutes(s), approvalRoutes(s), sandboxRoutes(s),
	)
}

//go:embed openapi.json
var description string

// Description returns the OpenAPI description of the interface, which make schema writes from the table of routes.
func Description() string { return description }

// Parameters that name the last item of the page before: of lists with the newest first, and of all others.
const (
	before = "before"
	after  = "after"
)
