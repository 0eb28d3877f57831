package lattice_test

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A package may have this much dialect at most; see docs/GLOSSARY.md. A single word or name is no measure.
const (
	maxDialect = 2  // words of dialect in 1,000 words of comments
	maxOneWord = 20 // percent of unexported functions with a name of one word
)

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

// TestLanguage holds comments and names to the glossary.
func TestLanguage(t *testing.T) {
	all := measure(t)
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		l := all[dir]
		if l.dialect > 1 && 1000*l.dialect > maxDialect*l.words {
			t.Errorf("%s: the comments have %d words of dialect in %d, such as a free %q; %d in 1,000 are allowed: write the standard noun, see docs/GLOSSARY.md",
				dir, l.dialect, l.words, "what", maxDialect)
		}
		if l.oneWord > 1 && 100*l.oneWord > maxOneWord*l.functions {
			t.Errorf("%s: %d of %d unexported functions have a name of one word; %d %% are allowed: write verb and object, such as estimateTokens",
				dir, l.oneWord, l.functions, maxOneWord)
		}
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
