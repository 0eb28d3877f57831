package forge

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		permission, name string
		want             Role
	}{
		{"admin", "admin", Admin},
		{"owner", "owner", Admin}, // Gitea
		{"write", "write", Write},
		{"write", "maintain", Maintain},
		{"read", "triage", Triage},
		{"read", "read", Read},
		{"none", "", NoRole},
		{"write", "Release manager", Write}, // an organization's own
		{"read", "admin", Read},             // a name does not raise the authority
		{"read", "maintain", Read},
		{"read", "write", Read},
		{"write", "triage", Triage},
		{"admin", "read", Read},
		{"push", "", Write},
		{"pull", "", Read},
		{"", "admin", NoRole},
		{"superuser", "superuser", NoRole},
	} {
		if got := ParseRole(c.permission, c.name); got != c.want {
			t.Errorf("ParseRole(%q, %q) = %s, want %s", c.permission, c.name, got, c.want)
		}
	}
	for i, have := range Roles() {
		for j, least := range Roles() {
			if have.AtLeast(least) != (i >= j) {
				t.Errorf("%s.AtLeast(%s) = %t", have, least, i < j)
			}
		}
	}
	if Role("root").AtLeast(Read) || Admin.AtLeast("root") || Role("").AtLeast(NoRole) {
		t.Error("a role that is not listed has authority")
	}
}

func TestMarker(t *testing.T) {
	t.Parallel()
	m := MarkerOf("action", "k1")
	if m == MarkerOf("action", "k2") || m == MarkerOf("actio", "nk1") {
		t.Error("two keys have one marker")
	}
	for text, want := range map[string]bool{
		m.Add("Hello"):                          true,
		m.Add("Hello\n\n"):                      true,
		"Hello\r\n\r\n" + string(m) + "\r\n":    true, // as GitHub returns it
		string(m):                               true,
		"> " + string(m):                        false,
		string(m) + "\nsomething else":          false,
		"text " + string(m):                     false,
		MarkerOf("action", "k2").Add("Hello"):   false,
		"```\n" + string(m) + "\n```\n":         false,
		string(m) + "\n" + string(m) + "\nmore": false,
	} {
		if m.IsIn(text) != want {
			t.Errorf("IsIn(%q) = %t", text, !want)
		}
	}
	all := []Comment{{ID: 1, Author: User{ID: 66}, Body: m.Add("a copy by another person")}, {ID: 2, Author: User{ID: 7}, Body: m.Add("ours")}, {ID: 3, Author: User{ID: 7}, Body: m.Add("again")}}
	if c, ok := FindComment(all, 7, m); !ok || c.ID != 2 {
		t.Errorf("found %+v", c)
	}
	if _, ok := FindComment(all[:1], 7, m); ok {
		t.Error("the marker of another author counts")
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	const hub, sub, port, six, named = "https://github.com", "https://example.com/git", "http://127.0.0.1:3000", "https://[2001:db8::1]:3000", "https://http.example"
	for _, c := range []struct{ web, repository, want string }{
		{hub, "https://github.com/acme/site", "acme/site"},
		{hub, "https://github.com/acme/site.git", "acme/site"},
		{hub, "https://GitHub.com/acme/site/", "acme/site"},
		{hub, "git@github.com:acme/site.git", "acme/site"},
		{hub, "ssh://git@github.com/acme/site", "acme/site"},
		{hub, "ssh://git@github.com:22/acme/site", "acme/site"},
		{hub, "https://github.com.evil.example/acme/site", ""},
		{hub, "https://evil.example/github.com/acme/site", ""},
		{hub, "https://github.com/acme", ""},
		{hub, "https://github.com/acme/site/tree/main", ""},
		{hub, "https://github.com/../site", ""},
		{hub, "https://github.com/acme/si%2Fte", ""},
		{hub, "file:///acme/site", ""},
		{hub, "/srv/acme/site", ""},
		{sub, "https://example.com/git/acme/site", "acme/site"},
		{sub, "https://example.com/acme/site", ""},
		{sub, "https://example.com/gitacme/site", ""},
		{port, "http://127.0.0.1:3000/acme/site.git", "acme/site"},
		{port, "http://127.0.0.1:3001/acme/site.git", ""},
		{port, "ssh://git@127.0.0.1:2222/acme/site.git", "acme/site"},
		{hub, "HTTPS://github.com/acme/site", "acme/site"},
		{port, "HTTP://127.0.0.1:3001/acme/site.git", ""},
		{sub, "HTTPS://example.com/acme/site", ""},
		{named, "http.example:acme/site.git", "acme/site"},
		{six, "https://[2001:db8::1]:3000/acme/site", "acme/site"},
		{six, "ssh://git@[2001:db8::1]:22/acme/site", "acme/site"},
		{six, "ssh://git@[2001:DB8::1]/acme/site", "acme/site"},
		{six, "ssh://git@[2001:db8::2]:22/acme/site", ""},
		{six, "ssh://git@[2001:db8::2]/acme/site", ""},
	} {
		p, ok := Locate(c.web, c.repository)
		if ok != (c.want != "") || ok && p.String() != c.want {
			t.Errorf("Locate(%q, %q) = %v, %t, want %q", c.web, c.repository, p, ok, c.want)
		}
	}
	if !(Path{"Acme", "Site"}).Equal(Path{"acme", "site"}) || (Path{"acme", "site"}).Equal(Path{"acme", "sites"}) {
		t.Error("Equal is wrong")
	}
}

func TestProblem(t *testing.T) {
	t.Parallel()
	limited := &Problem{Status: http.StatusForbidden, Retry: time.Unix(1, 0)}
	if limited.Final() || !limited.Limited() {
		t.Error("a limit of requests is final")
	}
	for status, want := range map[int]bool{400: true, 401: true, 403: true, 404: true, 408: false, 409: true, 422: true, 429: false, 500: false, 502: false} {
		if p := (&Problem{Status: status}); p.Final() != want {
			t.Errorf("status %d: final is %t", status, !want)
		}
	}
	if !IsNotFound(&Problem{Status: 404}) || IsNotFound(&Problem{Status: 403}) || IsNotFound(nil) {
		t.Error("IsNotFound is wrong")
	}
}

// Each kind has each capability in its row once, and says what happens where it is missing.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	var first []Capability
	for _, k := range Kinds() {
		var names []Capability
		for _, s := range Capabilities(k) {
			names = append(names, s.Capability)
			if !s.Has && s.Instead == "" {
				t.Errorf("%s does not say what happens without %s", k, s.Capability)
			}
		}
		if first == nil {
			first = names
		}
		if !slices.Equal(names, first) {
			t.Errorf("%s has the rows %v, not %v", k, names, first)
		}
	}
}
