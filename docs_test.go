package lattice_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// decisionText matches the number of a decision in docs/DESIGN.md; citation a citation of decisions in a comment.
var (
	decisionText = regexp.MustCompile(`(?m)^\*\*(\d+)\. `)
	citation     = regexp.MustCompile(`DESIGN(?:\.md)? (\d+(?:(?:, | and | to |-)\d+)*)`)
	number       = regexp.MustCompile(`\d+`)
	fileName     = regexp.MustCompile(`(?:^|[\s(\x60"])((?:[\w.-]+/)*[\w-]+\.(?:go|md|txtar))\b`)
	identifier   = regexp.MustCompile("`([A-Za-z][A-Za-z0-9]*(?:\\.[A-Za-z][A-Za-z0-9]*)*)(?:\\(\\))?`")
	goWord       = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	mdLink       = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
)

// TestCommentsCiteWhatExists checks that each decision and each file that a comment of the Go code names exists.
func TestCommentsCiteWhatExists(t *testing.T) {
	design, err := os.ReadFile("docs/DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions := map[string]bool{}
	for _, m := range decisionText.FindAllSubmatch(design, -1) {
		decisions[string(m[1])] = true
	}
	if len(decisions) < 20 {
		t.Fatalf("docs/DESIGN.md holds %d decisions, want at least 20", len(decisions))
	}
	files := repositoryFiles(t)
	sources, _ := sources(t)
	for _, f := range sources {
		for _, group := range f.Comments {
			text := group.Text()
			for _, m := range citation.FindAllStringSubmatch(text, -1) {
				for _, n := range number.FindAllString(m[1], -1) {
					if !decisions[n] {
						t.Errorf("%s cites DESIGN %s, which docs/DESIGN.md does not hold", f.path, n)
					}
				}
			}
			for _, m := range fileName.FindAllStringSubmatch(text, -1) {
				if !nameExists(files, f.path, m[1]) {
					t.Errorf("%s names the file %s, which does not exist", f.path, m[1])
				}
			}
		}
	}
}

// nameExists reports whether name is a file: relative to the root, next to the file that names it, or anywhere in the
// tree by its whole name.
func nameExists(files map[string]bool, from, name string) bool {
	if files[name] || files[filepath.Join(filepath.Dir(from), name)] {
		return true
	}
	for path := range files {
		if strings.HasSuffix(path, "/"+name) {
			return true
		}
	}
	return false
}

// TestDesignNamesExist checks that each Go identifier between backquotes in a design document is a word of the code.
func TestDesignNamesExist(t *testing.T) {
	words := map[string]bool{}
	for path := range repositoryFiles(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range goWord.FindAllString(string(text), -1) {
			words[word] = true
		}
	}
	documents := 0
	for path := range repositoryFiles(t) {
		if filepath.Base(path) != "DESIGN.md" {
			continue
		}
		documents++
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range identifier.FindAllStringSubmatch(string(page), -1) {
			for _, word := range goWord.FindAllString(m[1], -1) {
				if !words[word] && !fileName.MatchString(m[1]) && filepath.Ext(m[1]) != ".jsonl" && filepath.Ext(m[1]) != ".toml" {
					t.Errorf("%s names %s, which the code does not have", path, m[1])
				}
			}
		}
	}
	if documents < 7 {
		t.Errorf("found %d design documents, want at least 7", documents)
	}
}

// repositoryFiles returns the files of the tree, relative to its root.
func repositoryFiles(t *testing.T) map[string]bool {
	t.Helper()
	files := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == ".git" || path == "bin" || path == ".work" || path == "vendor"):
			return filepath.SkipDir
		case !d.IsDir():
			files[path] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLinksResolve checks the relative links of all documents.
func TestLinksResolve(t *testing.T) {
	for path := range repositoryFiles(t) {
		if !strings.HasSuffix(path, ".md") || strings.Contains(path, "testdata/") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mdLink.FindAllStringSubmatch(string(data), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, m[1])
			}
		}
	}
}

// TestProtocolDocument decodes each event of docs/protocol.md, and checks that the page shows every type of event and
// names every action and adjustment.
func TestProtocolDocument(t *testing.T) {
	page, err := os.ReadFile("docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[protocol.Type]bool{}
	for line := range strings.Lines(string(page)) {
		object, isEvent := strings.CutPrefix(line, protocol.Prefix)
		if !isEvent {
			continue
		}
		event, problems, ok := protocol.Decode([]byte(strings.TrimSpace(object)))
		if !ok || len(problems) > 0 || !event.Type.Known() {
			t.Errorf("%s is not a valid event: %v", line, problems)
		}
		shown[event.Type] = true
	}
	for _, want := range []protocol.Type{
		protocol.TypeInfo, protocol.TypePhaseStarted, protocol.TypePhaseFinished, protocol.TypeActionRequest, protocol.TypeArtifact,
		protocol.TypeWaiting, protocol.TypeCompleted, protocol.TypeError, protocol.TypeEnvironmentProposal,
	} {
		if !shown[want] {
			t.Errorf("docs/protocol.md does not show %s", want)
		}
	}
	for _, word := range []string{
		protocol.ActionOpenPR, protocol.ActionPostComment, protocol.ActionLabelIssue, protocol.ActionNotifyUser,
		protocol.ActionFetchCredential, protocol.ActionPushBranch, protocol.ActionUseTool, protocol.ActionOpenIssues,
		protocol.AdjustRuntimeInstall, protocol.AdjustRuntimeVersion, protocol.AdjustDependencyManagerSwitch, protocol.AdjustAddPreinstallStep,
		protocol.AdjustSmokeCommand, protocol.AdjustAddSystemPackage, protocol.AdjustEnableNetworkAccess, protocol.AdjustEscalateToHuman,
		protocol.ScopeRepoSpecific, protocol.ScopeGlobalCandidate,
	} {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("docs/protocol.md does not name %s", word)
		}
	}
}

