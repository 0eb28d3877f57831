package results

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const maxPackages = 10_000

// GoTest folds the events of go test -json (cmd/test2json). A test with sub-tests is not counted, unless it failed while
// they did not; a package that does not build or dies outside of its tests is a failure of its own.
type GoTest struct {
	set     *Set
	dir     string            // where it runs, absolute: frames below it are the project's
	modules map[string]string // path of a module to its folder, relative to dir
	tests   map[goKey]*goTest
	order   []goKey
	parent  map[goKey]bool     // tests with sub-tests
	panics  map[goKey][]string // outputs of panics, by the tests that they are of or above
	pkgs    map[string]*goPackage
	names   []string // packages in the order seen
	build   map[string][]string
	passed  int
	failed  int
	held    budget

	buildLine, reportLine, frameLine, panicLine *regexp.Regexp
}

type goKey struct{ pkg, name string }

// parentOf returns the test that a sub-test belongs to.
func parentOf(key goKey) (goKey, bool) {
	i := strings.LastIndexByte(key.name, '/')
	return goKey{key.pkg, key.name[:max(i, 0)]}, i >= 0
}

type goTest struct {
	status string // "" while it runs, else pass, fail, skip
	took   float64
	output output
}

type goPackage struct {
	status      string
	output      output
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
	Elapsed     float64
}

// NewGoTest makes a reader that adds to s when it is done.
func NewGoTest(s *Set, dir string, modules map[string]string) *GoTest {
	return &GoTest{
		set: s, dir: dir, modules: modules,
		tests: map[goKey]*goTest{}, parent: map[goKey]bool{}, panics: map[goKey][]string{}, pkgs: map[string]*goPackage{}, build: map[string][]string{},
		buildLine:  regexp.MustCompile(`^(\S.*?\.go):(\d+):(?:(\d+):)? (.*)$`),
		reportLine: regexp.MustCompile(`^\s+([^\s:]+\.go):(\d+): ?(.*)$`),
		frameLine:  regexp.MustCompile(`^\t(/.*\.go):(\d+)(?: \+0x[0-9a-f]+)?$`),
		panicLine:  regexp.MustCompile(`^(?:panic|fatal error): `),
	}
}

// Progress counts the tests, suites included, that ended so far.
func (g *GoTest) Progress() (passed, failed int) { return g.passed, g.failed }

// Line handles one line. Output of go other than events is ignored.
func (g *GoTest) Line(text string) {
	var e goEvent
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
		return
	}
	if len(e.Test) > keptLine || len(e.Package) > keptLine || len(e.ImportPath) > keptLine {
		return // no name is that long
	}
	switch {
	case e.Action == "build-output":
		line := Clip(strings.TrimRight(e.Output, "\n"), keptLine)
		if lines := g.build[e.ImportPath]; len(lines) < keptLines && (lines != nil || len(g.build) < maxPackages) && g.held.used+len(line) <= maxHeld {
			g.build[e.ImportPath] = append(lines, line)
			g.held.used += len(line)
		}
	case e.Package == "":
	case e.Test == "":
		g.packageEvent(e)
	default:
		g.testEvent(e)
	}
}

func (g *GoTest) packageEvent(e goEvent) {
	p := g.pkgs[e.Package]
	if p == nil {
		if len(g.pkgs) >= maxPackages {
			return
		}
		p = &goPackage{}
		g.pkgs[e.Package] = p
		g.names = append(g.names, e.Package)
	}
	switch e.Action {
	case "output":
		g.held.addLine(&p.output, strings.TrimRight(e.Output, "\n"))
		p.panicked = p.panicked || strings.HasPrefix(e.Output, "panic: ")
	case "pass", "fail", "skip":
		p.status, p.failedBuild = e.Action, e.FailedBuild
	}
}

