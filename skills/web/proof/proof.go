// Package proof checks claims about pages: a claim is proved if the words that it quotes occur in the text of the page that it
// names. Start with [Check]. Quotation and text are compared exactly, after [Normalize]: it evens out white space, composed
// characters and characters that are not shown, and nothing else. The package is pure, and all of its input is hostile: models
// write the claims, strangers the pages.
//
// A quotation proves that the page says so, not that it is true.
package proof

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Claim is a sentence, and the words of a page that prove it.
type Claim struct {
	Claim  string `json:"claim"`
	Source int    `json:"source"` // the number of the page, from 1
	Quote  string `json:"quote"`
}

// Removed is a claim that is not proved, and why.
type Removed struct {
	Claim
	Reason string `json:"reason"`
}

// Step is a step of a plan, with the claims that it rests on by their numbers, from 1.
type Step struct {
	Step   string `json:"step"`
	Claims []int  `json:"claims"`
}

// minQuote is the least number of characters of a quotation. Shorter ones occur by chance.
const minQuote = 6

// Check divides claims into those that are proved and those that are not. pages are the texts of the pages in their order; one
// that is "" proves nothing. kept has the numbers of the proved claims, from 1.
func Check(all []Claim, pages []string) (proved []Claim, kept []int, removed []Removed) {
	texts := make([]string, len(pages))
	for i, c := range all {
		reason := ""
		switch quote := Normalize(c.Quote); {
		case strings.TrimSpace(c.Claim) == "":
			reason = "it says nothing"
		case c.Source < 1 || c.Source > len(pages):
			reason = fmt.Sprintf("there is no source %d", c.Source)
		case utf8.RuneCountInString(quote) < minQuote:
			reason = "the quotation is too short to prove anything"
		default:
			text := &texts[c.Source-1]
			if *text == "" {
				*text = Normalize(pages[c.Source-1])
			}
			if !Occurs(*text, quote) {
				reason = fmt.Sprintf("the quotation does not occur in source %d", c.Source)
			}
		}
		if reason != "" {
			removed = append(removed, Removed{c, reason})
			continue
		}
		proved, kept = append(proved, c), append(kept, i+1)
	}
	return proved, kept, removed
}

// Rest returns the steps of a plan that rest on proved claims alone, and on at least one. The claims get the numbers that
// they have among the kept ones.
func Rest(plan []Step, kept []int) (steps []Step, removed []Step) {
	for _, s := range plan {
		renumbered := Step{Step: s.Step}
		for _, number := range s.Claims {
			if i := slices.Index(kept, number); i >= 0 {
				renumbered.Claims = append(renumbered.Claims, i+1)
			}
		}
		if len(s.Claims) == 0 || len(renumbered.Claims) < len(s.Claims) || strings.TrimSpace(s.Step) == "" {
			removed = append(removed, s)
			continue
		}
		steps = append(steps, renumbered)
	}
	return steps, removed
}

// Normalize returns a text as texts are compared: in the normal form NFC, without characters that are not shown, such as soft
// hyphens, and with one space for each run of white space. Compatibility forms stay: "10²" is not "102".
func Normalize(s string) string {
	s = norm.NFC.String(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
	return strings.Join(strings.Fields(s), " ")
}

// Occurs reports whether a quotation occurs in a text at the boundaries of words and numbers. Both are normalized. "possible"
// does not occur in "impossible", and "5 ms" not in "1.5 ms" or "-5 ms".
func Occurs(text, quote string) bool {
	if quote == "" {
		return false
	}
	first, _ := utf8.DecodeRuneInString(quote)
	last, _ := utf8.DecodeLastRuneInString(quote)
	for at := 0; ; {
		next := strings.Index(text[at:], quote)
		if next < 0 {
			return false
		}
		before, after := text[:at+next], text[at+next+len(quote):]
		if !cutsBefore(before, first) && !cutsAfter(last, after) {
			return true
		}
		at += next + utf8.RuneLen(first)
	}
}

// cutsBefore reports whether a quotation that begins with first takes the end off a word or a number.
func cutsBefore(before string, first rune) bool {
	prev, size := utf8.DecodeLastRuneInString(before)
	if size == 0 {
		return false
	}
	if joins(prev, first) {
		return true
	}
	beyond, size := utf8.DecodeLastRuneInString(before[:len(before)-size])
	switch {
	case !unicode.IsDigit(first):
		return false
	case strings.ContainsRune(".,", prev):
		return unicode.IsDigit(beyond)
	}
	return strings.ContainsRune("-−", prev) && (size == 0 || !isWord(beyond))
}

// cutsAfter reports whether a quotation that ends with last takes the beginning off a word or a number.
func cutsAfter(last rune, after string) bool {
	next, size := utf8.DecodeRuneInString(after)
	if size == 0 {
		return false
	}
	if joins(last, next) || unicode.IsMark(next) {
		return true
	}
	beyond, _ := utf8.DecodeRuneInString(after[size:])
	return unicode.IsDigit(last) && strings.ContainsRune(".,", next) && unicode.IsDigit(beyond)
}

// joins reports whether two characters belong to one word.
func joins(a, b rune) bool {
	return isWord(a) && isWord(b) && !unicode.In(a, unspaced...) && !unicode.In(b, unspaced...)
}

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || r == '_'
}

// unspaced are the scripts that do not separate words by spaces.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}
