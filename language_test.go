package lattice_test

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package may have this much dialect at most; see docs/GLOSSARY.md. Those of languageCeilings had more when they were
// last measured.
const (
	maxDialect = 2  // words of dialect in 1,000 words of comments
	maxOneWord = 20 // percent of unexported functions with a name of one word
)

// ceiling bounds the words of dialect in 1,000 words of comments and the percentage of unexported functions that have a
// name of one word.
type ceiling struct{ dialect, oneWord int }

var dialectWords = regexp.MustCompile(`(?i)\b(what|whatever|whoever|nobody|somebody|anew|bears|beside|meanwhile|in vain|of old|forth)\b`)

// fieldTerms are names of one word that every Go programmer knows.
var fieldTerms = map[string]bool{
	"main": true, "parse": true, "open": true, "close": true, "read": true, "write": true, "encode": true, "decode": true, "run": true, "clone": true,
}

// language is a measurement of one package.
type language struct{ words, dialect, functions, oneWord int }

// measure counts in comments and names of non-test files, by the folder of the package.
func measure(t *testing.T) map[string]*language {
	files, _ := sources(t)
	all := map[string]*language{}
	for _, f := range files {
		if ast.IsGenerated(f.File) {
			continue
		}
		dir := filepath.ToSlash(filepath.Dir(f.path))
		if all[dir] == nil {
			all[dir] = &language{}
		}
		l := all[dir]
		for _, group := range f.Comments {
			text := group.Text()
			l.words += len(strings.Fields(text))
			l.dialect += len(dialectWords.FindAllString(text, -1))
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Name.IsExported() || fn.Name.Name == "_" {
				continue
			}
			l.functions++
			if name := fn.Name.Name; strings.ToLower(name) == name && !fieldTerms[name] {
				l.oneWord++
			}
		}
	}
	return all
}

// ceiling returns the lowest ceiling that the package keeps, in steps of 1 and 5. A single word or name is no measure.
func (l language) ceiling() (c ceiling) {
	if l.dialect > 1 {
		c.dialect = (1000*l.dialect + l.words - 1) / l.words
	}
	if l.oneWord > 1 {
		c.oneWord = (20*l.oneWord + l.functions - 1) / l.functions * 5
	}
	return ceiling{max(c.dialect, maxDialect), max(c.oneWord, maxOneWord)}
}

// ceilingOf returns the ceiling of a package. A package that is not listed meets the goals, unless it lies in a room with
// listed packages: code that moves within a room keeps the ceilings of the room.
func ceilingOf(dir string) ceiling {
	if c, ok := languageCeilings[dir]; ok {
		return c
	}
	most := ceiling{maxDialect, maxOneWord}
	for room := path.Dir(dir); strings.Contains(room, "/"); room = path.Dir(room) {
		for listed, c := range languageCeilings {
			if listed == room || strings.HasPrefix(listed, room+"/") {
				most = ceiling{max(most.dialect, c.dialect), max(most.oneWord, c.oneWord)}
			}
		}
	}
	return most
}

// TestLanguage holds comments and names to the glossary. A package that is above the goals must not get worse; the test
// prints the ceilings that can be lowered.
func TestLanguage(t *testing.T) {
	all := measure(t)
	goals := ceiling{maxDialect, maxOneWord}
	var lower []string
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		l, most := all[dir], ceilingOf(dir)
		now := l.ceiling()
		if now.dialect > most.dialect {
			t.Errorf("%s: the comments have %d words of dialect in %d, such as a free %q; %d in 1,000 are allowed: write the standard noun, see docs/GLOSSARY.md",
				dir, l.dialect, l.words, "what", most.dialect)
		}
		if now.oneWord > most.oneWord {
			t.Errorf("%s: %d of %d unexported functions have a name of one word; %d %% are allowed: write verb and object, such as estimateTokens",
				dir, l.oneWord, l.functions, most.oneWord)
		}
		if _, listed := languageCeilings[dir]; now != most && (listed || now != goals) {
			lower = append(lower, fmt.Sprintf("\t%q: {%d, %d},", dir, now.dialect, now.oneWord))
		}
	}
	for dir := range languageCeilings {
		if all[dir] == nil {
			lower = append(lower, fmt.Sprintf("\t%q is gone", dir))
		}
	}
	if slices.Sort(lower); len(lower) > 0 {
		t.Logf("ceilings that can be lowered:\n%s", strings.Join(lower, "\n"))
	}
}

// documentWords are words and phrases that docs/GLOSSARY.md replaces. A document has none of them, apart from a free "what",
// which has a ceiling, and from code.
var (
	documentWords = regexp.MustCompile(`(?i)\b(whatever|whoever|nobody|somebody|anybody|anew|bears|beside|meanwhile|in vain|of old|forth|so that nothing)\b|\b(\w+ )?(is|are) no (\w+)|(?:^|\. )Who \w+s\b`)
	freeWhat      = regexp.MustCompile(`(?i)\bwhat\b`)
	codeOfPage    = regexp.MustCompile("(?s)\n```.*?\n```|`[^`]*`|\\]\\([^)]*\\)")
)

// TestDocumentLanguage holds the documents to the glossary, as TestLanguage does comments.
func TestDocumentLanguage(t *testing.T) {
	const maxWhat = 3 // in 1,000 words
	for file := range repositoryFiles(t) {
		if !strings.HasSuffix(file, ".md") || strings.Contains(file, "testdata/") || strings.HasPrefix(file, "manifests/") ||
			file == "docs/GLOSSARY.md" {
			continue
		}
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := codeOfPage.ReplaceAllString(string(page), " CODE ")
		for _, m := range documentWords.FindAllStringSubmatch(text, -1) {
			if m[2] == "there " || m[2] == "There " || m[4] == "longer" {
				continue // there is no such run
			}
			t.Errorf("%s: write the standard term instead of %q, see docs/GLOSSARY.md", file, m[0])
		}
		words, what := len(strings.Fields(text)), len(freeWhat.FindAllString(text, -1))
		if what > 1 && 1000*what > maxWhat*words {
			t.Errorf("%s: %d of %d words are \"what\"; %d in 1,000 are allowed: write the noun", file, what, words, maxWhat)
		}
	}
}

// languageCeilings may only fall; a line that says {2, 20} goes.
var languageCeilings = map[string]ceiling{
	"orchestrator/api": {4, 25},
}
