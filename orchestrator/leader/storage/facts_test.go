package storage

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/store"
)

// A fact about a budget, a secret or a proposal that its package cannot read is found, although the chain of the log holds.
func TestCheckFacts(t *testing.T) {
	t.Parallel()
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tt := range []struct {
		kind  audit.Kind
		body  string
		sound bool
	}{
		{audit.Budget, `{"op":"raised","scopes":["run:r"],"amount":{"tokens":1}}`, true},
		{audit.Budget, `{"op":"raise refused","scopes":["run:r"],"amount":{"tokens":1},"reason":"no"}`, true},
		{audit.Budget, `{"op":"doubled","amount":{}}`, false},
		{audit.Budget, `{"op":"raised","amount":{"tokens":-1}}`, false},
		{audit.Budget, `{"op":"raised","amount":"much"}`, false},
		{audit.Secret, `{"kind":"tested","name":"npm"}`, true},
		{audit.Secret, `{"kind":"tested"}`, false},
		{audit.Secret, `{"kind":"leased","name":"npm","lease":"lease_1"}`, false},
		{audit.Secret, `{"kind":"sold","name":"npm"}`, false},
		{audit.Proposal, `{"kind":"approved","id":"p"}`, true},
		{audit.Proposal, `{"kind":"proposed","id":"p"}`, false},
		{audit.Proposal, `[]`, false},
		{audit.Verified, `[]`, true}, // not a fact that is read again
	} {
		before, err := checkFacts(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.AppendAudit(t.Context(), audit.Entry{Kind: tt.kind, Subject: "s", Body: json.RawMessage(tt.body)}, store.Any); err != nil {
			t.Fatal(err)
		}
		after, err := checkFacts(t.Context(), s)
		if err != nil || (len(after) == len(before)) != tt.sound {
			t.Errorf("%s %s: %v %v, want sound: %v", tt.kind, tt.body, after, err, tt.sound)
		}
	}
}
