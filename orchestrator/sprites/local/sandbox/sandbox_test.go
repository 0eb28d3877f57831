package sandbox_test

import (
	"os"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites/local/sandbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.InitArg {
		os.Exit(sandbox.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}
func TestProbe(t *testing.T) {
	self, _ := os.Executable()
	t.Logf("%+v", sandbox.Probe(self, t.TempDir()))
	t.Logf("%+v", sandbox.Probe(self, t.TempDir()))
}
