package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPages writes the pages of both programs, and checks that each command and each skill has one, that each has the parts
// of a manual page, and that groff, if installed, renders all of them without a warning.
func TestPages(t *testing.T) {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	programs := []string{filepath.Join(bin, "lattice"), filepath.Join(bin, "spritekit")}
	for _, path := range programs {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			t.Skipf("%s is not built: make build does that", filepath.Base(path))
		}
	}
	dir := t.TempDir()
	paths, err := writePages(dir, programs)
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]bool{}
	for _, path := range paths {
		pages[filepath.Base(path)] = true
		checkPage(t, path)
	}
	want := append(latticeCommands(t, programs[0]), skillNames(t, programs[1])...)
	for _, command := range want {
		if name := strings.Join(command, "-") + ".1"; !pages[name] {
			t.Errorf("%s has no page", strings.Join(command, " "))
		}
	}
	if len(want) < 150 {
		t.Errorf("the programs have %d commands and skills, want at least 150", len(want))
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("groff is not installed: the pages were not rendered")
		return
	}
	render := exec.Command(groff, append([]string{"-ww", "-Wbreak", "-man", "-Kutf8", "-Tutf8", "-z"}, paths...)...)
	if out, err := render.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}

// checkPage checks that a page begins with its title and has its parts, each with text, in the usual order.
func checkPage(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, at := string(data), 0
	for _, part := range []string{".TH ", "\n.SH NAME\n", " \\- ", "\n.SH SYNOPSIS\n", "\n.SH DESCRIPTION\n"} {
		i := strings.Index(page[at:], part)
		if i < 0 {
			t.Errorf("%s has no %q in its place", filepath.Base(path), part)
			return
		}
		at += i + len(part) - 1
	}
	for line := range strings.Lines(page) {
		if macro, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(macro, ".") &&
			!strings.Contains(".TH .SH .PP .TP .B .BR .RS .RE .nf .fi .ad .nh", macro) {
			t.Errorf("%s: the line %q is read as a macro", filepath.Base(path), line)
		}
	}
	if strings.Contains(page, "\n.SH DESCRIPTION\n.SH") {
		t.Errorf("%s has an empty description", filepath.Base(path))
	}
}

// latticeCommands returns the commands that lattice offers a shell to complete.
func latticeCommands(t *testing.T, lattice string) (all [][]string) {
	home := t.TempDir()
	var visit func(words []string)
	visit = func(words []string) {
		all = append(all, words)
		if help, err := exec.Command(lattice, append(words[1:len(words):len(words)], "--help")...).Output(); err != nil ||
			!strings.Contains(string(help), " [command]\n") {
			return // its completions are values
		}
		complete := exec.Command(lattice, append(append([]string{"__complete"}, words[1:]...), "")...)
		complete.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		out, err := complete.Output()
		if err != nil {
			t.Fatalf("complete %s: %v", words, err)
		}
		for line := range strings.Lines(string(out)) {
			if name, _, described := strings.Cut(strings.TrimSpace(line), "\t"); described && name != "help" {
				visit(append(words[:len(words):len(words)], name))
			}
		}
	}
	visit([]string{"lattice"})
	return all
}

// skillNames returns the built-in skills of spritekit.
func skillNames(t *testing.T, spritekit string) (all [][]string) {
	out, err := exec.Command(spritekit, "skills", "--json").Output()
	var list []struct{ Name string }
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		all = append(all, []string{"spritekit", s.Name})
	}
	return all
}
