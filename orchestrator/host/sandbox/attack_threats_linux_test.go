package sandbox_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

var updateThreats = flag.Bool("update", false, "write the table of attacks into THREATS.md")

// THREATS.md names every attack of the table, and what stops it.
func TestThreatsNameEveryAttack(t *testing.T) {
	path := filepath.Join("..", "..", "..", "THREATS.md")
	file, err := os.ReadFile(path)
	if err != nil {
		t.Skip("away from the sources: ", err) // as an ordinary user, only the binary is there
	}
	before, rest, ok := strings.Cut(string(file), "<!-- attacks -->\n")
	_, after, closed := strings.Cut(rest, "<!-- end -->")
	if !ok || !closed {
		t.Fatal("THREATS.md has no place for the table")
	}
	var table strings.Builder
	table.WriteString("| attack | stopped by | levels |\n|---|---|---|\n")
	for _, a := range attacks() {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", a.name, a.stoppedBy(), a.levels())
	}
	want := before + "<!-- attacks -->\n" + table.String() + "<!-- end -->" + after
	if *updateThreats {
		must(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	if string(file) != want {
		t.Error("the table in THREATS.md is not that of the attacks: run this test with -update and read the difference")
	}
}

func (a attack) stoppedBy() string {
	if a.plain {
		return "the box itself"
	}
	names := make([]string, len(a.layers))
	for i, l := range a.layers {
		names[i] = "`" + string(l) + "`"
	}
	return strings.Join(names, ", ")
}

func (a attack) levels() string {
	if a.only != "" {
		return "`" + string(a.only) + "`"
	}
	both := "`" + string(spec.LevelRoot) + "`, `" + string(spec.LevelUser) + "`"
	if a.kept == spec.DefenceMemory || a.kept == spec.DefenceCPU {
		both += " with control groups"
	}
	return both
}
