package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
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
	return all
}

func TestSecretsDoNotPass(t *testing.T) {
	const secret = "sk-live/0f3+a9b7=c2d?x"
	s := newSecrets([]string{secret, "tiny", ""})
	for name, form := range forms(secret) {
		text := "before " + form + " after"
		for size := 1; size < len(text); size++ { // every way to cut it into equal pieces
			var out bytes.Buffer
			r := redactor{secrets: s, to: &out}
			for rest := []byte(text); len(rest) > 0; {
				n := min(size, len(rest))
				if wrote, err := r.Write(rest[:n]); wrote != n || err != nil {
					t.Fatalf("Write = %d, %v", wrote, err)
				}
				rest = rest[n:]
			}
			if err := r.flush(); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if !strings.Contains(got, redacted) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Fatalf("%s in pieces of %d: %q became %q", name, size, text, got)
			}
		}
	}
}

// What holds no secret passes as it is, whatever the pieces.
func TestOtherTextPasses(t *testing.T) {
	s := newSecrets([]string{"abcabcabd"})
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.StringMatching(`[abcx]{0,6}`)).Draw(t, "pieces")
		whole := strings.Join(pieces, "")
		var out bytes.Buffer
		r := redactor{secrets: s, to: &out}
		for _, piece := range pieces {
			if _, err := r.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.flush(); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), s.text(whole); got != want {
			t.Fatalf("%q became %q, want %q", whole, got, want)
		}
	})
}
