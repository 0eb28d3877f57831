package policy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Change is a file that a push changes.
type Change struct {
	Path    string
	Deleted bool
}

// PathVerdict is the decision about one file.
type PathVerdict struct {
	Path     string       `json:"path"`
	Decision PathDecision `json:"decision"`
	Rule     Rule         `json:"rule"`
	Name     string       `json:"name,omitempty"`
	Why      string       `json:"why,omitempty"`
	Deleted  bool         `json:"deleted,omitempty"`
}

// Path decides about a file. A deletion is never refused: Deny becomes Warn.
func (p Policy) Path(c Change) PathVerdict {
	v := PathVerdict{Path: c.Path, Decision: PathAllow, Rule: Rule{Source: "class", Name: "other files"}, Deleted: c.Deleted}
	for _, l := range p.ceiling {
		if found, ok := l.decidePath(c); ok {
			v = found
			break
		}
	}
	if p.repository != nil {
		if narrow, ok := p.repository.decidePath(c); ok && narrow.Decision.rankOf() > v.Decision.rankOf() {
			v = narrow
		}
	}
	if c.Deleted && v.Decision == PathDeny {
		v.Decision = PathWarn
	}
	return v
}

func (d PathDecision) rankOf() int { return slices.Index(PathDecisions(), string(d)) }

// decidePath returns the decision of the first rule of l that matches a file.
func (l Layer) decidePath(c Change) (PathVerdict, bool) {
	for i, r := range l.Paths {
		if slices.ContainsFunc(r.Match, func(pattern string) bool { return matchesPath(pattern, c.Path) }) {
			rule := l.ruleOf(fmt.Sprintf("paths[%d]", i))
			rule.Name = "paths." + r.Name
			why := cmp.Or(r.Why, r.Name)
			return PathVerdict{Path: c.Path, Decision: r.Decision, Rule: rule, Name: r.Name, Why: why, Deleted: c.Deleted}, true
		}
	}
	return PathVerdict{}, false
}

// PathRule is a rule about files with its place.
type PathRule struct {
	Path
	Rule Rule
}

// PathRules returns the rules about files in the order in which they are tried, those of the repository last.
func (p Policy) PathRules() (all []PathRule) {
	for _, l := range p.allLayers() {
		for i, r := range l.Paths {
			all = append(all, PathRule{r, l.ruleOf(fmt.Sprintf("paths[%d]", i))})
		}
	}
	return all
}

// matchesPath reports whether a path matches a pattern of Path.Match.
func matchesPath(pattern, name string) bool {
	pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	rooted := strings.HasPrefix(pattern, "/")
	pattern = strings.TrimPrefix(pattern, "/")
	if pattern == "" { // the root itself: all files
		return true
	}
	below := strings.HasSuffix(pattern, "/")
	want, have := strings.Split(strings.TrimSuffix(pattern, "/"), "/"), strings.Split(name, "/")
	if !rooted {
		want = slices.Insert(want, 0, "**")
	}
	if below {
		want = append(want, "*", "**") // at least one segment
	}
	return matchesSegments(want, have)
}

// matchesSegments matches the segments of a path with a pattern. On a mismatch it backtracks to the last ** alone, so the time is
// bounded by the product of the lengths. A repository may choose both.
func matchesSegments(want, have []string) bool {
	w, h, last, taken := 0, 0, -1, 0
	for h < len(have) {
		ok := false
		switch {
		case w < len(want) && want[w] == "**":
			last, taken = w, h
			w++
			continue
		case w < len(want):
			ok, _ = path.Match(want[w], have[h])
		}
		switch {
		case ok:
			w, h = w+1, h+1
		case last < 0:
			return false
		default:
			taken++
			w, h = last+1, taken
		}
	}
	for w < len(want) && want[w] == "**" {
		w++
	}
	return w == len(want)
}

// maxNamed is the number of paths of one rule that a line names, so that decoys of one kind hide no other kind.
const maxNamed = 5

// Review decides about all files of a push. It returns a line for each rule that warns or asks, the first refused file or
// nil, and whether a person must be asked.
func (p Policy) Review(changes []Change, display func(string) string) (lines []string, refused *PathVerdict, ask bool) {
	var order []string
	byRule := map[string][]PathVerdict{}
	for _, c := range changes {
		v := p.Path(c)
		switch v.Decision {
		case PathDeny:
			if refused == nil {
				refused = &v
			}
			continue
		case PathAllow:
			continue
		case PathAsk:
			ask = true
		}
		if byRule[v.Why] == nil {
			order = append(order, v.Why)
		}
		byRule[v.Why] = append(byRule[v.Why], v)
	}
	slices.SortStableFunc(order, func(a, b string) int {
		return byRule[b][0].Decision.rankOf() - byRule[a][0].Decision.rankOf()
	})
	for _, why := range order {
		names := []string{}
		for _, v := range byRule[why] {
			name := display(v.Path)
			if v.Deleted {
				name += " (deleted)"
			}
			names = append(names, name)
		}
		lines = append(lines, warningLine(why, names))
	}
	return lines, refused, ask
}

func warningLine(why string, names []string) string {
	count, more := "", ""
	if len(names) > 1 {
		count = fmt.Sprintf(" (%d)", len(names))
	}
	if n := len(names) - maxNamed; n > 0 {
		names, more = names[:maxNamed], fmt.Sprintf(", and %d more", n)
	}
	return why + count + ": " + strings.Join(names, ", ") + more
}
