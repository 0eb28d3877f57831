package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckModule has a database of one vulnerability, in a function of the standard library: a program that can reach it is reported, one
// that cannot is not, and without the database neither is said to be sound.
func TestCheckModule(t *testing.T) {
	tools, err := filepath.Abs("../../tools.mod")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("db/index/db.json", `{"modified":"2026-01-01T00:00:00Z"}`)
	write("db/index/modules.json", `[{"path":"stdlib","vulns":[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]}]`)
	write("db/index/vulns.json", `[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]`)
	write("db/ID/GO-2026-0001.json", `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z",
		"details":"an example","database_specific":{"url":"https://example.com/GO-2026-0001"},"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
		"ecosystem_specific":{"imports":[{"path":"strings","symbols":["Repeat"]}]}}]}`)
	for name, body := range map[string]string{"reaches": `strings.Repeat("x", 3)`, "uses others": `strings.ToUpper("x")`} {
		write(name+"/go.mod", "module example.com/m\n\ngo 1.26.0\n")
		write(name+"/main.go", "package main\n\nimport \"strings\"\n\nfunc main() { println("+body+") }\n")
	}
	db := "file://" + dir + "/db"
	var out strings.Builder
	if err := checkModule(&out, tools, dir+"/reaches", db); !errors.Is(err, errFound) || !strings.Contains(out.String(), "GO-2026-0001") {
		t.Errorf("a program that reaches the function: %v\n%s", err, out.String())
	}
	if err := checkModule(&out, tools, dir+"/uses others", db); err != nil {
		t.Errorf("a program that does not: %v\n%s", err, out.String())
	}
	if err := checkModule(&out, tools, dir+"/reaches", "https://127.0.0.1:1"); !errors.Is(err, errUnreachable) {
		t.Errorf("without the database: %v\n%s", err, out.String())
	}
}