func (g *GoTest) testEvent(e goEvent) {
	key := goKey{e.Package, e.Test}
	t := g.tests[key]
	if t == nil {
		if len(g.order) >= maxPassed {
			g.handleOther(e)
			return
		}
		t = &goTest{}
		g.tests[key] = t
		g.order = append(g.order, key)
		for parent, ok := parentOf(key); ok && !g.parent[parent] && len(g.parent) < maxPassed; parent, ok = parentOf(parent) {
			g.parent[parent] = true
		}
	}
	switch e.Action {
	case "output":
		line := strings.TrimRight(e.Output, "\n")
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "=== ") || strings.HasPrefix(trimmed, "--- ") {
			return
		}
		g.held.addLine(&t.output, line)
		if p := g.pkgs[e.Package]; p != nil && strings.HasPrefix(line, "panic: ") {
			p.panicked = true
		}
	case "pass", "fail", "skip":
		t.status, t.took = e.Action, e.Elapsed
		if e.Action == "fail" {
			g.failed++
			return
		}
		g.held.dropOutput(&t.output)
		if e.Action == "pass" {
			g.passed++
		}
	}
}

// handleOther adds a test beyond those that are followed from their start to their end.
func (g *GoTest) handleOther(e goEvent) {
	c := Case{ID: e.Package + ":" + e.Test, Name: e.Test, Suite: e.Package, Duration: fromSeconds(e.Elapsed)}
	switch e.Action {
	case "pass":
		c.Status = Passed
	case "fail":
		c.Status = Failed
	case "skip":
		c.Status = Skipped
	default:
		return
	}
	g.set.Add(c)
}

// Done adds the tests, then the packages.
func (g *GoTest) Done() {
	failing := map[goKey]bool{}  // tests below which something failed
	red := map[string]bool{}     // packages with a failing test
	cut := map[string][]string{} // tests that ran when their package ended
	var cases []Case
	for _, key := range slices.Backward(g.order) {
		t := g.tests[key]
		if t.status == "" && slices.ContainsFunc(t.output.lines, g.panicLine.MatchString) {
			t.status = "fail" // the time limit of go test ends a test without a verdict
		}
		if g.parent[key] && (t.status != "fail" || failing[key]) {
			continue // its sub-tests speak for it
		}
		c := Case{ID: key.pkg + ":" + key.name, Name: key.name, Suite: key.pkg, Duration: fromSeconds(t.took)}
		switch t.status {
		case "pass":
			c.Status = Passed
		case "skip":
			c.Status = Skipped
		case "fail":
			red[key.pkg] = true
			g.explainFailure(&c, key, t)
			for parent, ok := parentOf(key); ok && g.parent[parent] && !failing[parent]; parent, ok = parentOf(parent) {
				failing[parent] = true
			}
		default:
			c.Status = NotRun
			cut[key.pkg] = append(cut[key.pkg], key.name)
		}
		cases = append(cases, c)
	}
	for _, c := range slices.Backward(cases) {
		g.set.Add(c)
	}
	g.addPackages(red, cut)
}

// addPackages adds those that failed without a failing test: they do not build, or die before or after their tests.
func (g *GoTest) addPackages(red map[string]bool, cut map[string][]string) {
	for _, name := range g.names {
		p := g.pkgs[name]
		if p.status != "fail" || red[name] {
			continue
		}
		lines, kind := p.output.lines, Setup
		if p.failedBuild != "" {
			kind = Build
			lines = append(slices.Clone(g.build[p.failedBuild]), lines...)
		} else if p.panicked {
			kind = Panic
		}
		c := Case{
			ID: name, Suite: name, Status: Errored, Kind: kind, Package: true, Message: "the package failed outside its tests",
			Detail: strings.Join(lines, "\n"),
		}
		if names := cut[name]; len(names) > 0 {
			c.Message = "the process ended while " + listFew(names) + " ran"
		}
		g.locateFailure(&c, lines)
		g.set.Add(c)
	}
	pkgs := slices.Sorted(maps.Keys(g.build))
	for _, pkg := range pkgs {
		for _, line := range g.build[pkg] {
			if m := g.buildLine.FindStringSubmatch(line); m != nil {
				g.set.AddBuild(BuildError{File: g.relativePath(strings.TrimPrefix(m[1], "vet: ")), Line: parseNumber(m[2]), Col: parseNumber(m[3]), Message: m[4]})
			}
		}
	}
}

