package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
)

// redacted stands where a secret was.
const redacted = "[redacted]"

// minSecret is the shortest value that is looked for, in bytes: what is shorter is found everywhere.
const minSecret = 6

// secrets are the values that no sink may show, in the forms in which they could appear.
type secrets struct {
	forms   [][]byte
	longest int
}

func newSecrets(values []string) *secrets {
	s := &secrets{}
	add := func(form string) {
		if len(form) >= minSecret && !slices.ContainsFunc(s.forms, func(known []byte) bool { return string(known) == form }) {
			s.forms = append(s.forms, []byte(form))
		}
	}
	for _, v := range values {
		if len(v) < minSecret {
			continue
		}
		add(v)
		add(url.QueryEscape(v))
		add(url.PathEscape(v))
		add(percent(v))
		add(strings.ToLower(percent(v)))
		add(hex.EncodeToString([]byte(v)))
		if quoted, err := json.Marshal(v); err == nil {
			add(string(quoted[1 : len(quoted)-1]))
		}
		// In base64 a text looks in three ways, by where it begins; what depends on its neighbours is left out.
		for shift := range 3 {
			padded := append(make([]byte, shift), v...)
			whole := base64.StdEncoding.EncodeToString(padded)
			first := []int{0, 2, 3}[shift]
			last := len(padded) / 3 * 4
			if rest := len(padded) % 3; rest > 0 {
				last += rest // the digits that no neighbour can change
			}
			form := whole[first:last]
			add(form)
			add(strings.NewReplacer("+", "-", "/", "_").Replace(form))
		}
	}
	slices.SortFunc(s.forms, func(a, b []byte) int { return len(b) - len(a) })
	if len(s.forms) > 0 {
		s.longest = len(s.forms[0])
	}
	return s
}

// percent escapes every byte.
func percent(v string) string {
	var b strings.Builder
	for _, c := range []byte(v) {
		b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
	}
	return b.String()
}

// bytes returns p without secrets.
func (s *secrets) bytes(p []byte) []byte {
	for _, form := range s.forms {
		if bytes.Contains(p, form) {
			p = bytes.ReplaceAll(p, form, []byte(redacted))
		}
	}
	return p
}

func (s *secrets) text(t string) string {
	for _, form := range s.forms {
		t = strings.ReplaceAll(t, string(form), redacted)
	}
	return t
}

// redactor is a writer that lets no secret through, also one that comes in several pieces: what could be the beginning
// of one is held back.
type redactor struct {
	secrets *secrets
	to      io.Writer
	held    []byte
}

func (r *redactor) Write(p []byte) (int, error) {
	if len(r.secrets.forms) == 0 {
		return r.to.Write(p)
	}
	whole := r.secrets.bytes(append(r.held, p...))
	keep := r.secrets.begun(whole)
	r.held = bytes.Clone(whole[len(whole)-keep:])
	if len(whole) == keep {
		return len(p), nil
	}
	_, err := r.to.Write(whole[:len(whole)-keep])
	return len(p), err
}

// flush writes what was held back: it did not become a secret.
func (r *redactor) flush() error {
	if len(r.held) == 0 {
		return nil
	}
	_, err := r.to.Write(r.held)
	r.held = nil
	return err
}

// begun is the length of the longest end of p with which a secret may begin.
func (s *secrets) begun(p []byte) int {
	for n := min(len(p), s.longest-1); n > 0; n-- {
		end := p[len(p)-n:]
		if slices.ContainsFunc(s.forms, func(form []byte) bool { return len(form) > n && bytes.HasPrefix(form, end) }) {
			return n
		}
	}
	return 0
}
