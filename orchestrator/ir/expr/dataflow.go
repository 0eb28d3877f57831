package expr

import (
	"strconv"
	"strings"
)

// StaticPath is the part of a reference that can be followed, as "$vars.a.b"; member names are quoted against dots in them.
func (r Ref) StaticPath() string {
	var b strings.Builder
	b.WriteString(r.Root)
	for _, name := range r.MemberNames() {
		b.WriteString("." + strconv.Quote(name))
	}
	return b.String()
}

// Prefixes returns path and its parents down to two segments.
func (r Ref) Prefixes() []string {
	var out []string
	for n := 1; n <= len(r.MemberNames()); n++ {
		out = append(out, Ref{Root: r.Root, Segs: r.Segs[:n]}.StaticPath())
	}
	return out
}
