package egress

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

// FuzzPolicy takes any document for a policy. One that is taken says the same after it was written down, as the sprite's
// mirror of it is; what it denies by name it denies in every spelling, and it opens nothing that its rules do not.
func FuzzPolicy(f *testing.F) {
	for _, seed := range []string{
		`{"rules":[]}`,
		`{"rules":[{"domain":"example.com","action":"allow"},{"domain":"*.example.com","action":"deny"}]}`,
		`{"rules":[{"include":"defaults"},{"domain":"*","action":"allow"},{"domain":"GitHub.com.","action":"deny"}]}`,
		`{"rules":[{"domain":"203.0.113.0/24","action":"allow"},{"domain":"203.0.113.7","action":"deny"},{"domain":"::ffff:1.2.3.4","action":"allow"}]}`,
		`{"rules":[{"domain":"bücher.example","action":"deny"},{"domain":"xn--bcher-kva.example","action":"allow"}]}`,
		`{"rules":[{"domain":"\u0000","action":"allow"}],"rules":null}`,
	} {
		f.Add([]byte(seed), "sub.example.com")
	}
	f.Fuzz(func(t *testing.T, document []byte, name string) {
		rules, err := Parse(document)
		if err != nil {
			return
		}
		policy, err := Compile(rules)
		if err != nil {
			return
		}
		mirrored, err := json.Marshal(map[string]any{"rules": rules})
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(mirrored)
		if err != nil {
			t.Fatalf("the mirror of %q cannot be read: %v", document, err)
		}
		same, err := Compile(again)
		if err != nil || !reflect.DeepEqual(same, policy) {
			t.Fatalf("the mirror %s means something else, %v", mirrored, err)
		}
		opens := len(rules) == 0
		for _, r := range rules {
			opens = opens || r.Action == Allow || r.Include != ""
			if _, isNet, _ := parseNetwork(r.Domain); isNet || r.Domain == "*" || r.Action != Deny || strings.HasPrefix(r.Domain, "*.") {
				continue
			}
			for _, spelling := range []string{r.Domain, strings.ToUpper(r.Domain), r.Domain + "."} {
				if policy.Name(spelling).Allowed {
					t.Errorf("%q is allowed, and denied by %s", spelling, mirrored)
				}
			}
		}
		for _, n := range []string{name, "example.com", "1.2.3.4", "0x7f.1", ""} {
			if v := policy.Name(n); v.Allowed && !opens {
				t.Errorf("%q is allowed by %q of %s", n, v.Rule, mirrored)
			}
		}
		if a, err := netip.ParseAddr(name); err == nil && policy.Addr(a).Allowed && !opens {
			t.Errorf("%s is allowed by %s", a, mirrored)
		}
	})
}
