package remote

import (
	"strings"
	"testing"
	"unicode"
)

func TestURLsAreJudged(t *testing.T) {
	t.Parallel()
	const refused, path = "refused", "path" // else the transport that git may use
	tests := map[string]string{
		"https://example.com/a/b.git":         "https",
		"https://[2001:db8::1]/a":             "https",
		"https://[::1]/a":                     "https",
		"https://[fe80:0:0:0:0:0:0:1]/a":      "https",
		"https://user@example.com/a":          refused,
		"https://user:secret@example.com/a":   refused,
		"https://:secret@example.com/a":       refused,
		"ssh://git@example.com:22/a":          "ssh",
		"ssh://git:secret@example.com/a":      refused,
		"ssh://-oProxyCommand=x/a":            refused,
		"ssh://-l@example.com/a":              refused,
		"ssh://git@-oProxyCommand=x/a":        refused,
		"ssh://example.com/-a":                refused,
		"git@example.com:a/b.git":             "ssh",
		"example.com:a":                       "ssh",
		"git@-oProxyCommand=x:a":              path, // no transport: looked for in the workspace
		"-oProxyCommand=x:a":                  refused,
		"-git@example.com:a":                  refused,
		"http://localhost:8080/a":             "http",
		"http://127.0.0.1/a":                  "http",
		"http://example.com/a":                refused,
		"http://127.0.0.1.example.com/a":      refused,
		"git://example.com/a":                 refused,
		"git://127.0.0.1:9418/a":              "git",
		"git://user@127.0.0.1/a":              refused,
		"ftp://example.com/a":                 refused,
		"javascript://x/a":                    refused,
		"HTTPS://example.com/a":               "https",
		"ext::sh -c id":                       refused,
		"fd::17":                              refused,
		"ext::sh://x":                         refused,
		"http://[::1]:80/a":                   "http",
		"ssh://git@[::1]/a":                   "ssh",
		"file:///a%0ab":                       refused,
		"ssh://example.com/a%0d%0ab":          refused,
		"--upload-pack=x":                     refused,
		"-x":                                  refused,
		"-":                                   refused,
		"":                                    refused,
		"https://example.com/a\r\nHost: evil": refused,
		"https://example.com/\x00":            refused,
		"https://example.com/\u0085":          refused,
		"git@example.com:a\nb":                refused,
		"https://exa mple.com/a":              refused,
		"://":                                 refused,
		"file:///etc":                         path,
		"file://-host/etc":                    refused,
		"/etc":                                path,
		"../origin":                           path,
		"origin":                              path,
	}
	for text, want := range tests {
		src, remote, err := ParseURL(text, "/url", false)
		got := src.Protocol
		switch {
		case err != nil:
			got = refused
		case !remote:
			got = path
		}
		if got != want {
			t.Errorf("parseURL(%q) = %s (%+v, %v), want %s", text, got, src, err, want)
		}
	}
	// A scheme without slashes is a host to git; it is reached by ssh or not at all.
	if src, remote, err := ParseURL("javascript:alert(1)", "/url", false); err == nil && remote && src.Protocol != "ssh" {
		t.Errorf("parseURL(javascript:) = %+v, want ssh or a refusal", src)
	}
}

func TestUsersAreRemoved(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://example.com/a@b":               "https://example.com/a@b",
		"https://token@example.com/a":           "https://example.com/a",
		"https://user:secret@example.com/a":     "https://example.com/a",
		"https://user:100%secret@example.com/a": "https://example.com/a",
		"https://user:sec/ret@example.com/a":    "https://example.com/a",
		"https://user:s@cret%@example.com/a%":   "https://example.com/a%",
		"https://example.com/a%":                "https://example.com/a%",
		"ssh://git@example.com/a":               "ssh://git@example.com/a",
		"ssh://git:secret@example.com/a":        "ssh://example.com/a",
		"git@example.com:a":                     "git@example.com:a",
		"../a@b%":                               "../a@b%",
	} {
		if got := WithoutUser(text); got != want {
			t.Errorf("WithoutUser(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzURL(f *testing.F) {
	for _, text := range []string{
		"https://example.com/a", "ssh://git@example.com/a", "git@example.com:a", "-x", "ext::sh", "file:///a", "http://[::1]/a", "", "a\r\nb", "https://%2d/%0a",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		src, remote, err := ParseURL(text, "/url", false)
		if err != nil {
			return
		}
		if text == "" || strings.HasPrefix(text, "-") || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("parseURL(%q) = %+v, want a refusal", text, src)
		}
		if strings.HasPrefix(src.URL, "-") || strings.ContainsFunc(src.URL, unicode.IsControl) {
			t.Errorf("parseURL(%q) gives git %q", text, src.URL)
		}
		if remote != (src.Protocol != "") || remote && src.Protocol != "https" && src.Protocol != "http" && src.Protocol != "ssh" && src.Protocol != "git" {
			t.Errorf("parseURL(%q) = %+v, remote %v", text, src, remote)
		}
	})
}
