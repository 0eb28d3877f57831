package test

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/test/results"
)

func newPytest() runner {
	return runner{
		name:   "pytest",
		detect: detectPytest,
		plan: func(p *project) (plan, error) {
			args := p.args
			if p.below != "." {
				args = append(slices.Clone(args), p.below)
			}
			return p.pytestPlan(args)
		},
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var ids []string
			for _, c := range failed {
				ids = append(ids, c.ID)
			}
			one, err := p.pytestPlan(ids)
			return []plan{one}, err
		},
		packages: true,
		none:     func(code int, _ string) bool { return code == 5 },
	}
}

func detectPytest(f *folder) string {
	if file := f.firstFile("pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py"); file != "" {
		return file
	}
	for _, file := range []string{"pyproject.toml", "setup.cfg", "tox.ini", "setup.py", "Pipfile", "requirements.txt", "requirements-dev.txt", "requirements-test.txt", "dev-requirements.txt"} {
		if strings.Contains(f.readText(file), "pytest") {
			return file + ": pytest"
		}
	}
	for _, file := range f.pythonTests() {
		text := f.readText(file)
		for _, sign := range []string{"import pytest", "from pytest", "\ndef test_", "\nasync def test_"} {
			if strings.Contains("\n"+text, sign) {
				return file
			}
		}
	}
	return ""
}

func (f *folder) pythonTests() []string {
	var files []string
	for _, dir := range []string{".", "tests", "test"} {
		files = append(append(files, f.globIn(dir, "test_*.py")...), f.globIn(dir, "*_test.py")...)
	}
	return files
}

// findPython is the interpreter of the project's virtual environment, else the one on PATH.
func (p *project) findPython() string {
	for _, dir := range []string{".venv/bin", "venv/bin"} {
		if shown, err := p.findProgram("python", dir); err == nil && strings.Contains(shown, dir) {
			return shown
		}
	}
	return "python3"
}

// pythonEnv lets tests import what lies in the project's folder, as python -m does, and leaves no byte code there.
func (p *project) pythonEnv(dirs ...string) []string {
	path := strings.Join(append(dirs, p.dir), ":")
	if given := proc.Getenv(p.env, "PYTHONPATH", ""); given != "" {
		path += ":" + given
	}
	return []string{"PYTHONPATH=" + path, "PYTHONDONTWRITEBYTECODE=1"}
}

func (p *project) pytestPlan(args []string) (plan, error) {
	report := p.reportPath("pytest.xml")
	command := []string{p.findPython(), "-m", "pytest"}
	if command[0] == "python3" {
		if _, err := p.findProgram("pytest"); err == nil { // it knows the interpreter that it is installed for
			command = []string{"pytest"}
		}
	}
	shown := slices.Concat(command, []string{"-v"}, args)
	locator := results.NewLocator()
	return plan{
		shown: shown, argv: append(slices.Clone(shown), "--junitxml="+report, "-o", "junit_family=xunit1"), env: p.pythonEnv(),
		format: results.FormatJUnit, reports: []string{report},
		adjust: func(c *results.Case) {
			locator.Python(c)
			pytestID(c)
		},
		mark: func(line string) (passed, failed bool) {
			return strings.Contains(line, " PASSED"), strings.Contains(line, " FAILED ") || strings.Contains(line, " ERROR ")
		},
	}, nil
}

// pytestID makes pytest's own name of a test: file::Class::name.
func pytestID(c *results.Case) {
	module := strings.ReplaceAll(strings.TrimSuffix(c.File, ".py"), "/", ".")
	classes, ok := strings.CutPrefix(c.Suite, module)
	switch {
	case c.Status == results.Errored && c.Message == "collection failure":
		c.Package = true
		c.ID = strings.ReplaceAll(c.Name, ".", "/") + ".py"
		c.File = cmp.Or(c.File, c.ID)
		for line := range strings.Lines(c.Detail) {
			if cause, ok := strings.CutPrefix(line, "E   "); ok {
				c.Message = strings.TrimSpace(cause)
			}
		}
	case c.File == "":
		c.ID = c.Name
	case !ok:
		c.ID = c.File + "::" + c.Name
	default:
		c.ID = c.File + strings.ReplaceAll(classes, ".", "::") + "::" + c.Name
	}
}