// listFew names the first of names, which were found last to first.
func listFew(names []string) string {
	const most = 5
	slices.Reverse(names)
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// explainFailure describes one red test.
func (g *GoTest) explainFailure(c *Case, key goKey, t *goTest) {
	lines := t.output.lines
	if len(lines) == 0 {
		lines = g.panicAbove(key) // a panic in a sub-test is printed as its parent's
	}
	c.Status, c.Kind, c.Detail = Failed, Assertion, strings.Join(lines, "\n")
	g.locateFailure(c, lines)
}

// panicAbove returns the output of the nearest test above a sub-test that panicked. Each of those above is looked at once: many
// sub-tests can have many above them.
func (g *GoTest) panicAbove(key goKey) (lines []string) {
	var above []goKey
	for parent, ok := parentOf(key); ok && g.parent[parent]; parent, ok = parentOf(parent) {
		known, seen := g.panics[parent]
		if t := g.tests[parent]; !seen && t != nil && slices.ContainsFunc(t.output.lines, g.panicLine.MatchString) {
			known, seen = t.output.lines, true
		}
		above = append(above, parent)
		if lines = known; seen {
			break
		}
	}
	for _, parent := range above {
		g.panics[parent] = lines
	}
	return lines
}

// locateFailure finds message, file and line in an output: those of a panic first, else the first that a test reported, else
// the first of the compiler.
func (g *GoTest) locateFailure(c *Case, lines []string) {
	for i, line := range lines {
		if !g.panicLine.MatchString(line) {
			continue
		}
		c.Message = line
		if c.Kind = Panic; strings.HasPrefix(line, "panic: test timed out") {
			c.Kind = Timeout
		}
		for _, frame := range lines[i:] {
			if m := g.frameLine.FindStringSubmatch(frame); m != nil && strings.HasPrefix(m[1], g.dir+"/") {
				c.File, c.Line = g.relativePath(m[1]), parseNumber(m[2])
				return
			}
		}
		return
	}
	for i, line := range lines {
		if m := g.reportLine.FindStringSubmatch(line); m != nil && c.Kind != Build {
			c.File = path.Join(g.packageDir(c.Suite), m[1])
			c.Line, _ = strconv.Atoi(m[2])
			message := []string{m[3]}
			for _, more := range lines[i+1:] { // indented further: the same message
				if !strings.HasPrefix(more, "        ") {
					break
				}
				message = append(message, strings.TrimSpace(more))
			}
			c.Message = strings.TrimSpace(strings.Join(message, "\n"))
			return
		}
		if m := g.buildLine.FindStringSubmatch(line); m != nil && c.Kind == Build {
			c.File, c.Line, c.Message = g.relativePath(strings.TrimPrefix(m[1], "vet: ")), parseNumber(m[2]), m[4]
			return
		}
	}
}

// packageDir is where a package lies, relative to the working directory; "" when it is of no module there.
func (g *GoTest) packageDir(pkg string) string {
	best, dir := "", ""
	for module, at := range g.modules {
		if len(module) <= len(best) {
			continue
		}
		if pkg == module {
			best, dir = module, at
		} else if below, ok := strings.CutPrefix(pkg, module+"/"); ok {
			best, dir = module, path.Join(at, below)
		}
	}
	return dir
}

func (g *GoTest) relativePath(file string) string {
	if rel, err := filepath.Rel(g.dir, file); g.dir != "" && filepath.IsAbs(file) && err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path.Clean(filepath.ToSlash(file))
}

// Panicked names the packages whose process died: some of their tests may never have begun.
func (g *GoTest) Panicked() []string {
	var names []string
	for _, name := range g.names {
		if g.pkgs[name].panicked {
			names = append(names, name)
		}
	}
	return names
}

// Missing adds those of the listed tests of a package that never began.
func (g *GoTest) Missing(pkg string, listed []string) {
	for _, test := range listed {
		if g.tests[goKey{pkg, test}] == nil {
			g.set.Add(Case{ID: pkg + ":" + test, Name: test, Suite: pkg, Status: NotRun})
		}
	}
}
