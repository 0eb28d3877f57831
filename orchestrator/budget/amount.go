// Package budget counts money, tokens and time against limits. Start with [Ledger]: it is the fold of facts, and
// [Ledger.Fit] says whether a call may begin. The package is pure; package leader/spending records the facts.
//
// A call reserves the most that it can take before it begins, and settles with what it took. An amount counts for each
// [Scope] of the call: its run, its work item, its repository and the day. A reservation whose call is lost counts as spent,
// because the provider may have been paid.
package budget

import (
	"fmt"
	"math"
	"time"
)

// Amount is a sum of money, tokens and time.
type Amount struct {
	MicroUSD int64 `json:"micro_usd,omitempty"` // millionths of a US dollar
	Tokens   int64 `json:"tokens,omitempty"`
	Millis   int64 `json:"ms,omitempty"`
}

// Unit is a kind of quantity that an Amount counts.
type Unit string

// The units.
const (
	Money  Unit = "usd"
	Tokens Unit = "tokens"
	Time   Unit = "time"
)

// Units returns the units in the order in which they are shown.
func Units() []Unit { return []Unit{Money, Tokens, Time} }

// Text returns n of the unit for people.
func (u Unit) Text(n int64) string {
	switch u {
	case Money:
		sign := ""
		if n < 0 {
			sign, n = "-", -n
		}
		text := fmt.Sprintf("%s$%d.%06d", sign, n/1e6, n%1e6)
		for range 4 { // cents are always shown
			if text[len(text)-1] != '0' {
				break
			}
			text = text[:len(text)-1]
		}
		return text
	case Time:
		return (time.Duration(n) * time.Millisecond).String()
	default:
		return fmt.Sprintf("%d tokens", n)
	}
}

// Of returns the quantity of a unit.
func (a Amount) Of(u Unit) int64 {
	switch u {
	case Money:
		return a.MicroUSD
	case Tokens:
		return a.Tokens
	default:
		return a.Millis
	}
}

// With returns a with another quantity of a unit.
func (a Amount) With(u Unit, n int64) Amount {
	switch u {
	case Money:
		a.MicroUSD = n
	case Tokens:
		a.Tokens = n
	default:
		a.Millis = n
	}
	return a
}

// Plus returns the sum; a sum that int64 does not hold is the largest int64.
func (a Amount) Plus(b Amount) Amount {
	for _, u := range Units() {
		a = a.With(u, addSaturating(a.Of(u), b.Of(u)))
	}
	return a
}

// Minus returns the difference, 0 for a negative one.
func (a Amount) Minus(b Amount) Amount {
	for _, u := range Units() {
		a = a.With(u, max(0, a.Of(u)-b.Of(u)))
	}
	return a
}

// String returns the quantities that are not 0, "nothing" if all are.
func (a Amount) String() string {
	text := ""
	for _, u := range Units() {
		if n := a.Of(u); n != 0 {
			if text != "" {
				text += ", "
			}
			text += u.Text(n)
		}
	}
	if text == "" {
		return "nothing"
	}
	return text
}

// Valid reports whether no quantity is negative.
func (a Amount) Valid() bool { return a.MicroUSD >= 0 && a.Tokens >= 0 && a.Millis >= 0 }

// MicroUSD converts US dollars, rounded up. A value that is negative or not a number is 0; one that is too large is the
// largest int64.
func MicroUSD(dollars float64) int64 {
	micro := math.Ceil(dollars*1e6 - 1e-6) // 0.1 + 0.2 dollars are 300,000 millionths
	switch {
	case !(micro > 0):
		return 0
	case micro >= math.MaxInt64:
		return math.MaxInt64
	}
	return int64(micro)
}

// addSaturating returns the sum of two quantities that are not negative.
func addSaturating(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
