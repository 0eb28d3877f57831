package lattice_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// threats is the number of attacks at a code host: T1 to T20.
const threats = 20

// TestThreatsHaveScripts checks that THREATS.md has a row for each attack at a code host, and that each row names a script which carries it
// out from outside: the script names the attack in a comment, and asks the audit log what became of it. An attack that a script
// of attacks names is in the row of the attack.
func TestThreatsHaveScripts(t *testing.T) {
	document, err := os.ReadFile("THREATS.md")
	if err != nil {
		t.Fatal(err)
	}
	const folder = "orchestrator/testdata/script"
	script := regexp.MustCompile("`([a-z0-9-]+\\.txtar)`")
	inComment := func(file string, n int) bool {
		source, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile(fmt.Sprintf(`(?m)^#.*\bT%d\b`, n)).Match(source)
		return named && strings.Contains(string(source), "lattice audit ls")
	}
	attacks, err := filepath.Glob(filepath.Join(folder, "attack-*.txtar"))
	if err != nil || len(attacks) == 0 {
		t.Fatalf("%d scripts of attacks, %v", len(attacks), err)
	}
	for n := 1; n <= threats; n++ {
		rows := regexp.MustCompile(fmt.Sprintf(`(?m)^\| T%d \|.*$`, n)).FindAllString(string(document), -1)
		if len(rows) != 1 {
			t.Errorf("THREATS.md has %d rows for T%d", len(rows), n)
			continue
		}
		tried := false
		for _, m := range script.FindAllStringSubmatch(rows[0], -1) {
			tried = tried || inComment(m[1], n)
		}
		if !tried {
			t.Errorf("no script in the row of T%d names it in a comment and reads the audit log", n)
		}
		for _, path := range attacks {
			if file := filepath.Base(path); inComment(file, n) && !strings.Contains(rows[0], "`"+file+"`") {
				t.Errorf("%s carries out T%d, and the row of THREATS.md does not name it", file, n)
			}
		}
	}
}

// parts are the letters of the tables about lattice itself: the control plane, the interface, the page, agents and stores.
const parts = "CAPMS"

// TestThreatsNameTests checks that each row of each table of attacks and promises in THREATS.md names a test, and that all named tests
// exist. The rows about lattice itself have consecutive numbers, and an actor from the table of actors.
func TestThreatsNameTests(t *testing.T) {
	document, err := os.ReadFile("THREATS.md")
	if err != nil {
		t.Fatal(err)
	}
	known := findTests(t)
	names := regexp.MustCompile("`((?:Test|Fuzz)\\w+|[a-z0-9-]+\\.txtar)`")
	for _, found := range names.FindAllSubmatch(document, -1) {
		if !known[string(found[1])] {
			t.Errorf("THREATS.md names %s, and there is no such test", found[1])
		}
	}
	rows, last, actors, table := 0, map[string]int{}, map[string]bool{}, ""
	for line := range strings.Lines(string(document)) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			table = ""
		case table == "":
			table = line
		case strings.HasPrefix(line, "|---"):
		case strings.HasPrefix(table, "| actor |"):
			actors[cells[0]] = true
		case strings.HasSuffix(table, "| tried by |"):
			rows++
			if !names.MatchString(cells[len(cells)-1]) {
				t.Errorf("no test is named behind %q", cells[0])
			}
			if strings.HasPrefix(table, "| | by |") {
				part := cells[0][:1]
				if last[part]++; cells[0] != fmt.Sprint(part, last[part]) || !strings.Contains(parts, part) {
					t.Errorf("row %s of THREATS.md should be %s%d", cells[0], part, last[part])
				}
				if !actors[cells[1]] {
					t.Errorf("row %s of THREATS.md is about the actor %q, who is not in the table of actors", cells[0], cells[1])
				}
			}
		}
	}
	for _, part := range parts {
		if last[string(part)] == 0 {
			t.Errorf("THREATS.md has no row %c1", part)
		}
	}
	if rows < 89 {
		t.Errorf("THREATS.md has %d rows that name tests, and had 89", rows)
	}
}

// findTests returns the names of all tests and scripts of the repository.
func findTests(t *testing.T) map[string]bool {
	known := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, folder := range []string{"orchestrator", "skills", "spritekit", "scripts"} {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".txtar") {
				known[filepath.Base(path)] = true
			}
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, found := range function.FindAllSubmatch(source, -1) {
				known[string(found[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return known
}
