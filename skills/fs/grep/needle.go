package grep

import (
	"bytes"
	"regexp/syntax"
	"strings"
)

// needle is a text to search for, not empty. With fold it is lower case ASCII and stands for upper case as well.
type needle struct {
	text []byte
	fold bool
	rare int // with fold: which of its bytes to look for first
}

func newNeedle(text string, fold bool) needle {
	n := needle{text: []byte(text)}
	lower := strings.ToLower(text)
	if !fold || lower == strings.ToUpper(text) {
		return n
	}
	n.text, n.fold = []byte(lower), true
	for i := range n.text {
		if rarityOf(n.text[i]) > rarityOf(n.text[n.rare]) {
			n.rare = i
		}
	}
	return n
}

// rarityOf ranks bytes by how seldom they are in source code; only the order matters.
func rarityOf(c byte) int {
	if c == ' ' {
		return 0
	}
	if i := strings.IndexByte("etaoinsrlcdupmfhgbvywxkqjz", c); i >= 0 {
		return 1 + i
	}
	return 30
}

// indexIn is bytes.Index for the needle.
func (n *needle) indexIn(block []byte) int {
	if !n.fold {
		return bytes.Index(block, n.text)
	}
	c := n.text[n.rare]
	upper := c
	if 'a' <= c && c <= 'z' {
		upper -= 'a' - 'A'
	}
	last := len(block) - len(n.text) + n.rare // the last place where that byte may be
	nextLower, nextUpper := -1, -1
	for at := n.rare; at <= last; at++ {
		if nextLower < at {
			nextLower = seekByte(block, at, last, c)
		}
		if nextUpper < at {
			nextUpper = seekByte(block, at, last, upper)
		}
		at = min(nextLower, nextUpper)
		if at <= last && equalFold(block[at-n.rare:], n.text) {
			return at - n.rare
		}
	}
	return -1
}

// seekByte is the first place of c from at to last, beyond last when there is none.
func seekByte(block []byte, at, last int, c byte) int {
	i := bytes.IndexByte(block[at:last+1], c)
	if i < 0 {
		return len(block) + 1
	}
	return at + i
}

func equalFold(block, lower []byte) bool {
	for i := range len(lower) {
		c := block[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// maxNeeds is how many needles are worth searching for.
const maxNeeds = 8

// cursor finds the lines that may match, and keeps the state between calls. It belongs to one Scanner.
type cursor struct {
	block []byte
	next  [maxNeeds]int // where in block each needle comes next, so that each is searched for once
	sieve *sieve
}

// nextCandidate is a place in the first line of block[from:] that may match, -1 when there is none.
func (c *cursor) nextCandidate(m *Matcher, block []byte, from int) int {
	if m.needs != nil {
		return c.firstOf(m.needs, block, from)
	}
	if c.sieve == nil {
		c.sieve = newSieve(m.prog)
	}
	return c.sieve.findFirst(block, from)
}

// firstOf is the first place of any of the needles from from on, -1 when there is none.
func (c *cursor) firstOf(needs []needle, block []byte, from int) int {
	if len(needs) == 1 {
		if i := needs[0].indexIn(block[from:]); i >= 0 {
			return from + i
		}
		return -1
	}
	if len(c.block) != len(block) || len(block) > 0 && &c.block[0] != &block[0] {
		c.block = block
		for i := range c.next {
			c.next[i] = -1
		}
	}
	best := -1
	for i := range needs {
		if c.next[i] < from {
			c.next[i] = len(block)
			if at := needs[i].indexIn(block[from:]); at >= 0 {
				c.next[i] = from + at
			}
		}
		if c.next[i] < len(block) && (best < 0 || c.next[i] < best) {
			best = c.next[i]
		}
	}
	return best
}

// requiredLiterals finds needles of which every match contains one; nil when there are none worth it.
func requiredLiterals(re *syntax.Regexp) []needle {
	found := mustContain(re)
	for _, n := range found {
		if len(n.text) < 2 && !bytes.Contains([]byte("()[]{}<>!@#$%^&+|?~`\\"), n.text) {
			return nil // one letter is on every line
		}
	}
	return found
}

func mustContain(re *syntax.Regexp) []needle {
	switch re.Op {
	case syntax.OpLiteral:
		return literalNeedles(string(re.Rune), re.Flags&syntax.FoldCase != 0)
	case syntax.OpCapture, syntax.OpPlus:
		return mustContain(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return mustContain(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []needle
		for _, sub := range re.Sub {
			some := mustContain(sub)
			if all = append(all, some...); some == nil || len(all) > maxNeeds {
				return nil
			}
		}
		return all
	case syntax.OpConcat:
		var best []needle
		for _, sub := range re.Sub {
			if some := mustContain(sub); shortestLen(some) > shortestLen(best) {
				best = some
			}
		}
		return best
	}
	return nil
}

// shortestLen is the length of the shortest needle, 0 for none.
func shortestLen(needs []needle) int {
	if len(needs) == 0 {
		return 0
	}
	n := len(needs[0].text)
	for _, other := range needs[1:] {
		n = min(n, len(other.text))
	}
	return n
}

// literalNeedles is the longest part of a text that can be searched for. Without case, k and s stand for signs beyond ASCII, too.
func literalNeedles(text string, fold bool) []needle {
	if !fold {
		return []needle{newNeedle(text, false)}
	}
	best := ""
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r >= 0x80 || strings.ContainsRune("kKsS", r) }) {
		if len(part) > len(best) {
			best = part
		}
	}
	if best == "" {
		return nil
	}
	return []needle{newNeedle(best, true)}
}
