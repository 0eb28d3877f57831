package store_test

import (
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

// eachDriver runs a test with each driver; at returns the address of a new store.
func eachDriver(t *testing.T, test func(t *testing.T, at func(t testing.TB) string)) {
	t.Helper()
	for name, at := range map[string]func(t testing.TB) string{
		"file":     func(t testing.TB) string { return filepath.Join(t.TempDir(), "store.db") },
		"postgres": postgrestest.NewURL,
	} {
		t.Run(name, func(t *testing.T) { test(t, at) })
	}
}
