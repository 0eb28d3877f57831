package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestChain(t *testing.T) {
	t.Parallel()
	var all []Entry
	prev := ""
	for n := uint64(1); n <= 3; n++ {
		e, err := Entry{At: time.Unix(int64(n), 0), Kind: ActionPerformed, Subject: Run("r"), Who: &Who{Name: "ada", UID: 1000}, Body: json.RawMessage(`{"a":"<b>"}`)}.Chain(n, prev)
		if err != nil {
			t.Fatal(err)
		}
		all, prev = append(all, e), e.Sum
	}
	verify := func(all []Entry) string {
		prev := ""
		for i, e := range all {
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			if err := e.Verify(uint64(i+1), prev); err != nil {
				return err.Error()
			}
			prev = e.Sum
		}
		return ""
	}
	if got := verify(all); got != "" {
		t.Fatal(got)
	}
	for name, change := range map[string]func([]Entry) []Entry{
		"was changed":     func(a []Entry) []Entry { a[1].Body = json.RawMessage(`{"a":"c"}`); return a },
		"has the number":  func(a []Entry) []Entry { return append(a[:1], a[2]) },
		"does not follow": func(a []Entry) []Entry { a[1].Who = nil; a[1], _ = a[1].Chain(2, a[0].Sum); return a },
	} {
		if got := verify(change(append([]Entry(nil), all...))); !strings.Contains(got, name) {
			t.Errorf("verify = %q, want %q", got, name)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	got := string(Redact(json.RawMessage(`{"name":"npm","Token":"t","deep":[{"password":"p","n":12345678901234567890}],"long":"` + strings.Repeat("x", maxText-1) + `éé"}`)))
	for _, want := range []string{`"Token":"[redacted]"`, `"password":"[redacted]"`, `12345678901234567890`, `xx…"`} {
		if !strings.Contains(got, want) {
			t.Errorf("Redact = %s, want %s", got, want)
		}
	}
}
