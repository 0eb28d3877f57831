package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A fault in a file of another system is found for that system, with its place, and for no other.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example.org/m\n\ngo 1.26\n",
		"main.go":        "package main\n\nimport (\n\t\"net/http\"\n\n\t\"example.org/m/part\"\n)\n\nfunc main() { http.ListenAndServe(part.Name(), nil) }\n",
		"part/linux.go":  "//go:build linux\n\npackage part\n\nfunc Name() string { return \"linux\" }\n",
		"part/darwin.go": "//go:build darwin\n\npackage part\n\nfunc Name() string { return 1 }\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	if err := check("linux/arm64", []string{"./..."}); err != nil {
		t.Errorf("linux: %v", err)
	}
	if err := check("darwin/arm64", []string{"./..."}); err == nil || !strings.Contains(err.Error(), "darwin.go:5:") {
		t.Errorf("darwin: %v, want a fault in line 5 of darwin.go", err)
	}
	if err := check("linux/arm64", []string{"./missing"}); err == nil {
		t.Error("a package that is not there was found")
	}
}
