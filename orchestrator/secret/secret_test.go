package secret

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

const key = "sk-ant-api03-Zx81+Qpl/7Ty2_mmRk90LwEjYcVbNaQs4dFgHu6"

func TestKnownValuesAreFoundInEachForm(t *testing.T) {
	k := NewKnown(map[string]string{"ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": "https://gateway.example.org/v1", "MODEL_NAME": "claude-sonnet-4-20250514", "X": "1"})
	for name, text := range map[string]string{
		"raw":             "key = '" + key + "'",
		"base64":          base64.StdEncoding.EncodeToString([]byte(key)),
		"base64 moved 1":  base64.StdEncoding.EncodeToString([]byte("x" + key + "more")),
		"base64 moved 2":  base64.URLEncoding.EncodeToString([]byte("user:" + key)),
		"base64 in lines": strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte("token="+key+"\n")), "E", "E\n  "),
		"hex":             hex.EncodeToString([]byte(key)),
		"hex upper case":  strings.ToUpper(hex.EncodeToString([]byte(key))),
		"url":             url.QueryEscape(key),
		"percent":         "%" + strings.Join(pairs(hex.EncodeToString([]byte(key))), "%"),
		"concatenated":    `"` + key[:9] + `" + "` + key[9:20] + "\" +\n\t\"" + key[20:] + `"`,
		"two variables":   "a = '" + key[:25] + "'\nsecond_part = '" + key[25:] + "'",
		"each character":  "['" + strings.Join(strings.Split(key, ""), "', '") + "']",
		"far behind":      strings.Repeat("filling text\n", 200_000) + key,
	} {
		if got := k.FindIn(text); got != "ANTHROPIC_API_KEY" {
			t.Errorf("%s: Find = %q", name, got)
		}
	}
	for _, text := range []string{"", "sk-ant-api03-", "export ANTHROPIC_API_KEY=", "https://gateway.example.org/v1", "claude-sonnet-4-20250514", "1"} {
		if got := k.FindIn(text); got != "" {
			t.Errorf("Find(%q) = %q", text, got)
		}
	}
	for cut := range 40 { // over the edge of what is read at a time
		text := strings.Repeat("x", chunk-cut) + key
		if got, err := k.Find(iotest.HalfReader(strings.NewReader(text))); got == "" || err != nil {
			t.Errorf("at %d: Find = %q, %v", cut, got, err)
		}
	}
}

func pairs(s string) (out []string) {
	for ; len(s) > 1; s = s[2:] {
		out = append(out, s[:2])
	}
	return out
}

func TestRulesFindCredentials(t *testing.T) {
	for _, tt := range []struct {
		path, text, rule string
		line             int
	}{
		{"a.py", "x = 1\naws = 'AKIA" + "Z7QK3MVT2WPLBN5D'\n", "aws-access-token", 2},
		{"a.env", "GITHUB_TOKEN=ghp_" + "R4nd0mT3xtTh4tH4s36Ch4r4ct3rs1234AbZ", "github-pat", 1},
		{"k.pem", "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEAx8Kq0vW9bN3LpQ7tYh\n", 4) + "-----END RSA PRIVATE KEY-----\n", "private-key", 1},
		{"conf.go", `apiKey := "q8Zr4Lw9Xc2Vb7Nm1Kj6Hg5Fd3Sa0Po"`, "generic-api-key", 1},
		{"a.py", "aws = 'AKIAIOSFODNN7EXAMPLE'", "", 0}, // the documentation's own
		{"a.go", "func main() { fmt.Println(\"hello\") }", "", 0},
		{"package-lock.json", `apiKey: "q8Zr4Lw9Xc2Vb7Nm1Kj6Hg5Fd3Sa0Po"`, "", 0},
		{"a.env", "API_KEY=${API_KEY}", "", 0},
	} {
		hits, err := Scan(tt.path, tt.text)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case tt.rule == "" && len(hits) > 0:
			t.Errorf("Scan(%q) = %v, want nothing", tt.text, hits)
		case tt.rule != "" && (!slices.Contains(hits, Hit{tt.rule, tt.line})):
			t.Errorf("Scan(%q) = %v, want %s at %d", tt.text, hits, tt.rule, tt.line)
		}
	}
}

// TestManyMatches checks that many allowed matches do not hide a credential behind them, and that the hits of a rule are bounded.
func TestManyMatches(t *testing.T) {
	t.Parallel()
	const allowed, real = "aws = 'AKIAIOSFODNN7EXAMPLE'\n", "aws = 'AKIA" + "Z7QK3MVT2WPLBN5D'\n"
	for _, tt := range []struct{ allowed, real, hits, line int }{{99, 1, 1, 100}, {100, 1, 1, 101}, {5000, 1, 1, 5001}, {0, maxHits + 1, maxHits, 1}} {
		hits, err := Scan("a.py", strings.Repeat(allowed, tt.allowed)+strings.Repeat(real, tt.real))
		if err != nil || len(hits) != tt.hits || hits[0] != (Hit{"aws-access-token", tt.line}) {
			t.Errorf("behind %d allowed matches, %d others are the hits %.200v, %v", tt.allowed, tt.real, hits, err)
		}
	}
}

// Every expression of the embedded rules compiles.
func TestRulesCompile(t *testing.T) {
	set, err := rules()
	if err != nil || len(set.Rules) < 200 {
		t.Fatalf("%d rules, %v", len(set.Rules), err)
	}
	for i := range set.Rules {
		set.Rules[i].compile()
		for _, a := range set.Rules[i].Allowlists {
			a.compile()
		}
	}
}
