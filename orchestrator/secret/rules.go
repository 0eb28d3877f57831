package secret

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

// The rules are those of gitleaks 8.30.1 (https://github.com/gitleaks/gitleaks), as they are; MIT, see gitleaks.LICENSE.
//
//go:embed gitleaks.toml
var gitleaks string

// rule matches one kind of credential. If none of the keywords (in lower case) occurs, the expression cannot match.
type rule struct {
	ID          string      `toml:"id"`
	Regex       string      `toml:"regex"`
	Path        string      `toml:"path"`
	Keywords    []string    `toml:"keywords"`
	Entropy     float64     `toml:"entropy"`
	SecretGroup int         `toml:"secretGroup"`
	Allowlists  []allowlist `toml:"allowlists"`

	compile func() (regex, path *regexp.Regexp)
}

// allowlist lists exceptions of a rule. RegexTarget selects the text of its expressions: the secret, the match or its line.
type allowlist struct {
	Condition   string   `toml:"condition"` // AND, else any
	Paths       []string `toml:"paths"`
	Regexes     []string `toml:"regexes"`
	RegexTarget string   `toml:"regexTarget"`
	StopWords   []string `toml:"stopwords"`

	compile func() (paths, regexes []*regexp.Regexp)
}

type ruleSet struct {
	Allowlist allowlist `toml:"allowlist"`
	Rules     []rule    `toml:"rules"`
}

// rules reads the rules once. Expressions are compiled when a text has a keyword of theirs: most are never used.
var rules = sync.OnceValues(func() (*ruleSet, error) {
	var s ruleSet
	if _, err := toml.Decode(gitleaks, &s); err != nil {
		return nil, fmt.Errorf("read the rules for secrets: %w", err)
	}
	s.Allowlist.compileLazily()
	for i := range s.Rules {
		r := &s.Rules[i]
		r.compile = sync.OnceValues(func() (regex, path *regexp.Regexp) {
			if r.Regex != "" {
				regex = regexp.MustCompile(r.Regex)
			}
			if r.Path != "" {
				path = regexp.MustCompile(r.Path)
			}
			return regex, path
		})
		for n := range r.Allowlists {
			r.Allowlists[n].compileLazily()
		}
	}
	return &s, nil
})

func (a *allowlist) compileLazily() {
	a.compile = sync.OnceValues(func() (paths, regexes []*regexp.Regexp) {
		for _, p := range a.Paths {
			paths = append(paths, regexp.MustCompile(p))
		}
		for _, e := range a.Regexes {
			regexes = append(regexes, regexp.MustCompile(e))
		}
		return paths, regexes
	})
}

// Hit is a place that has the form of a credential.
type Hit struct {
	Rule string
	Line int // of the text, from 1
}

// maxHits bounds the hits of a rule in one text.
const maxHits = 100

// Scan finds text in the form of a credential in a file. It returns at most one hit for each rule and line.
func Scan(path, text string) ([]Hit, error) {
	set, err := rules()
	if err != nil {
		return nil, err
	}
	if paths, _ := set.Allowlist.compile(); matchesAny(paths, path) {
		return nil, nil
	}
	lower := strings.ToLower(text)
	var hits []Hit
	for i := range set.Rules {
		r := &set.Rules[i]
		if len(r.Keywords) > 0 && !slices.ContainsFunc(r.Keywords, func(k string) bool { return strings.Contains(lower, strings.ToLower(k)) }) {
			continue
		}
		regex, only := r.compile()
		if only != nil && !only.MatchString(path) {
			continue
		}
		if regex == nil { // the rule matches paths
			hits = append(hits, Hit{r.ID, 1})
			continue
		}
		row, begin, counted, before := 1, 0, 0, len(hits)
		for _, at := range regex.FindAllStringSubmatchIndex(text, -1) {
			if n := strings.Count(text[counted:at[0]], "\n"); n > 0 {
				row, begin = row+n, strings.LastIndexByte(text[:at[0]], '\n')+1
			}
			counted = at[0]
			hit := Hit{r.ID, row}
			found := secretOf(r, text, at)
			if r.Entropy > 0 && shannonEntropy(found) <= r.Entropy || slices.Contains(hits, hit) {
				continue
			}
			line, _, _ := strings.Cut(text[begin:], "\n")
			allowed := func(a allowlist) bool { return a.isAllowed(path, found, text[at[0]:at[1]], line) }
			if !allowed(set.Allowlist) && !slices.ContainsFunc(r.Allowlists, allowed) {
				hits = append(hits, hit)
			}
			if len(hits)-before == maxHits {
				break
			}
		}
	}
	return hits, nil
}

// secretOf is the part of a match that is the secret: the group that the rule names, else the first that matched.
func secretOf(r *rule, text string, at []int) string {
	for group := max(r.SecretGroup, 1); 2*group+1 < len(at); group++ {
		if at[2*group] < at[2*group+1] {
			return text[at[2*group]:at[2*group+1]]
		}
		if r.SecretGroup > 0 {
			break
		}
	}
	return text[at[0]:at[1]]
}

func (a allowlist) isAllowed(path, secret, match, line string) bool {
	target := cmp.Or(map[string]string{"match": match, "line": line}[a.RegexTarget], secret)
	paths, regexes := a.compile()
	lower := strings.ToLower(secret)
	var checks []bool
	if len(paths) > 0 {
		checks = append(checks, matchesAny(paths, path))
	}
	if len(regexes) > 0 {
		checks = append(checks, matchesAny(regexes, target))
	}
	if len(a.StopWords) > 0 {
		checks = append(checks, slices.ContainsFunc(a.StopWords, func(w string) bool { return strings.Contains(lower, strings.ToLower(w)) }))
	}
	if a.Condition == "AND" {
		return len(checks) > 0 && !slices.Contains(checks, false)
	}
	return slices.Contains(checks, true)
}

func matchesAny(all []*regexp.Regexp, text string) bool {
	return slices.ContainsFunc(all, func(e *regexp.Regexp) bool { return e.MatchString(text) })
}

// shannonEntropy is Shannon's, in bits a byte.
func shannonEntropy(text string) float64 {
	var counts [256]float64
	for _, c := range []byte(text) {
		counts[c]++
	}
	sum, n := 0.0, float64(len(text))
	for _, c := range counts {
		if c > 0 {
			sum -= c / n * math.Log2(c/n)
		}
	}
	return sum
}

func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
