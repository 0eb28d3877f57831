package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/unified"
)

func TestNamesOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ file, line, want string }{
		{"main.go", `	fs.StringVar(&out, "output-dir", "", "where")`, "flag output-dir"},
		{"main.go", `	cmd.Flags().BoolP("dry-run", "n", false, "")`, "flag dry-run"},
		{"cli.py", `p.add_argument("-v", "--verbose")`, "flag verbose"},
		{"cli.js", `.option('--port <n>', 'port')`, "flag port"},
		{"main.rs", `    #[arg(long = "no-color")]`, "flag no-color"},
		{"run.sh", `  -f|--force) force=1 ;;`, "flag force"},
		{"api.go", `	mux.HandleFunc("GET /v1/jobs/{id}", show)`, "route /v1/jobs/{id}"},
		{"app.py", `@app.route('/users/<id>')`, "route /users/<id>"},
		{"conf.go", "	Retries int `toml:\"max_retries,omitempty\" json:\"max_retries\"`", "config key max_retries"},
		{"conf.go", `	key := os.Getenv("APP_TOKEN")`, "config key APP_TOKEN"},
		{"a.js", `const p = process.env.APP_PORT`, "config key APP_PORT"},
		{"a.py", `limit = config["rate_limit"]`, "config key rate_limit"},
		{"a.py", `limit = settings.get("rate_limit")`, "config key rate_limit"},
		{"app.toml", `listen = ":80"`, "config key listen"},
		{"app.yml", `  log_level: debug`, "config key log_level"},
		{"main.go", `	// fs.Bool("old", false, "") and "--old" of "/v1/old"`, ""},
		{"main.go", `	x := "a/b"; y := "--"; z := "/"`, ""},
		{"main.go", `	listen := 3`, ""},
	} {
		var got []string
		for _, n := range namesOf(test.file, test.line) {
			got = append(got, n.Kind+" "+n.Text)
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %s: %q, want %q", test.file, test.line, got, test.want)
		}
	}
}

func TestLossesOf(t *testing.T) {
	t.Parallel()
	const head = "--- a/%[1]s\n+++ b/%[1]s\n@@ -%[2]d,%[3]d +%[2]d,%[4]d @@\n"
	patch := func(file string, line int, lines ...string) string {
		old := 0
		for _, l := range lines {
			if l[0] == '-' {
				old++
			}
		}
		return fmt.Sprintf(head, file, line, old, len(lines)-old) + strings.Join(lines, "\n") + "\n"
	}
	for what, test := range map[string]struct{ patch, want string }{
		"renamed":         {patch("m.go", 7, `-f.Bool("old", 0)`, `+f.Bool("new", 0)`), "flag old m.go:7 new"},
		"removed":         {patch("m.go", 7, `-x("/a")`, `-f.Bool("old", 0)`, "+x()"), "flag old m.go:8 ; route /a m.go:7 "},
		"two for one":     {patch("m.go", 7, `-f.Bool("old", 0)`, `+f.Bool("new", 0)`, `+f.Bool("more", 0)`), "flag old m.go:7 "},
		"moved":           {patch("m.go", 7, `-f.Bool("old", 0)`, "+x()") + patch("n.go", 1, `-x()`, `+f.Bool("old", 0)`), ""},
		"twice":           {patch("m.go", 7, `-x("--all")`, "+x()") + patch("n.go", 3, `-x("--all")`, "+x()"), "flag all m.go:7 "},
		"comment":         {patch("m.go", 7, `-// the flag "--old"`, `+// the flag "--new"`), ""},
		"document":        {patch("m.md", 7, "-`--old` is \"--old\"", "+x"), ""},
		"history":         {patch("CHANGELOG.md", 7, `-"--old"`, "+x"), ""},
		"other arguments": {patch("m.go", 7, `-f.Bool("old", 0)`, `+f.Bool("old", 1)`), ""},
	} {
		files, err := unified.Parse(test.patch)
		if err != nil {
			t.Fatal(what, err)
		}
		var got []string
		for i := range files {
			files[i].Strip(1)
		}
		for _, l := range lossesOf(files) {
			got = append(got, fmt.Sprintf("%s %s %s:%d %s", l.Kind, l.Text, l.File, l.Line, l.RenamedTo))
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s: %q, want %q", what, got, test.want)
		}
	}
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	flag, route, key, variable := name{flagKind, "out"}, name{routeKind, "/v1/jobs"}, name{configKind, "listen"}, name{configKind, "APP_PORT"}
	for _, test := range []struct {
		name           name
		line           string
		document, code bool
	}{
		{flag, "Use --out=DIR.", true, true},
		{flag, "Use `-out`.", true, false},
		{flag, "Use --output.", false, false},
		{flag, "Get --out-of it.", false, false},
		{flag, `f.Bool("out")`, false, true},
		{route, "GET /v1/jobs, then", true, true},
		{route, "GET /v1/jobs/7", false, false},
		{route, "x/v1/jobs", false, false},
		{key, "The server can listen on", false, true},
		{key, "Set `listen` to", true, true},
		{key, "listen = 80", true, true},
		{key, "a.listener", false, false},
		{variable, "APP_PORT is", true, true},
		{variable, "APP_PORTS is", false, false},
	} {
		if got := regexp.MustCompile(test.name.inDocument()).MatchString(test.line); got != test.document {
			t.Errorf("a document with %q names %s: %t", test.line, test.name.Text, got)
		}
		if got := regexp.MustCompile(test.name.inCode()).MatchString(test.line); got != test.code {
			t.Errorf("code with %q uses %s: %t", test.line, test.name.Text, got)
		}
	}
}
