package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/workspace"
)

// A sprite in which an agent runs again and again keeps the last homes, those that a call may be in, and those that an
// answer may come for; the records of sessions go with their homes.
func TestHomesArePruned(t *testing.T) {
	dir := t.TempDir()
	root, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	write := func(name string, content any, at time.Time) {
		t.Helper()
		raw, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		for _, err := range []error{os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, raw, 0o600), os.Chtimes(file, at, at)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	there := func(name string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }
	home := func(i int) string { return fmt.Sprintf("call%03d", i) }
	const old, busy, asking = 50, 20, 7 // homes; those used within the last hours; the one that waits
	for i := range old + busy {
		used := now.Add(-time.Duration(i-busy+4) * 24 * time.Hour)
		if i < busy {
			used = now.Add(-time.Duration(i) * time.Minute)
		}
		write(homesDir+"/"+home(i)+"/"+usedFile, home(i), used)
		write(homesDir+"/"+home(i)+"/.claude/big", "x", used)
		s := session{Agent: "claude", ID: fmt.Sprint("s", i), Home: home(i)}
		write(sessionFile(s.Agent, s.ID), s, used)
	}
	waits := home(old + busy - asking)
	write(waitingDir+"/c.json", pending{Session: session{Agent: "claude", ID: "x", Home: waits}}, now)
	write(sessionsDir+"/odd.json", "no session", now)
	if err := os.Symlink("/", filepath.Join(dir, homesDir, "planted")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again: nothing more
		if err := pruneOldHomes(root, now); err != nil {
			t.Fatal(err)
		}
	}
	for i := range old + busy {
		want := i < keepHomes || home(i) == waits
		if got, record := there(homesDir+"/"+home(i)), there(sessionFile("claude", fmt.Sprint("s", i))); got != want || record != want {
			t.Errorf("home %d: there is %t, its record %t; want %t", i, got, record, want)
		}
	}
	if !there(sessionsDir+"/odd.json") || !there(homesDir+"/planted") {
		t.Error("what is no session's went as well")
	}
	// All of them in use at this time: none goes.
	for i := range old {
		write(homesDir+"/now"+home(i)+"/"+usedFile, "", now)
	}
	if err := pruneOldHomes(root, now); err != nil || !there(homesDir+"/now"+home(old-1)) {
		t.Errorf("a home in use went: %v", err)
	}
}
