package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const keptLines = 200 // of the output of one test: half from its start, half from its end

// goCommand is go test with what the caller adds; every package, unless the caller names some. listable is false when
// the caller chooses tests.
func goCommand(args []string) (command []string, listable bool) {
	command = append([]string{"go", "test", "-json"}, args...)
	listable = true
	packages := false
	for _, a := range args {
		packages = packages || a == "." || a == "..." || a == "all" || strings.HasPrefix(a, "./") || strings.HasPrefix(a, "../")
		listable = listable && !strings.HasPrefix(strings.TrimLeft(a, "-"), "run") && !strings.HasPrefix(strings.TrimLeft(a, "-"), "skip")
	}
	if !packages {
		command = append(command, "./...")
	}
	return command, listable
}

// golang folds the events of go test -json (cmd/test2json).
type golang struct {
	patterns
	dir    string // working directory
	module string // path of the module there, "" when unknown
	tests  map[testKey]*goTest
	order  []testKey
	parent map[testKey]bool // tests with sub-tests
	pkgs   map[string]*goPackage
	names  []string // packages in the order seen
	build  map[string][]string
	passed int
	failed int
}

type testKey struct{ pkg, name string }

type goTest struct {
	status string // "" while it runs, else pass, fail, skip
	output []string
}

type goPackage struct {
	status      string
	output      []string
	failedBuild string
	panicked    bool
}

type goEvent struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	FailedBuild string
}

func newGolang(dir, module string) *golang {
	return &golang{dir: dir, module: module, patterns: newPatterns(), tests: map[testKey]*goTest{}, parent: map[testKey]bool{}, pkgs: map[string]*goPackage{}, build: map[string][]string{}}
}

// moduleOf is the path of the module in dir, "" when go.mod does not tell.
func moduleOf(root *workspace.Root, dir string) string {
	data, err := root.ReadFile(filepath.Join(dir, "go.mod"), 1<<20)
	if err != nil {
		return ""
	}
	m := regexp.MustCompile(`(?m)^module\s+(\S+)`).FindSubmatch(data)
	if m == nil {
		return ""
	}
	return strings.Trim(string(m[1]), `"`)
}

func (g *golang) progress() string {
	return fmt.Sprintf("%d tests passed, %d failed", g.passed, g.failed)
}

func (g *golang) line(text string) {
	var e goEvent
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
		return // what go prints besides events is in the log
	}
	switch {
	case e.Action == "build-output":
		g.build[e.ImportPath] = append(g.build[e.ImportPath], strings.TrimRight(e.Output, "\n"))
	case e.Package == "":
	case e.Test == "":
		g.packageEvent(e)
	default:
		g.testEvent(e)
	}
}

func (g *golang) packageEvent(e goEvent) {
	p := g.pkgs[e.Package]
	if p == nil {
		p = &goPackage{}
		g.pkgs[e.Package] = p
		g.names = append(g.names, e.Package)
	}
	switch e.Action {
	case "output":
		p.output = append(p.output, strings.TrimRight(e.Output, "\n"))
		if len(p.output) > keptLines {
			p.output = slices.Delete(p.output, keptLines/2, keptLines/2+1)
		}
		p.panicked = p.panicked || strings.HasPrefix(e.Output, "panic: ")
	case "pass", "fail", "skip":
		p.status, p.failedBuild = e.Action, e.FailedBuild
	}
}

func (g *golang) testEvent(e goEvent) {
	key := testKey{e.Package, e.Test}
	t := g.tests[key]
	if t == nil {
		t = &goTest{}
		g.tests[key] = t
		g.order = append(g.order, key)
		for name := e.Test; ; {
			i := strings.LastIndexByte(name, '/')
			if i < 0 {
				break
			}
			name = name[:i]
			g.parent[testKey{e.Package, name}] = true
		}
	}
	switch e.Action {
	case "output":
		line := strings.TrimRight(e.Output, "\n")
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "=== ") || strings.HasPrefix(trimmed, "--- ") {
			return
		}
		t.output = append(t.output, line)
		if len(t.output) > keptLines {
			t.output = slices.Delete(t.output, keptLines/2, keptLines/2+1)
		}
		if p := g.pkgs[e.Package]; p != nil && strings.HasPrefix(line, "panic: ") {
			p.panicked = true
		}
	case "pass", "fail", "skip":
		t.status = e.Action
		if e.Action == "pass" {
			g.passed++
		} else if e.Action == "fail" {
			g.failed++
		}
	}
}

