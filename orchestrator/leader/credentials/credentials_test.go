package credentials

import (
	"context"
	"errors"
	"io"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// After a restart, the values of leases are read again so that they can be looked for. A provider that fails is asked once,
// and a helper, which would make another value, never.
func TestValuesAfterARestart(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	reads := map[string]int{}
	var broken error
	newVault := func() *Vault {
		v := &Vault{Facts: &govern.Ledger{Store: s}, Sources: map[string]secret.Source{}, OutputOf: func(string) io.Writer { return io.Discard }}
		for name, provider := range map[string]string{"token": "env", "minted": "helper"} {
			v.Sources[name] = secret.Source{Name: name, Provider: provider, Variable: "V", TTL: time.Hour, Uses: 1, Resolve: func(context.Context, secret.Request) (string, error) {
				reads[name]++
				return name + "-value", broken
			}}
		}
		return v
	}
	v := newVault()
	for name := range v.Sources {
		if _, err := v.Grant(t.Context(), lattice.Action{RunID: "run_1", Key: name, Sprite: "box"}, protocol.FetchCredential{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if got := v.Values(t.Context(), "run_1"); len(got) != 2 || reads["token"] != 1 || reads["minted"] != 1 {
		t.Errorf("before: %v, reads %v", got, reads)
	}
	v = newVault()
	for range 3 {
		if got := v.Values(t.Context(), "run_1"); len(got) != 1 || reads["token"] != 2 || reads["minted"] != 1 {
			t.Errorf("after a restart: %v, reads %v", got, reads)
		}
	}
	v, broken = newVault(), errors.New("the disk is gone")
	for range 3 {
		if got := v.Values(t.Context(), "run_1"); len(got) != 0 || reads["token"] != 3 || reads["minted"] != 1 {
			t.Errorf("with a provider that fails: %v, reads %v", got, reads)
		}
	}
}

// A lease ends when its run waits, ends or goes back. Asking for a further secret ends none.
func TestEntriesThatEndLeases(t *testing.T) {
	const fetch, push = `{"action":"FETCH_CREDENTIAL"}`, `{"action":"PUSH_BRANCH"}`
	tests := map[string]struct {
		kind       lattice.EntryKind
		typ, body  string
		wantReason string
	}{
		"a call asks for a secret":       {lattice.EntryFact, "CallSuspended", `{"request":` + fetch + `}`, ""},
		"a call asks for a push":         {lattice.EntryFact, "CallSuspended", `{"request":` + push + `}`, "a call waits"},
		"a call asks a person":           {lattice.EntryFact, "CallSuspended", `{}`, "a call waits"},
		"a rewind":                       {lattice.EntryFact, "Rewound", `{"request":` + fetch + `}`, "the run was rewound"},
		"the run waits for a secret":     {lattice.EntryState, "", `{"status":"waiting","waits":[{"action":` + fetch + `}]}`, ""},
		"the run waits for two":          {lattice.EntryState, "", `{"status":"waiting","waits":[{"action":` + fetch + `},{"action":` + push + `}]}`, "the run waits"},
		"the run waits for a person":     {lattice.EntryState, "", `{"status":"waiting","waits":[{}]}`, "the run waits"},
		"the run waits for nothing":      {lattice.EntryState, "", `{"status":"waiting"}`, "the run waits"},
		"the run goes on":                {lattice.EntryState, "", `{"status":"running","waits":[{}]}`, ""},
		"the run ended with an old wait": {lattice.EntryState, "", `{"status":"failed","waits":[{"action":` + fetch + `}]}`, "the run ended"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := reasonToEnd(lattice.Entry{Kind: tt.kind, Type: tt.typ, Body: []byte(tt.body)}); got != tt.wantReason {
				t.Errorf("reason %q, want %q", got, tt.wantReason)
			}
		})
	}
}

// TestLeaseLength asks for leases of several lengths. A number of seconds that no length of time has is too long as well.
func TestLeaseLength(t *testing.T) {
	t.Parallel()
	newVault, _ := newVaults(t, 1) // for an hour
	for seconds, code := range map[float64]string{0: "", 0.5: "", 3600: "", -1: "lease_too_long", 3601: "lease_too_long", 9.3e9: "lease_too_long", 1e19: "lease_too_long", math.MaxFloat64: "lease_too_long"} {
		err := newVault().Check(protocol.FetchCredential{Name: "npm", Purpose: "publish", TTLS: seconds})
		refused, _ := errors.AsType[*lattice.Refusal](err)
		if (err == nil) != (code == "") || refused != nil && refused.Fault.Code != code {
			t.Errorf("Check of %g seconds = %v, want %q", seconds, err, code)
		}
	}
}
