package local_test

import (
	"os"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/spritekit/lattice/orchestrator/sprites/local"
	_ "github.com/spritekit/lattice/orchestrator/sprites/local/sandbox/early" // the test binary is the init of its sandboxes
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func newHost(t *testing.T, token string) *local.Host {
	t.Helper()
	return openHost(t, t.TempDir(), token)
}

// openHost opens a host that ends with the test.
func openHost(t *testing.T, dir, token string) *local.Host {
	t.Helper()
	return openHostWith(t, local.Config{Dir: dir, Token: token})
}

func limitedHost(t *testing.T, token string, limits local.Limits) *local.Host {
	t.Helper()
	return openHostWith(t, local.Config{Dir: t.TempDir(), Token: token, Limits: limits})
}

func openHostWith(t *testing.T, cfg local.Config) *local.Host {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Self, cfg.Control, cfg.Log = self, true, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	h, err := local.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}
