package ir

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// decimal is a number as sign × 0.digits × 10^exp, digits without leading or trailing zeros. It compares JSON numbers
// exactly, 1 == 1.0 == 10e-1, and a hostile exponent costs nothing because it is never expanded.
type decimal struct {
	sign   int // -1, 0, 1
	digits string
	exp    *big.Int
}

// parseDecimal reads a JSON number.
func parseDecimal(n json.Number) (decimal, bool) {
	text := string(n)
	d := decimal{sign: 1, exp: new(big.Int)}
	if strings.HasPrefix(text, "-") {
		d.sign, text = -1, text[1:]
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if _, ok := d.exp.SetString(strings.TrimPrefix(text[i+1:], "+"), 10); !ok {
			return decimal{}, false
		}
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return decimal{}, false
	}
	trimmed := strings.TrimLeft(digits, "0")
	d.exp.Add(d.exp, big.NewInt(int64(len(whole)-(len(digits)-len(trimmed)))))
	d.digits = strings.TrimRight(trimmed, "0")
	if d.digits == "" {
		return decimal{exp: new(big.Int)}, true
	}
	return d, true
}

// maxDigits bounds the number literals of documents; no double needs more to be told from its neighbours.
const maxDigits = 64

// exactDouble reports whether a JSON number survives being written as RFC 8785 writes it: as the shortest text of the
// nearest double.
func exactDouble(literal string) bool {
	double, err := strconv.ParseFloat(literal, 64)
	if err != nil || len(literal) > maxDigits {
		return false
	}
	want, ok := parseDecimal(json.Number(literal))
	got, same := parseDecimal(json.Number(strconv.FormatFloat(double, 'g', -1, 64)))
	return ok && same && want.compareTo(got) == 0
}

// compareTo is -1, 0 or 1 as d is less than, equal to or greater than o.
func (d decimal) compareTo(o decimal) int {
	if d.sign != o.sign {
		return signOf(d.sign - o.sign)
	}
	if c := d.exp.Cmp(o.exp); c != 0 {
		return c * d.sign
	}
	return strings.Compare(d.digits, o.digits) * d.sign
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

// equalValues is deep structural equality; numbers are equal by value.
func equalValues(a, b any) bool {
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
		x, okX := parseDecimal(a)
		y, okY := parseDecimal(b)
		return okX && okY && x.compareTo(y) == 0
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalValues(a[i], b[i]) {
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
			if !ok || !equalValues(a[k], other) {
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
			m, okM := parseDecimal(x)
			n, okN := parseDecimal(y)
			if okM && okN {
				return m.compareTo(n), nil
			}
		}
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), nil
		}
	}
	return 0, failf(FailStateType, "cannot order %s and %s", typeName(a), typeName(b))
}
