package govern

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/attest"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/home"
)

// Attester signs statements about verified commits with the key of the home (driver.Attester).
type Attester struct {
	Home   home.Home
	Ledger *Ledger
	// Remove removes the fork in which a run verified a commit. One that it cannot remove goes with the other forks of the run.
	Remove func(ctx context.Context, run, sprite string)
}

// verifiedBody is the body of an entry about a verified commit.
type verifiedBody struct {
	RunID     string `json:"run_id"`
	Node      string `json:"node"`
	Commit    string `json:"commit"`
	Status    string `json:"status"` // green or red
	Statement string `json:"statement_sha256"`
}

// Attest judges and signs a verification. The audit log names it by its commit.
func (a *Attester) Attest(ctx context.Context, v lattice.Verification) (lattice.Attested, error) {
	key, err := attest.LoadKey(a.Home.SigningKey())
	if err != nil {
		return lattice.Attested{}, err
	}
	signed, err := attest.Attest(key, v)
	if v.Sprite != "" {
		defer a.Remove(ctx, v.RunID, v.Sprite)
	}
	if err != nil || signed.Commit == "" {
		return signed, err
	}
	body := verifiedBody{RunID: v.RunID, Node: v.Of.Node, Commit: signed.Commit, Status: string(attest.Red), Statement: signed.Statement}
	if signed.Green {
		body.Status = string(attest.Green)
	}
	return signed, a.Ledger.Record(ctx, audit.Verified, audit.CommitOf(signed.Commit), "verified:"+v.RunID+":"+signed.Statement, body)
}
