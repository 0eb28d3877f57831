// Package secret finds credentials in data that leaves a sprite. Start with Known, which searches for secrets that this
// process has, and Scan, which searches for text in the form of a credential.
//
// A known value is searched for as it is, in base64 at each alignment, in hexadecimal and URL-encoded, and in pieces. Only
// letters and digits are compared, so that quotes, line ends and operators between pieces hide nothing. Secrets that are
// compressed, encrypted or encoded twice are not found. The package is pure, and its results do not contain secrets.
package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/redact"
)

const (
	minValue = 8  // letters and digits; shorter values would be found by accident
	piece    = 16 // letters and digits of a long value that give it away
	step     = 4  // between the beginnings of pieces
	chunk    = 1 << 20
)

// Known searches content for known values.
type Known struct {
	needles []needle
	longest int
}

type needle struct {
	name string
	text []byte
}

// NewKnown makes a Known of values by the names under which they are reported. Values that are no secrets by their name or
// form, such as the address of a server or the name of a model, are left out.
func NewKnown(values map[string]string) *Known {
	k := &Known{}
	for _, name := range sortedNames(values) {
		value := values[name]
		plain := onlyLetters([]byte(value))
		if len(plain) < minValue || !IsSecret(name, value) {
			continue
		}
		for _, form := range redact.Forms(value) {
			k.addNeedle(name, onlyLetters([]byte(form)))
		}
		for i := 0; i+piece <= len(plain) && len(plain) >= 2*piece; i += step {
			k.addNeedle(name, plain[i:i+piece])
		}
	}
	return k
}

func (k *Known) addNeedle(name string, text []byte) {
	if len(text) < minValue || slices.ContainsFunc(k.needles, func(n needle) bool { return bytes.Equal(n.text, text) }) {
		return
	}
	k.needles = append(k.needles, needle{name, text})
	k.longest = max(k.longest, len(text))
}

// IsSecret reports whether a variable holds a credential.
func IsSecret(name, value string) bool {
	name = strings.ToUpper(name)
	for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASS", "CRED", "AUTH"} {
		if strings.Contains(name, word) && !strings.HasSuffix(name, "_FILE") && !strings.HasSuffix(name, "_PATH") && !strings.HasSuffix(name, "_URL") {
			return true
		}
	}
	if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.Host != "" {
		_, password := u.User.Password()
		return password
	}
	for _, end := range []string{"_URL", "_MODEL", "_HOST", "_PATH", "_DIR", "_REGION", "_VERSION", "_NAME", "_EFFORT", "_PROJECT"} {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	return len(value) >= 16 && !strings.ContainsAny(value, " /\n") && strings.ContainsAny(value, "0123456789") && shannonEntropy(value) >= 3.5
}

// onlyLetters keeps ASCII letters and digits.
func onlyLetters(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, c := range text {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			out = append(out, c)
		}
	}
	return out
}

// Find returns the name of a value that r holds, "" when it holds none.
func (k *Known) Find(r io.Reader) (string, error) {
	if len(k.needles) == 0 {
		return "", nil
	}
	window, buf := []byte{}, make([]byte, chunk)
	for {
		n, err := io.ReadFull(r, buf)
		window = append(window, onlyLetters(buf[:n])...)
		for _, needle := range k.needles {
			if bytes.Contains(window, needle.text) {
				return needle.name, nil
			}
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return "", fmt.Errorf("search for secrets: %w", err)
		}
		if err != nil {
			return "", nil
		}
		if keep := k.longest - 1; len(window) > keep {
			window = append(window[:0], window[len(window)-keep:]...)
		}
	}
}

// FindIn is Find for a text.
func (k *Known) FindIn(text string) string {
	name, _ := k.Find(strings.NewReader(text)) // which cannot fail
	return name
}
