package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/skills/test/results"
)

// TestGoCommands checks that -args and the arguments behind it follow the packages: the go command passes them all to the test binary.
func TestGoCommands(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                        "go test -json ./...",
		"-run X":                  "go test -json -run X ./...",
		"./a":                     "go test -json ./a",
		"-v -args -x ./data":      "go test -json -v ./... -args -x ./data",
		"./a --args -run Y":       "go test -json ./a --args -run Y",
		"-count=1 all":            "go test -json -count=1 all",
		"-args":                   "go test -json ./... -args",
		"-run X ./a -args -run Y": "go test -json -run X ./a -args -run Y",
	} {
		f := write(t, map[string]string{"go.mod": "module m\n"})
		p := &project{folder: *f, below: ".", args: strings.Fields(args)}
		r := newGolang()
		one, err := r.plan(p)
		if got := strings.Join(one.shown, " "); err != nil || got != want {
			t.Errorf("%q is run as %s, %v, want %s", args, got, err, want)
		}
	}
	f := write(t, map[string]string{"go.mod": "module m\n"})
	p := &project{folder: *f, below: ".", args: strings.Fields("-race -run X -count 3 -failfast -vet=off ./a -skip=Y -args -run Z")}
	r := newGolang()
	plans, err := r.again(p, []results.Case{
		{Suite: "m/a", Name: "TestOne"}, {Suite: "m/b", Name: "m/b", Package: true}, {Suite: "m/a", Name: "TestTwo/a+b"},
	})
	var got []string
	for _, one := range plans {
		got = append(got, strings.Join(one.argv, " "))
	}
	want := []string{
		`go test -json -count=1 -vet=off -race -run ^TestOne$|^TestTwo$/^a\+b$ m/a -args -run Z`,
		`go test -json -count=1 -vet=off -race m/b -args -run Z`,
	}
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the failed tests are run again as\n%s\n%v, want\n%s", strings.Join(got, "\n"), err, strings.Join(want, "\n"))
	}
}

// TestGoWork checks the forms in which a go.work names modules, and that those outside of the folder are left out.
func TestGoWork(t *testing.T) {
	t.Parallel()
	f := write(t, map[string]string{
		"go.work":  "go 1.25 // use ./no\n\nuse ./a\nuse (\n\t\"./b\" // the second\n\n\t../outside\n\t/abs\n)\nreplace (\n\tx => ./y\n)\n",
		"a/go.mod": "// module no\nmodule example.com/a\n", "b/go.mod": "module \"example.com/b\" // b\n",
	})
	p := &project{folder: *f, below: "."}
	if got := fmt.Sprint(p.goPackages()); got != "[./a/... ./b/...]" {
		t.Errorf("packages %s", got)
	}
	if got := fmt.Sprint(p.goModules()); got != "map[example.com/a:a example.com/b:b]" {
		t.Errorf("modules %s", got)
	}
	p.below = "a/sub"
	if got := fmt.Sprint(p.goPackages()); got != "[./a/sub/...]" {
		t.Errorf("packages below a folder %s", got)
	}
}

// TestScriptCalls checks that a script of package.json counts if it is one simple call of the tool.
func TestScriptCalls(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"jest": "true [] [] []",
		"NODE_ENV=test npx jest --config 'a b' \"\"": `true ["NODE_ENV=test"] [] ["--config" "a b" ""]`,
		"node --flag node_modules/.bin/jest.js -x":   `true [] ["--flag"] ["-x"]`,
		"cross-env A=1 B=2 jest":                     `true ["A=1" "B=2"] [] []`,
		"jest && echo done":                          "false [] [] []",
		"jest $HOME":                                 "false [] [] []",
		"jest 'open":                                 "false [] [] []",
		"c8 jest":                                    "false [] [] []",
		"--jest":                                     "false [] [] []",
		"":                                           "false [] [] []",
	} {
		c, ok := scriptCall(script, "jest")
		if got := fmt.Sprintf("%v %q %q %q", ok, c.env, c.node, c.args); got != want {
			t.Errorf("scriptCall(%q) = %s, want %s", script, got, want)
		}
	}
}

// TestWordsAreQuoted checks that arguments and names of tests are quoted for shells, patterns and filters.
func TestWordsAreQuoted(t *testing.T) {
	t.Parallel()
	if got := anyOf([]string{"a (b)", "c|d"}); got != `^(a \(b\)|c\|d)$` {
		t.Errorf("anyOf = %s", got)
	}
	if got := goPattern("TestA/b.c/d"); got != `^TestA$/^b\.c$/^d$` {
		t.Errorf("goPattern = %s", got)
	}
	cases := []results.Case{{Suite: "a.B", Name: "adds(int)[1]"}, {Suite: "a.B", Name: "adds(int)[2]"}, {Suite: "a.B", Name: "named {0}"}, {Suite: "a.B", Name: "(odd)"}}
	if got := fmt.Sprint(javaTests(cases, "#")); got != "[a.B#adds a.B#named a.B#(odd)]" {
		t.Errorf("javaTests = %s", got)
	}
	if got := fmt.Sprint(beforeDashes([]string{"-p", "x", "--", "--exact", "--"})); got != "[-p x]" {
		t.Errorf("beforeDashes = %s", got)
	}
	if got := fmt.Sprint(removeFlags([]string{"run", "--watch=false", "--watching", "a"}, "run", "--watch")); got != "[--watching a]" {
		t.Errorf("removeFlags = %s", got)
	}
}

// TestCTestTimeouts checks that timeouts are read from the output, since no report of ctest has them.
func TestCTestTimeouts(t *testing.T) {
	t.Parallel()
	c := &ctestOutput{results.NewCompiler(&results.Set{}), map[string]bool{}}
	for _, line := range []string{"1/3 Test #1: fast ....   Passed 0.1 sec", "2/3 Test #2: slow one .....***Timeout 0.20 sec", "***Timeout", "a ***Timeout: b"} {
		c.Line(line)
	}
	if len(c.timeouts) != 1 || !c.timeouts["slow one"] {
		t.Errorf("timeouts %v", c.timeouts)
	}
}

func TestTimeLimitsAndEnvironment(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]time.Duration{0: defaultTimeout, 0.5: time.Second / 2, maxTimeout.Seconds(): maxTimeout, maxTimeout.Seconds() + 1: 0, -1: 0, 1e-12: 0, 1e300: 0} {
		if got, err := timeLimit(seconds); got != want || (err != nil) != (want == 0) {
			t.Errorf("timeLimit(%g) = %v, %v, want %v", seconds, got, err, want)
		}
	}
	got, err := addEnv([]string{"A=1"}, map[string]string{"C": "x=y", "B": ""})
	if err != nil || fmt.Sprint(got) != "[A=1 B= C=x=y]" {
		t.Errorf("addEnv = %v, %v", got, err)
	}
	for _, wrong := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A\x00": "x"}, {"A": "x\x00"}} {
		if _, err := addEnv(nil, wrong); err == nil {
			t.Errorf("addEnv takes %q", wrong)
		}
	}
	if got := fmt.Sprint(removeColor([]string{"CI=", "FORCE_COLOR=1", "CLICOLOR_FORCE=1", "NO_COLORS=1"})); got != "[CI= NO_COLORS=1 NO_COLOR=1]" {
		t.Errorf("removeColor = %s", got)
	}
}
