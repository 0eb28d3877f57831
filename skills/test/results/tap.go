package results

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// TAP reads the Test Anything Protocol, 13 and 14: sub-tests indented by four spaces before the test they belong to,
// YAML blocks and comments after it, plans, directives, Bail out! — as node, bats and Perl write it. A test with
// sub-tests is a suite, unless it failed while they did not.
type TAP struct {
	set    *Set
	base   string
	places *places
	levels [][]tapNode // of each depth, those whose parent has not come yet
	held   int         // nodes in levels below the first
	last   *tapNode    // the node that a YAML block or comments may follow
	depth  int         // of last
	yaml   *yamlBlock
	plan   int
	seen   int
	bailed bool
	kept   budget // of comments and blocks in levels
	rest   output // other lines, the last ones of a program that died
}

type tapNode struct {
	number   string
	name     string
	ok       bool
	skip     bool // or to do
	comments output
	yaml     *yamlBlock
	children []tapNode
}

// NewTAP makes a reader that adds to s. base names the suite of tests without one.
func NewTAP(s *Set, base string) *TAP {
	return &TAP{set: s, base: base, places: newPlaces(), plan: -1}
}

// Line takes one line.
func (t *TAP) Line(line string) {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if t.yaml != nil {
		switch {
		case text == "...":
			t.yaml = nil
			return
		case indent >= t.yaml.indent || !endsYAML(text):
			t.yaml.addLine(line, &t.kept)
			return
		}
		t.yaml = nil
	}
	depth := min(indent/4, maxTapDepth)
	switch {
	case text == "---" && t.last != nil && indent > 4*t.depth: // with less indentation, it is output of the program
		t.yaml = &yamlBlock{indent: indent}
		t.last.yaml = t.yaml
	case strings.HasPrefix(text, "Bail out!"):
		t.addLast()
		t.bailed = true
		t.set.Bail = Clip(Clean(strings.TrimSpace(strings.TrimPrefix(text, "Bail out!"))), MaxMessage)
	case strings.HasPrefix(text, "1.."):
		t.addPlan(text[3:], depth)
	case strings.HasPrefix(text, "# Subtest"):
		t.addLast()
	case strings.HasPrefix(text, "#"):
		if t.last != nil && t.last.yaml == nil { // after the block come the words of the next test
			t.kept.addLine(&t.last.comments, strings.TrimPrefix(strings.TrimPrefix(text, "#"), " "))
		}
	default:
		if node, ok := parsePoint(text); ok {
			t.addPoint(node, depth)
		} else if text != "" {
			t.rest.addLine(line)
		}
	}
}

// endsYAML reports whether a line that is less indented than a block shows that the end of the block is missing.
func endsYAML(text string) bool {
	_, point := parsePoint(text)
	return point || strings.HasPrefix(text, "Bail out!") || strings.HasPrefix(text, "1..")
}

func (t *TAP) addPlan(text string, depth int) {
	count, directive, _ := strings.Cut(text, "#")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if err != nil || depth > 0 {
		return
	}
	t.addLast()
	t.plan = n
	if reason := strings.TrimSpace(directive); n == 0 && len(reason) >= 4 && strings.EqualFold(reason[:4], "skip") {
		t.set.Add(Case{Name: firstOf(t.base, "all tests"), Status: Skipped})
	}
}

