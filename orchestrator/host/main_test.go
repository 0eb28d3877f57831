package host_test

import (
	"os"
	"testing"

	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	_ "github.com/spritekit/lattice/orchestrator/host/sandbox/early"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func newHost(t *testing.T, token string) *host.Host {
	t.Helper()
	return openHost(t, t.TempDir(), token)
}

// openHost opens a host that ends with the test.
func openHost(t *testing.T, dir, token string) *host.Host {
	t.Helper()
	return openHostWith(t, core.Config{Dir: dir, Token: token})
}

func limitedHost(t *testing.T, token string, limits core.Limits) *host.Host {
	t.Helper()
	return openHostWith(t, core.Config{Dir: t.TempDir(), Token: token, Limits: limits})
}

func openHostWith(t *testing.T, cfg core.Config) *host.Host {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Self, cfg.Control, cfg.Log = self, true, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	h, err := host.Open(cfg)
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
