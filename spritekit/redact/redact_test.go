package redact

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// forms are ways in which an agent could print a secret, on purpose or not.
func forms(secret string) map[string]string {
	quoted := fmt.Sprintf("%q", secret)
	all := map[string]string{
		"raw": secret, "query": url.QueryEscape(secret), "path": url.PathEscape(secret), "percent": percent(secret), "hex": hex.EncodeToString([]byte(secret)),
		"quoted": quoted[1 : len(quoted)-1],
	}
	for _, before := range []string{"", "a", "ab"} {
		all["base64 after "+before] = base64.StdEncoding.EncodeToString([]byte(before + secret + "tail"))
		all["base64url after "+before] = base64.RawURLEncoding.EncodeToString([]byte(before + secret))
	}
	all["hex upper case"] = strings.ToUpper(all["hex"])
	all["hex in pairs"] = strings.Join(pairs(all["hex"]), " ")
	all["hex escaped"] = `\x` + strings.Join(pairs(all["hex"]), `\x`)
	all["unicode escaped"] = `\u00` + strings.Join(pairs(all["hex"]), `\u00`)
	all["escaped in part"] = secret[:3] + fmt.Sprintf(`\u%04x`, secret[3]) + secret[4:]
	all["percent in part"] = secret[:3] + fmt.Sprintf("%%%02X", secret[3]) + secret[4:]
	all["base64 in lines"] = strings.Join(pairs(all["base64 after ab"]), "\n")
	all["in lines"] = strings.Join(pairs(secret), "\n")
	all["base64 in JSON"] = strings.Join(pairs(all["base64 after "]), `\n`)
	all["behind a backslash"] = `\` + secret
	all["behind a percent sign"] = "%" + secret
	return all
}

func percent(s string) string { return "%" + strings.Join(pairs(hex.EncodeToString([]byte(s))), "%") }

func pairs(s string) (out []string) {
	for ; len(s) > 2; s = s[2:] {
		out = append(out, s[:2])
	}
	return append(out, s)
}

// Random secrets, in random encodings, cut at random places.
func TestRandomSecretsDoNotPass(t *testing.T) {
	t.Parallel()
	for round := range 300 {
		b := make([]byte, 8+round%60)
		rand.Read(b)
		secret := []string{rand.Text(), base64.StdEncoding.EncodeToString(b), hex.EncodeToString(b), "n" + rand.Text(), "p\"a\\" + rand.Text(), "%41" + rand.Text()}[round%6]
		s := New(secret)
		for name, form := range forms(secret) {
			text := []byte("{\"text\":\"line\\n" + form + "\"}\n")
			var out bytes.Buffer
			w := s.Writer(&out)
			for rest := text; len(rest) > 0; {
				n := 1 + mathrand.IntN(min(len(rest), 20))
				if _, err := w.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); !strings.Contains(got, Mark) || strings.Contains(got, secret) || len(got) > len(`{"text":"line\n%xx"}`)+len(Mark)+24 {
				t.Fatalf("%s: %q became %q", name, text, got)
			}
			if got := s.Bytes(text); out.String() != string(got) {
				t.Fatalf("%s: in pieces %q, at once %q", name, out.String(), got)
			}
		}
	}
}

func TestJSONStaysJSON(t *testing.T) {
	t.Parallel()
	s := New("n1234567", "12345678")
	for _, tt := range [][2]string{
		{`{"a":"x\n1234567"}`, `{"a":"x[redacted]"}`},
		{`{"a":12345678,"b":[1]}`, `{"a":"[redacted]","b":[1]}`},
		{`{"12345678":"\u006e1234567"}`, `{"[redacted]":"[redacted]"}`},
		{`{"a":"1234567"}`, `{"a":"1234567"}`},
	} {
		got := s.JSON(json.RawMessage(tt[0]))
		if string(got) != tt[1] || !json.Valid(got) {
			t.Errorf("%s became %s, want %s", tt[0], got, tt[1])
		}
	}
	var none *Secrets
	if got := none.Text("n1234567"); got != "n1234567" {
		t.Errorf("without secrets: %q", got)
	}
}

// FuzzWriter cuts text into pieces: what comes out is what a single piece gives, and no secret is in it.
func FuzzWriter(f *testing.F) {
	f.Add("abcabcabd", "x abcabcabcabd %61bcabcabd YWJjYWJjYWJk", uint8(3))
	f.Add(`n"12%4142\`, `\n"12%4142\ n\"12%254142\\`, uint8(1))
	f.Fuzz(func(t *testing.T, secret, text string, size uint8) {
		s := New(secret)
		text += secret + hex.EncodeToString([]byte(secret))
		var out bytes.Buffer
		w := s.Writer(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			if wrote, err := w.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("Write = %d, %v", wrote, err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if want := s.Text(text); out.String() != want && len(text) < maxHeld {
			t.Fatalf("in pieces %q, at once %q", out.String(), want)
		}
		if len(secret) >= Shortest && !strings.Contains(Mark, secret) && strings.Contains(strings.ReplaceAll(out.String(), Mark, "\x00"), secret) && !strings.Contains(secret, "\x00") {
			t.Fatalf("%q is in %q", secret, out.String())
		}
		if raw, err := json.Marshal(text); err == nil && !json.Valid(s.JSON(raw)) {
			t.Fatalf("%s is not JSON", s.JSON(raw))
		}
	})
}

func TestSecretsDoNotPass(t *testing.T) {
	t.Parallel()
	const secret = "sk-live/0f3+a9b7=c2d?x"
	s := New(secret, "tiny", "")
	for name, form := range forms(secret) {
		text := "before " + form + " after"
		for size := 1; size < len(text); size++ { // every way to cut it into equal pieces
			var out bytes.Buffer
			r := s.Writer(&out)
			for rest := []byte(text); len(rest) > 0; {
				n := min(size, len(rest))
				if wrote, err := r.Write(rest[:n]); wrote != n || err != nil {
					t.Fatalf("Write = %d, %v", wrote, err)
				}
				rest = rest[n:]
			}
			if err := r.Flush(); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if !strings.Contains(got, Mark) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Fatalf("%s in pieces of %d: %q became %q", name, size, text, got)
			}
		}
	}
}

// What holds no secret passes as it is, whatever the pieces.
func TestOtherTextPasses(t *testing.T) {
	t.Parallel()
	s := New("abcabcabd")
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.StringMatching(`[abcx]{0,6}`)).Draw(t, "pieces")
		whole := strings.Join(pieces, "")
		var out bytes.Buffer
		r := s.Writer(&out)
		for _, piece := range pieces {
			if _, err := r.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Flush(); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), s.Text(whole); got != want {
			t.Fatalf("%q became %q, want %q", whole, got, want)
		}
	})
}