// parsePoint reads "ok 1 - name # SKIP reason".
func parsePoint(text string) (tapNode, bool) {
	var n tapNode
	rest, ok := strings.CutPrefix(text, "not ok")
	if !ok {
		if rest, n.ok = strings.CutPrefix(text, "ok"); !n.ok {
			return n, false
		}
	}
	if rest != "" && rest[0] != ' ' {
		return n, false
	}
	rest = strings.TrimLeft(rest, " ")
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	if digits < len(rest) && rest[digits] != ' ' {
		digits = 0 // part of the name
	}
	n.number = rest[:digits]
	rest = strings.TrimLeft(rest[digits:], " ")
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "- "), "-")
	if i := findDirective(rest); i >= 0 {
		word := strings.ToLower(strings.TrimLeft(rest[i+1:], " "))
		n.skip = strings.HasPrefix(word, "skip") || strings.HasPrefix(word, "todo") && !n.ok
		rest = rest[:i]
	}
	n.name = cleanName(strings.NewReplacer(`\#`, "#", `\\`, `\`).Replace(strings.TrimSpace(rest)))
	return n, true
}

// findDirective returns the index of the unescaped "#" that begins a directive of TAP (it skips a test or expects it to fail),
// or -1.
func findDirective(text string) int {
	for i := strings.LastIndexByte(text, '#'); i >= 0; i = strings.LastIndexByte(text[:i], '#') {
		word := strings.ToLower(strings.TrimLeft(text[i+1:], " "))
		if (strings.HasPrefix(word, "skip") || strings.HasPrefix(word, "todo")) && (i == 0 || text[i-1] != '\\') {
			return i
		}
	}
	return -1
}

func (t *TAP) addPoint(n tapNode, depth int) {
	t.addLast()
	for len(t.levels) <= depth+1 {
		t.levels = append(t.levels, nil)
	}
	for d := depth + 1; d < len(t.levels); d++ { // nodes that skipped a level belong here as well
		n.children = append(n.children, t.levels[d]...)
		t.levels[d] = nil
	}
	t.last, t.depth = &n, depth
	if depth == 0 {
		t.seen++
	}
	if n.number == "" {
		n.number = strconv.Itoa(t.seen)
	}
}

// addLast adds the last node, which is complete.
func (t *TAP) addLast() {
	if t.last == nil {
		return
	}
	n := *t.last
	t.last = nil
	if t.depth > 0 && t.held < maxPassed {
		t.levels[t.depth] = append(t.levels[t.depth], n)
		t.held++
		return
	}
	t.addCase(n, nil)
	if t.depth == 0 {
		t.held, t.kept = 0, budget{}
	}
}

// addCase adds a node and those below it.
func (t *TAP) addCase(n tapNode, path []string) {
	failed := t.set.Counts.Failed
	if len(n.children) > 0 {
		for _, child := range n.children {
			t.addCase(child, append(path[:len(path):len(path)], n.name))
		}
		if n.ok || n.skip || t.set.Counts.Failed > failed {
			return
		}
	} else if n.yaml.valueOf("type") == "suite" && n.ok {
		return // an empty suite
	}
	c := Case{Name: strings.Join(append(path[:len(path):len(path)], firstOf(n.name, "test "+n.number)), " > "), Suite: t.base}
	c.ID = joinNames(c.Suite, c.Name)
	switch {
	case n.skip:
		c.Status = Skipped
	case n.ok:
		c.Status = Passed
	default:
		c.Status = Failed
		if len(t.set.Failing) < maxFailing { // a failure that is not kept needs no message
			t.explainFailure(&c, &n)
		}
	}
	ms, _ := strconv.ParseFloat(n.yaml.valueOf("duration_ms"), 64)
	c.Duration = fromMillis(ms)
	if location := n.yaml.valueOf("location"); location != "" {
		file, line := locationOf(location)
		if c.File == "" {
			c.File, c.Line = file, line
		} else if c.File != file { // it failed elsewhere; a reader looks for the test
			c.Detail = strings.TrimSpace(c.Detail + "\nat " + c.File + ":" + strconv.Itoa(c.Line))
			c.File, c.Line = file, line
		}
		c.Suite = cmp.Or(c.Suite, file)
	}
	t.set.Add(c)
}

// explainFailure finds message and place of a failure in its YAML block, else in its comments.
func (t *TAP) explainFailure(c *Case, n *tapNode) {
	comments := strings.TrimSpace(Clean(n.comments.joinLines()))
	stack := ownFrames(n.yaml.valueOf("stack"), "")
	c.Message = firstOf(n.yaml.valueOf("error"), n.yaml.valueOf("message"))
	c.Detail = strings.TrimSpace(strings.Join([]string{firstOf(c.Message), stack, comments}, "\n"))
	c.File, c.Line = t.places.ownFrame(stack)
	if c.File == "" {
		c.File = firstOf(n.yaml.valueOf("file"), n.yaml.valueOf("fileName"))
		c.Line = parseNumber(firstOf(n.yaml.valueOf("line"), n.yaml.valueOf("lineNumber")))
	}
	if c.File == "" {
		c.File, c.Line = t.places.perlPlace(comments)
	}
	if c.Message == "" {
		c.Message = perlMessage(comments)
	}
	if kind := n.yaml.valueOf("failureType"); kind == "testTimeoutFailure" {
		c.Kind = Timeout
	} else if kind == "hookFailed" {
		c.Kind = Setup
	} else if n.yaml.valueOf("exitCode") != "" {
		c.Kind = Panic // a file whose process died
	}
}

// perlMessage leaves out the lines that only say that and where a test failed.
func perlMessage(comments string) string {
	var kept []string
	for line := range strings.Lines(comments) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "Failed test") || strings.HasPrefix(line, "at ") || strings.HasPrefix(line, "(in test file") || strings.HasPrefix(line, "(from function") || strings.HasPrefix(line, "Looks like you ") {
			continue
		}
		if kept = append(kept, line); len(kept) == 4 {
			break
		}
	}
	return strings.Join(kept, "\n")
}

// locationOf reads file:line:column.
func locationOf(text string) (file string, line int) {
	file = strings.TrimPrefix(text, "file://")
	var digits [2]string
	for i := range digits {
		j := strings.LastIndexByte(file, ':')
		if j <= 0 {
			return file, 0
		}
		file, digits[i] = file[:j], file[j+1:]
	}
	return file, parseNumber(digits[1])
}

// Done adds the nodes that are still open and compares their number with the plan.
func (t *TAP) Done() {
	t.addLast()
	for d := 1; d < len(t.levels); d++ { // their parent never came
		for _, n := range t.levels[d] {
			t.addCase(n, nil)
		}
	}
	t.levels = nil
	missing := t.plan - t.seen
	for range min(missing, maxPassed) {
		t.seen++
		t.set.Add(Case{Name: "test " + strconv.Itoa(t.seen), Suite: t.base, Status: NotRun})
	}
	switch {
	case t.bailed:
		t.set.Add(Case{
			ID: "Bail out!", Name: "Bail out!", Suite: t.base, Status: Errored, Kind: Setup, Package: true,
			Message: "Bail out! " + t.set.Bail,
		})
	case missing > 0:
		t.set.Add(Case{
			ID: firstOf(t.base, "plan"), Name: firstOf(t.base, "plan"), Suite: t.base, Status: Errored, Kind: Panic, Package: true,
			Message: fmt.Sprintf("%d tests were planned and %d ran", t.plan, t.plan-missing), Detail: t.rest.joinLines(),
		})
	}
}

// yamlBlock understands as much of YAML as test runners write: keys with plain, quoted or block values. Keys of nested
// maps are found by their own name.
type yamlBlock struct {
	indent int
	key    string // of the block value being read
	column int    // of that key
	size   int
	values map[string][]byte
}

const maxYAML = 64 << 10

func (y *yamlBlock) addLine(line string, kept *budget) {
	text := strings.TrimLeft(line, " ")
	column := len(line) - len(text)
	if y.values == nil {
		y.values = map[string][]byte{}
	}
	if y.size += len(line) + 1; y.size > maxYAML || kept.used+len(line)+1 > maxHeld {
		return
	}
	kept.used += len(line) + 1
	if y.key != "" && (column > y.column || text == "") {
		y.values[y.key] = append(append(y.values[y.key], line[min(len(line), y.column+2):]...), '\n')
		return
	}
	y.key = ""
	key, value, ok := strings.Cut(text, ":")
	if !ok || strings.ContainsAny(key, " \t") {
		return
	}
	key = strings.Trim(key, `"'`)
	value = strings.TrimSpace(value)
	if _, given := y.values[key]; given {
		return // the outer one speaks
	}
	if strings.HasPrefix(value, "|") || strings.HasPrefix(value, ">") {
		y.key, y.column = key, column
		y.values[key] = nil
		return
	}
	y.values[key] = []byte(unquoteYAML(value))
}

func unquoteYAML(value string) string {
	n := len(value)
	switch {
	case n >= 2 && value[0] == '\'' && value[n-1] == '\'':
		return strings.ReplaceAll(value[1:n-1], "''", "'")
	case n >= 2 && value[0] == '"' && value[n-1] == '"':
		if text, err := strconv.Unquote(value); err == nil {
			return text
		}
		return value[1 : n-1]
	}
	return value
}

func (y *yamlBlock) valueOf(key string) string {
	if y == nil {
		return ""
	}
	return strings.TrimRight(string(y.values[key]), "\n")
}