func (g *golang) fill(r *Report, exit proc.Exit, _ []byte) {
	failing := map[testKey]bool{} // tests below which something failed
	red := map[string]bool{}      // packages with a failing test
	for _, key := range slices.Backward(g.order) {
		t := g.tests[key]
		if t.status == "" && slices.ContainsFunc(t.output, g.panicLine.MatchString) {
			t.status = "fail" // the time limit of go test ends a test without a verdict
		}
		if g.parent[key] && (t.status != "fail" || failing[key]) {
			continue // its sub-tests speak for it
		}
		r.Counts.Total++
		switch t.status {
		case "pass":
			r.Counts.Passed++
		case "skip":
			r.Counts.Skipped++
		case "fail":
			r.Counts.Failed++
			red[key.pkg] = true
			r.Failures = append(r.Failures, g.failure(key, t))
		default:
			r.Counts.NotRun++
		}
		if t.status == "fail" {
			for name := key.name; strings.Contains(name, "/"); {
				name = name[:strings.LastIndexByte(name, '/')]
				failing[testKey{key.pkg, name}] = true
			}
		}
	}
	g.packages(r, red)
	switch {
	case len(r.Failures) > 0:
		r.Status = StatusFailed
	case exit.Code != 0:
		r.Status = StatusError
	case r.Counts.Total == 0:
		r.Status = StatusNoTests
	default:
		r.Status = StatusPassed
	}
}

// packages adds those that failed without a failing test: they do not build, or die before or after their tests.
func (g *golang) packages(r *Report, red map[string]bool) {
	for _, name := range g.names {
		p := g.pkgs[name]
		if p.status != "fail" || red[name] {
			continue
		}
		r.Counts.Errored++
		output, kind := p.output, kindSetup
		if p.failedBuild != "" {
			kind = kindBuild
			output = append(slices.Clone(g.build[p.failedBuild]), p.output...)
		} else if p.panicked {
			kind = kindPanic
		}
		f := Failure{
			ID: name, Suite: name, Kind: kind, Message: "the package failed outside its tests", Excerpt: excerpt(output),
			Rerun: Rerun{Command: []string{"go", "test", "-count=1", name}},
		}
		g.locate(&f, output)
		r.Failures = append(r.Failures, f)
	}
	for _, pkg := range sortedKeys(g.build) {
		for _, line := range g.build[pkg] {
			if m := g.buildLine.FindStringSubmatch(line); m != nil && len(r.BuildErrors) < maxBuildErrors {
				e := BuildError{File: g.relative(strings.TrimPrefix(m[1], "vet: ")), Message: clip(m[4], maxMessage)}
				e.Line, _ = strconv.Atoi(m[2]) // digits by the pattern
				e.Col, _ = strconv.Atoi(m[3])
				r.BuildErrors = append(r.BuildErrors, e)
			}
		}
	}
}

// patterns finds places in what go prints. They belong to one run and not to the package: a global pattern is compiled
// at the start of every skill.
type patterns struct{ buildLine, reportLine, frameLine, panicLine *regexp.Regexp }

func newPatterns() patterns {
	return patterns{
		buildLine:  regexp.MustCompile(`^(\S.*?\.go):(\d+):(?:(\d+):)? (.*)$`),
		reportLine: regexp.MustCompile(`^\s+([^\s:]+\.go):(\d+): ?(.*)$`),
		frameLine:  regexp.MustCompile(`^\t(/.*\.go):(\d+)(?: \+0x[0-9a-f]+)?$`),
		panicLine:  regexp.MustCompile(`^(?:panic|fatal error): `),
	}
}

