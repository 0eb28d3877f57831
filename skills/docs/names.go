package docs

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/skills/unified"
)

// Kinds of names that users of a program write.
const (
	flagKind   = "flag"
	routeKind  = "route"
	configKind = "config key"
)

// name is a name that users of a program write.
type name struct{ Kind, Text string }

// loss is a name that code had and lost.
type loss struct {
	name
	File      string // of the code
	Line      int
	RenamedTo string // "" if that is not known
}

// rule finds names that a line of code declares.
type rule struct {
	kind    string
	files   string         // extensions of the files to which the rule applies; "" for all
	pattern *regexp.Regexp // its first group is the name
}

var rules = sync.OnceValue(func() []rule {
	return []rule{
		{flagKind, "", regexp.MustCompile("[\"'`]--([a-z][a-z0-9-]+)")},
		{flagKind, ".sh", regexp.MustCompile(`(?:^|[\s|])--([a-z][a-z0-9-]+)(?:=\*)?\)`)},                                                              // a case of a shell
		{flagKind, ".go", regexp.MustCompile(`\.(?:String|Bool|Int|Uint|Float|Duration|Count|Text|Func|Var)\w*\((?:&?[\w.]+, *)?"([a-z][a-z0-9-]+)"`)}, // flag, pflag
		{flagKind, ".rs", regexp.MustCompile(`\blong *= *"([a-z][a-z0-9-]+)"`)},                                                                        // clap
		{routeKind, "", regexp.MustCompile("[\"'`](?:(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) )?(/[A-Za-z][\\w.~{}:*<>-]*(?:/[\\w.~{}:*<>-]+)*)[\"'`]")},
		{configKind, "", regexp.MustCompile("\\b(?:toml|yaml|json|ini|mapstructure|koanf|env):\"([A-Za-z][\\w.-]+)")},                           // tags of Go
		{configKind, "", regexp.MustCompile(`(?i:\bgetenv|lookupenv|environ|process\.env)(?:\.get)?[\[(.]+["']?([A-Z][A-Z0-9_]+)`)},             // variables
		{configKind, "", regexp.MustCompile(`(?i:\b(?:viper|config|conf|cfg|settings))(?:(?i:\.(?:get|is)\w*)\(|\[)["']([A-Za-z][\w.-]+)["']`)}, // look-ups
		{configKind, ".toml .ini .yaml .yml .conf .cfg .env .properties", regexp.MustCompile(`^\s*["']?([A-Za-z][\w.-]+)["']?\s*[:=]`)},         // files of settings
	}
})

// namesOf returns the names that a line of a file declares. Comments declare none.
func namesOf(file, line string) (all []name) {
	if isComment(line) {
		return nil
	}
	ext := path.Ext(file)
	for _, r := range rules() {
		if r.files != "" && !slices.Contains(strings.Fields(r.files), ext) {
			continue
		}
		for _, m := range r.pattern.FindAllStringSubmatch(line, -1) {
			if n := (name{r.kind, m[1]}); !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return all
}

// isComment reports whether a line of code is a comment in one of the usual languages.
func isComment(line string) bool {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "#[") { // an attribute of Rust
		return false
	}
	return slices.ContainsFunc([]string{"//", "#", "/*", "*", "-- ", ";", "<!--", "%"}, func(mark string) bool { return strings.HasPrefix(line, mark) })
}

// documents and others are patterns of files: the documents, and the files that are neither documents nor code, because they tell
// the past or are made by other files.
var (
	documents = []string{"*.md", "*.mdx", "*.rst", "*.adoc", "*.txt", "*.1", "*.5", "*.8"}
	others    = []string{"CHANGELOG*", "CHANGES*", "HISTORY*", "NEWS*", "RELEASE*", "*.lock", "*.sum", "Cargo.toml", "pyproject.toml", "package.json", "package-lock.json", "vendor/", "node_modules/"}
)

// isCode reports whether the names in a file count.
func isCode(file string) bool {
	for _, pattern := range slices.Concat(documents, others) {
		folder, isFolder := strings.CutSuffix(pattern, "/")
		if isFolder && slices.Contains(strings.Split(file, "/"), folder) {
			return false
		}
		if matched, err := path.Match(pattern, path.Base(file)); matched || err != nil {
			return false
		}
	}
	return true
}

// lossesOf returns the names that the changes of code remove and declare nowhere else in the same changes, in the order of the
// changes.
func lossesOf(files []unified.File) []loss {
	var lost []loss
	kept := map[name]bool{}
	for _, f := range files {
		for _, h := range f.Hunks {
			before, after := declaredIn(f, h)
			for _, l := range after {
				kept[l.name] = true
			}
			lost = append(lost, pairNames(before, after)...)
		}
	}
	seen := map[name]bool{}
	return slices.DeleteFunc(lost, func(l loss) bool {
		again := kept[l.name] || seen[l.name]
		seen[l.name] = true
		return again
	})
}

// declaredIn returns the names that a hunk removes and adds.
func declaredIn(f unified.File, h unified.Hunk) (before, after []loss) {
	was := h.OldStart
	for _, l := range h.Lines {
		switch {
		case l.Op == '-' && f.Old != "" && isCode(f.Old):
			for _, n := range namesOf(f.Old, l.Text) {
				before = append(before, loss{name: n, File: f.Old, Line: was})
			}
		case l.Op == '+' && f.New != "" && isCode(f.New):
			for _, n := range namesOf(f.New, l.Text) {
				after = append(after, loss{name: n})
			}
		}
		if l.Op != '+' {
			was++
		}
	}
	return before, after
}

// pairNames returns the names of before that after lacks. If after has as many new ones of their kind, each is the new name of one.
func pairNames(before, after []loss) (lost []loss) {
	for _, kind := range []string{flagKind, routeKind, configKind} {
		gone, made := listMissing(kind, before, after), listMissing(kind, after, before)
		for i := range gone {
			if len(gone) == len(made) {
				gone[i].RenamedTo = made[i].Text
			}
		}
		lost = append(lost, gone...)
	}
	return lost
}

// listMissing returns the names of one kind in all that other lacks.
func listMissing(kind string, all, other []loss) (rest []loss) {
	for _, l := range all {
		if l.Kind == kind && !slices.ContainsFunc(other, func(o loss) bool { return o.name == l.name }) {
			rest = append(rest, l)
		}
	}
	return rest
}

// inDocument returns the expression for a line of a document that names n. A config key counts where it is set or quoted, because
// many are words of everyday language.
func (n name) inDocument() string {
	text := regexp.QuoteMeta(n.Text)
	switch {
	case n.Kind == flagKind:
		return `(^|[^\w-])--?` + text + `($|[^\w-])`
	case n.Kind == routeKind:
		return `(^|[^\w.-])` + text + `($|[^\w/{-])`
	case n.Text == strings.ToUpper(n.Text): // a variable
		return `(^|\W)` + text + `($|\W)`
	}
	return "[`\"']" + text + "[`\"']|(^|[^\\w.-])" + text + "[`\"']?\\s*[=:]"
}

// inCode returns the expression for a line of code that still uses n.
func (n name) inCode() string {
	text := regexp.QuoteMeta(n.Text)
	switch n.Kind {
	case flagKind:
		return "[\"'`]" + text + "[\"'`]|--" + text + `($|[^\w-])`
	case routeKind:
		return n.inDocument()
	}
	return `(^|\W)` + text + `($|[^\w-])`
}