// TestExecIRDocument checks that docs/execir.md names every op, member of a node, operator of a condition and kind of failure, that
// the members in the row of an op belong to it, and that its first example is a valid document.
func TestExecIRDocument(t *testing.T) {
	page, err := os.ReadFile("docs/execir.md")
	if err != nil {
		t.Fatal(err)
	}
	words := slices.Concat(expr.CondOps(), expr.FailureKinds(), slices.Sorted(maps.Keys(ir.NodeFields)))
	rows := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|.*\\|(.*)\\|$").FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		row[2] = regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(row[2], "") // values
		for _, member := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			if !slices.Contains(ir.NodeFields[member[1]], ir.Op(row[1])) {
				t.Errorf("docs/execir.md: %s has no member %s", row[1], member[1])
			}
		}
	}
	if len(rows) != len(ir.Ops()) {
		t.Errorf("docs/execir.md has rows for %d ops of %d", len(rows), len(ir.Ops()))
	}
	for _, op := range ir.Ops() {
		words = append(words, string(op))
	}
	for _, word := range words {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("docs/execir.md does not name %s", word)
		}
	}
	_, example, _ := strings.Cut(string(page), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	if _, findings := check.Parse([]byte(example), manifests.Lookup); len(findings) > 0 {
		t.Errorf("the example of docs/execir.md is not valid: %+v", findings)
	}
}

// TestConfigDocument checks that docs/config.md has a row for each key of the settings and names each of their allowed
// values, and that its example is valid.
func TestConfigDocument(t *testing.T) {
	page, err := os.ReadFile("docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	type property struct {
		Enum                 []string
		AdditionalProperties json.RawMessage
	}
	var schema struct {
		Defs map[string]struct{ Properties map[string]property } `json:"$defs"`
	}
	data, err := os.ReadFile("manifests/schema/config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{
		"Settings": "## Top level", "Limits": "## `[limits]`", "Run": "## `[run]`", "Serve": "## `[serve]`", "Sprites": "## `[sprites]`",
		"Git": "## `[git]`", "Store": "## `[store]`", "Engine": "## `[engine]`", "World": "## `[world]`", "Model": "## `[models.CLASS]`", "LLM": "## `[llm]`",
		"Channel": "## `[channels.NAME]`", "Schedule": "## `[schedules.NAME]`", "Forge": "## `[forges.NAME]`", "Notify": "## `[notify]`", "Secret": "## `[secrets.NAME]`",
		"Budgets": "## `[budgets]`", "Budget": "## `[budgets.NAME]`",
	}
	for name, table := range schema.Defs {
		heading, ok := sections[name]
		_, section, found := strings.Cut(string(page), "\n"+heading+"\n")
		if !ok || !found {
			t.Errorf("docs/config.md has no section for %s", name)
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for key, p := range table.Properties {
			if strings.Contains(string(page), "\n## `["+key+"]`\n") || strings.Contains(string(page), "\n## `["+key+".CLASS]`\n") || strings.Contains(string(page), "\n## `["+key+".NAME]`\n") {
				continue // a table
			}
			row := ""
			for line := range strings.Lines(section) {
				if keys, isRow := strings.CutPrefix(line, "| "); isRow && strings.Contains(strings.SplitN(keys, "|", 2)[0], "`"+key+"`") {
					row = line
				}
			}
			if row == "" {
				t.Errorf("the section %q of docs/config.md has no row for %s", heading, key)
			}
			for _, value := range p.Enum {
				if !strings.Contains(row, "`"+value+"`") {
					t.Errorf("docs/config.md does not name the value %s of %s", value, key)
				}
			}
		}
	}
	for _, word := range slices.Concat(settings.ActionNames(), settings.Rules()) {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("docs/config.md does not name %s", word)
		}
	}
	_, example, _ := strings.Cut(string(page), "```toml\n")
	example, _, _ = strings.Cut(example, "```")
	if _, findings := settings.Parse([]byte(example)); len(findings) > 0 {
		t.Errorf("the example of docs/config.md is not valid: %+v", findings)
	}
}

// TestArchitecture checks that each box of docs/architecture.svg is a package.
func TestArchitecture(t *testing.T) {
	picture, err := os.ReadFile("docs/architecture.svg")
	if err != nil {
		t.Fatal(err)
	}
	boxes := regexp.MustCompile(`class="room">([^<]+)<`).FindAllSubmatch(picture, -1)
	if len(boxes) < 15 {
		t.Errorf("docs/architecture.svg has %d boxes, want at least 15", len(boxes))
	}
	for _, box := range boxes {
		if files, _ := filepath.Glob(filepath.Join(string(box[1]), "*.go")); len(files) == 0 {
			t.Errorf("docs/architecture.svg shows %s, which is not a package", box[1])
		}
	}
}
