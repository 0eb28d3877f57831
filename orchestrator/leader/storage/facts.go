package storage

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/store"
)

// factChecks check the facts in entries of the audit log, by the kind of the entry.
var factChecks = map[audit.Kind]func(json.RawMessage) error{
	audit.Budget:   checkFact[budget.Fact],
	audit.Secret:   checkFact[secret.Fact],
	audit.Proposal: checkFact[proposal.Fact],
}

func checkFact[Fact interface{ Check() error }](raw json.RawMessage) error {
	var f Fact
	if err := json.Unmarshal(raw, &f); err != nil {
		return err
	}
	return f.Check()
}

// checkFacts returns a finding for each fact of the audit log that its package cannot read. The chain of the entries is
// checked by the store.
func checkFacts(ctx context.Context, s *store.Store) (problems []store.Problem, err error) {
	err = s.Audit("", 0, func(e audit.Entry) error {
		if check := factChecks[e.Kind]; check != nil {
			if wrong := check(e.Body); wrong != nil {
				problems = append(problems, store.Problem{Code: "audit", Message: fmt.Sprintf("audit entry %d: %v", e.Seq, wrong)})
			}
		}
		return ctx.Err()
	})
	return problems, err
}
