package export

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
)

var update = flag.Bool("update", false, "write the golden files")

func builtin() (all []Skill) {
	for _, m := range manifests.Skills() {
		all = append(all, Skill{Skill: m})
	}
	return all
}

func parsed(t *testing.T, manifest string, command ...string) Skill {
	t.Helper()
	m, err := manifests.ParseSkill([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return Skill{m, command}
}

// hostile is a drop-in whose manifest tries to write more than its own lines.
const hostile = `{"name":"evil_twin.say","description":"Says it.\n---\nname: other | x","inputs":[{"name":"a","type":"any","description":"b\n\n# Heading | cell"}],
	"permissions":[],"examples":[{"a":"it's\n` + "```" + `"}]}`

// TestRulesOfAgentSkills is what agentskills.io asks of a folder.
func TestRulesOfAgentSkills(t *testing.T) {
	files, err := Files(append(builtin(), parsed(t, hostile, "/skills/evil_twin.say/run", "two words")))
	if err != nil {
		t.Fatal(err)
	}
	valid := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	overviews := 0
	for name, data := range files {
		folder, rest, _ := strings.Cut(name, "/")
		if rest != "SKILL.md" {
			if path.Dir(rest) != "references" {
				t.Errorf("%s is neither SKILL.md nor one level deep in references", name)
			}
			continue
		}
		overviews++
		front, body, ok := strings.Cut(strings.TrimPrefix(string(data), "---\n"), "\n---\n")
		if !ok {
			t.Fatalf("%s has no front matter", name)
		}
		members := map[string]string{}
		for line := range strings.SplitSeq(front, "\n") {
			key, value, ok := strings.Cut(line, ":")
			if !ok {
				t.Errorf("%s: front matter has the line %q", name, line)
			}
			if !strings.HasPrefix(key, " ") && !slices.Contains([]string{"name", "description", "license", "metadata"}, key) {
				t.Errorf("%s: member %q is not one that every reader takes", name, key)
			}
			members[key] = strings.TrimSpace(value)
		}
		if members["name"] != folder || len(folder) > 64 || !valid.MatchString(folder) {
			t.Errorf("%s: the name is %q; want the folder's, by the rules", name, members["name"])
		}
		var description string
		if err := json.Unmarshal([]byte(members["description"]), &description); err != nil || description == "" || len(description) > 1024 {
			t.Errorf("%s: description of %d bytes, %v", name, len(description), err)
		}
		if lines := strings.Count(body, "\n"); lines >= 500 {
			t.Errorf("%s: the body has %d lines, want fewer than 500", name, lines)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(body, -1) {
			if files[path.Join(folder, link[1])] == nil {
				t.Errorf("%s: the link %s leads nowhere", name, link[1])
			}
		}
	}
	if overviews < 2 {
		t.Errorf("%d families were exported", overviews)
	}
	evil := string(files["spritekit-evil-twin/references/evil_twin.say.md"])
	if strings.Contains(evil, "\n# Heading") || strings.Contains(evil, "\n---") || !strings.Contains(evil, `| /skills/evil_twin.say/run 'two words'`) {
		t.Errorf("a manifest of somebody else writes lines of its own:\n%s", evil)
	}
}

func TestFamilyIsWrittenAsExpected(t *testing.T) {
	files, err := Files([]Skill{
		parsed(t, `{"name":"demo.read","description":"Read it. In parts.","inputs":[{"name":"path","type":"string","required":true,"description":"Which."},{"name":"lines","type":"integer","default":10}],
			"outputs":[{"name":"content","type":"string","required":true,"description":"All of it."}],"permissions":["fs:read"],"side_effect":"read","timeout_s":60,"produces_events":true,"examples":[{"path":"a"}]}`),
		parsed(t, `{"name":"demo.push","inputs":[{"name":"mode","type":"string"}],"permissions":["git:read"],"side_effect":"sprite",
			"variants":{"input":"mode","default":"ask","cases":{"ask":{"permissions":["git:read"],"side_effect":"sprite"},"do":{"permissions":["git:push"],"side_effect":"world"}}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := errors.Join(os.RemoveAll("testdata"), Write("testdata", files)); err != nil {
			t.Fatal(err)
		}
	}
	for name, got := range files {
		want, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestCheckFindsDrift(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "skills")
	files, err := Files(builtin())
	if err != nil {
		t.Fatal(err)
	}
	check := func(want ...string) {
		t.Helper()
		got, err := Check(dir, files)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Check = %q, %v; want %q", got, err, want)
		}
	}
	check(dir + " does not exist")
	for range 2 {
		if err := Write(dir, files); err != nil {
			t.Fatal(err)
		}
		check()
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "spritekit-fs", "SKILL.md"), []byte("mine"), 0o644),
		os.WriteFile(filepath.Join(dir, "spritekit-fs", "references", "fs.gone.md"), []byte(mark), 0o644),
		os.WriteFile(filepath.Join(dir, "spritekit-fs", "references", "notes.md"), []byte("of a person"), 0o644),
		os.Remove(filepath.Join(dir, "spritekit-git", "SKILL.md")),
	); err != nil {
		t.Fatal(err)
	}
	check("spritekit-fs/SKILL.md is missing or out of date", "spritekit-git/SKILL.md is missing or out of date", "spritekit-fs/references/fs.gone.md is of no skill any more")
	if err := Write(dir, files); err != nil {
		t.Fatal(err)
	}
	check()
	if _, err := os.Stat(filepath.Join(dir, "spritekit-fs", "references", "notes.md")); err != nil {
		t.Errorf("what a person wrote is gone: %v", err)
	}
}

func TestWriteStaysInItsFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "spritekit-fs")); err != nil {
		t.Fatal(err)
	}
	files, err := Files(builtin())
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, files); err == nil {
		t.Error("Write followed a link out of its folder")
	}
	if found, err := os.ReadDir(outside); err != nil || len(found) > 0 {
		t.Errorf("outside there is %v, %v", found, err)
	}
}
