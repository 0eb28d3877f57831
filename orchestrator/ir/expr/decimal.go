package expr

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// Decimal is a number as sign × 0.digits × 10^exp, digits without leading or trailing zeros. It compares JSON numbers
// exactly, 1 == 1.0 == 10e-1, and a hostile exponent costs nothing because it is never expanded.
type Decimal struct {
	Sign   int // -1, 0, 1
	Digits string
	Exp    *big.Int
}

// ParseDecimal reads a JSON number.
func ParseDecimal(n json.Number) (Decimal, bool) {
	text := string(n)
	d := Decimal{Sign: 1, Exp: new(big.Int)}
	if strings.HasPrefix(text, "-") {
		d.Sign, text = -1, text[1:]
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if _, ok := d.Exp.SetString(strings.TrimPrefix(text[i+1:], "+"), 10); !ok {
			return Decimal{}, false
		}
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return Decimal{}, false
	}
	trimmed := strings.TrimLeft(digits, "0")
	d.Exp.Add(d.Exp, big.NewInt(int64(len(whole)-(len(digits)-len(trimmed)))))
	d.Digits = strings.TrimRight(trimmed, "0")
	if d.Digits == "" {
		return Decimal{Exp: new(big.Int)}, true
	}
	return d, true
}

// maxDigits bounds the number literals of documents; no double needs more to be told from its neighbours.
const maxDigits = 64

// ExactDouble reports whether a JSON number survives being written as RFC 8785 writes it: as the shortest text of the
// nearest double.
func ExactDouble(literal string) bool {
	double, err := strconv.ParseFloat(literal, 64)
	if err != nil || len(literal) > maxDigits {
		return false
	}
	want, ok := ParseDecimal(json.Number(literal))
	got, same := ParseDecimal(json.Number(strconv.FormatFloat(double, 'g', -1, 64)))
	return ok && same && want.CompareTo(got) == 0
}

// CompareTo is -1, 0 or 1 as d is less than, equal to or greater than o.
func (d Decimal) CompareTo(o Decimal) int {
	if d.Sign != o.Sign {
		return signOf(d.Sign - o.Sign)
	}
	if c := d.Exp.Cmp(o.Exp); c != 0 {
		return c * d.Sign
	}
	return strings.Compare(d.Digits, o.Digits) * d.Sign
}

func signOf(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// EqualValues is deep structural equality; numbers are equal by value.
func EqualValues(a, b any) bool { return equalIn(Scope{}, a, b) }

// equalIn is EqualValues that counts its visits.
func equalIn(s Scope, a, b any) bool {
	s.countVisits(1)
	switch a := a.(type) {
	case nil:
		return b == nil
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case string:
		b, ok := b.(string)
		return ok && a == b
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, okX := ParseDecimal(a)
		y, okY := ParseDecimal(b)
		return okX && okY && x.CompareTo(y) == 0
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalIn(s, a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k := range a {
			other, ok := b[k]
			if !ok || !equalIn(s, a[k], other) {
				return false
			}
		}
		return true
	}
	return false
}

// compareValues compares two numbers or two strings (by code point); anything else cannot be ordered.
func compareValues(a, b any) (int, *Failure) {
	switch x := a.(type) {
	case json.Number:
		if y, ok := b.(json.Number); ok {
			m, okM := ParseDecimal(x)
			n, okN := ParseDecimal(y)
			if okM && okN {
				return m.CompareTo(n), nil
			}
		}
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), nil
		}
	}
	return 0, Failf(FailStateType, "cannot order %s and %s", TypeName(a), TypeName(b))
}