// failure describes one red test.
func (g *golang) failure(key testKey, t *goTest) Failure {
	output := t.output
	for name := key.name; len(output) == 0 && strings.Contains(name, "/"); { // a panic in a sub-test is printed as its parent's
		name = name[:strings.LastIndexByte(name, '/')]
		if above := g.tests[testKey{key.pkg, name}]; above != nil && slices.ContainsFunc(above.output, g.panicLine.MatchString) {
			output = above.output
		}
	}
	f := Failure{
		ID: key.pkg + ":" + key.name, Name: key.name, Suite: key.pkg, Kind: kindAssertion, Message: "the test failed", Excerpt: excerpt(output),
	}
	parts := strings.Split(key.name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	f.Rerun.Command = []string{"go", "test", "-count=1", "-run", strings.Join(parts, "/"), key.pkg}
	g.locate(&f, output)
	return f
}

// locate finds message, file and line in an output: those of a panic first, else the first that a test reported, else
// the first of the compiler.
func (g *golang) locate(f *Failure, output []string) {
	for i, line := range output {
		if !g.panicLine.MatchString(line) {
			continue
		}
		f.Message = clip(line, maxMessage)
		if f.Kind = kindPanic; strings.HasPrefix(line, "panic: test timed out") {
			f.Kind = kindTimeout
		}
		for _, frame := range output[i:] {
			if m := g.frameLine.FindStringSubmatch(frame); m != nil && strings.HasPrefix(m[1], g.dir+"/") {
				f.File = g.relative(m[1])
				f.Line, _ = strconv.Atoi(m[2])
				return
			}
		}
		return
	}
	for i, line := range output {
		if m := g.reportLine.FindStringSubmatch(line); m != nil && f.Kind != kindBuild {
			f.File = path.Join(g.packageDir(f.Suite), m[1])
			f.Line, _ = strconv.Atoi(m[2])
			message := []string{m[3]}
			for _, more := range output[i+1:] { // indented further: the same message
				if !strings.HasPrefix(more, "        ") {
					break
				}
				message = append(message, strings.TrimSpace(more))
			}
			f.Message = clip(strings.TrimSpace(strings.Join(message, "\n")), maxMessage)
			return
		}
		if m := g.buildLine.FindStringSubmatch(line); m != nil && f.Kind == kindBuild {
			f.File, f.Message = g.relative(strings.TrimPrefix(m[1], "vet: ")), clip(m[4], maxMessage)
			f.Line, _ = strconv.Atoi(m[2])
			return
		}
	}
}

// packageDir is where a package lies, relative to the working directory; "" when it is not of the module there.
func (g *golang) packageDir(pkg string) string {
	if g.module == "" || pkg == g.module {
		return ""
	}
	dir, ok := strings.CutPrefix(pkg, g.module+"/")
	if !ok {
		return ""
	}
	return dir
}

func (g *golang) relative(file string) string {
	if rel, err := filepath.Rel(g.dir, file); filepath.IsAbs(file) && err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path.Clean(filepath.ToSlash(file))
}

// countNotRun asks packages that panicked for the tests that never began.
func (g *golang) countNotRun(ctx context.Context, reaper *proc.Reaper, j job, r *Report) error {
	for _, name := range g.names {
		if !g.pkgs[name].panicked {
			continue
		}
		var out bytes.Buffer
		spec := proc.Spec{Argv: []string{j.argv[0], "test", "-list", ".", name}, Dir: j.dir, Env: j.env, Stdout: &out, Tree: true}
		if _, err := reaper.Run(ctx, spec); err != nil {
			return fmt.Errorf("list the tests of %s: %w", name, err)
		}
		for test := range strings.Lines(out.String()) {
			test = strings.TrimSpace(test)
			if !strings.HasPrefix(test, "Test") && !strings.HasPrefix(test, "Example") && !strings.HasPrefix(test, "Fuzz") {
				continue
			}
			if g.tests[testKey{name, test}] == nil {
				r.Counts.Total++
				r.Counts.NotRun++
			}
		}
	}
	return nil
}

func sortedKeys(m map[string][]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
