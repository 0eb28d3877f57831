package results

import (
	"regexp"
	"slices"
	"strings"
)

// Compiler reads the errors of compilers from the output of a build: rustc, javac by itself and under Maven, kotlinc, csc,
// gcc and clang.
type Compiler struct {
	set     *Set
	rustc   string // an error of rustc whose place comes on a later line
	seen    map[string]bool
	place   *regexp.Regexp
	oneLine []*regexp.Regexp // file, line, column, message
}

// NewCompiler makes a reader that adds to s.
func NewCompiler(s *Set) *Compiler {
	c := &Compiler{set: s, seen: map[string]bool{}, place: regexp.MustCompile(`^\s*--> (.+?):(\d+):(\d+)$`)}
	for _, form := range []string{
		`^\[ERROR\] (\S.*?\.\w+):\[(\d+),(\d+)\] (.+)$`,                                    // Maven
		`^(?:\[[^\]]*\] )?(\S.*?\.(?:java|groovy|scala)):(\d+):() (error: .+)$`,            // javac
		`^e: (?:file://)?(\S.*?\.kts?):(\d+):(\d+):? (.+)$`,                                // kotlinc
		`^\s*(\S.*?\.(?:cs|fs|vb))\((\d+),(\d+)\): (error .+?)(?: \[[^\]]*\])?$`,           // csc
		`^(\S.*?\.(?:c|cc|cpp|cxx|h|hh|hpp|m|mm|cu)):(\d+):(\d+): ((?:fatal )?error: .+)$`, // gcc, clang
	} {
		c.oneLine = append(c.oneLine, regexp.MustCompile(form))
	}
	return c
}

// Line takes one line.
func (c *Compiler) Line(line string) {
	if len(line) > keptLine {
		return
	}
	switch {
	case rustcError(line):
		c.Done() // the error before it has no place
		c.rustc = line
		return
	case c.rustc != "":
		if m := c.place.FindStringSubmatch(line); m != nil {
			c.addError(BuildError{File: m[1], Line: parseNumber(m[2]), Col: parseNumber(m[3]), Message: c.rustc})
			c.rustc = ""
		} else if line == "" {
			c.Done()
		}
		return
	case !strings.Contains(line, "rror") && !strings.HasPrefix(line, "e: ") && !strings.HasPrefix(line, "[ERROR]"):
		return
	}
	for _, form := range c.oneLine {
		if m := form.FindStringSubmatch(line); m != nil {
			c.addError(BuildError{File: m[1], Line: parseNumber(m[2]), Col: parseNumber(m[3]), Message: m[4]})
			return
		}
	}
}

// rustcError distinguishes errors in code from messages of cargo about failed tests.
func rustcError(line string) bool {
	if strings.HasPrefix(line, "error[E") {
		return true
	}
	rest, ok := strings.CutPrefix(line, "error: ")
	return ok && !strings.HasPrefix(rest, "could not compile") && !strings.HasPrefix(rest, "test failed") && !strings.HasPrefix(rest, "doctest failed") &&
		!strings.Contains(rest, " target failed") && !strings.Contains(rest, " targets failed") && !strings.HasPrefix(rest, "test run failed")
}

// cargoFetch reports whether cargo could not get the dependencies: nothing was compiled.
func cargoFetch(line string) bool {
	return slices.ContainsFunc([]string{
		"no matching package", "failed to get ", "failed to download", "failed to fetch", "failed to load source", "failed to query replaced source",
		"failed to update registry", "unable to update", "failed to select a version", "checksum for ",
	}, func(begin string) bool {
		return strings.HasPrefix(strings.ToLower(strings.TrimPrefix(line, "error: ")), begin)
	})
}

// addError adds an error unless it is a repetition: build tools print errors several times.
func (c *Compiler) addError(e BuildError) {
	key := e.File + "\x00" + e.Message
	if len(c.seen) < maxBuild && !c.seen[key] {
		c.seen[key] = true
		c.set.AddBuild(e)
	}
}

// Done keeps an error that has no place, such as one in Cargo.toml.
func (c *Compiler) Done() {
	if c.rustc == "" {
		return
	}
	if cargoFetch(c.rustc) {
		c.set.Setup = strings.TrimPrefix(c.rustc, "error: ")
	} else {
		c.addError(BuildError{Message: c.rustc})
	}
	c.rustc = ""
}
