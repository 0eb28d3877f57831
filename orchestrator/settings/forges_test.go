package settings

import (
	"slices"
	"strings"
	"testing"
)

// TestForges checks a code host that is complete, and one with everything wrong.
func TestForges(t *testing.T) {
	t.Parallel()
	good := `[forges.main]
kind = "github"
token_env = "GITHUB_TOKEN"
webhook_secret_file = "~/.config/lattice/hook"
repositories = ["acme/site"]
poll = "1m"
input = { agent = "claude" }
[forges.team]
kind = "gitea"
url = "http://127.0.0.1:3000"
token_file = "/etc/lattice/gitea"
[forges.app]
kind = "github"
app_id = 7
installation_id = 70
app_key_file = "~/.config/lattice/app.pem"
`
	s, found := Parse([]byte(good))
	if len(found) > 0 || len(s.Forges) != 3 || s.Forges["main"].Input["agent"] != "claude" {
		t.Errorf("%+v: %+v", s.Forges, found)
	}
	bad := `[forges.Main]
kind = "gitlab"
url = "http://ann@git.example.org"
token_env = "ghp_0123456789abcdefghij0123456789"
token_file = "token"
webhook_secret_env = "A"
webhook_secret_file = "b"
repositories = ["site"]
poll = "1ms"
[forges.plain]
kind = "gitea"
[forges.open]
kind = "gitea"
url = "http://git.example.org"
token_env = "A"
[forges.odd]
kind = "gitea"
url = "git.example.org"
token_env = "A"
[forges.gitea-app]
kind = "gitea"
url = "https://git.example.org"
app_id = 7
[forges.half-app]
kind = "github"
app_id = 7
[forges.two]
kind = "github"
app_id = 7
installation_id = 70
app_key_file = "app.pem"
token_env = "A"
`
	_, found = Parse([]byte(bad))
	var keys []string
	for _, f := range found {
		keys = append(keys, f.Key)
	}
	slices.Sort(keys)
	want := []string{"forges.Main", "forges.Main.kind", "forges.Main.poll", "forges.Main.repositories", "forges.Main.token_env", "forges.Main.token_env", "forges.Main.token_file",
		"forges.Main.url", "forges.Main.webhook_secret_file", "forges.Main.webhook_secret_file", "forges.gitea-app.app_id", "forges.half-app.app_id", "forges.odd.url", "forges.open.url", "forges.plain.token_env", "forges.plain.url", "forges.two.app_key_file", "forges.two.token_env"}
	if !slices.Equal(keys, want) {
		t.Errorf("got %v\nwant %v", keys, want)
	}
	for name, valid := range map[string]bool{"acme/site": true, "acme/.github": true, "a.b/c..d": true, "acme/..": false, "./site": false, "../..": false, "acme/": false, "acme/a/b": false, "acme/" + strings.Repeat("a", 101): false} {
		if _, found := Parse([]byte("[forges.main]\nkind = \"github\"\ntoken_env = \"T\"\nrepositories = [\"" + name + "\"]")); (len(found) == 0) != valid {
			t.Errorf("the repository %s: %+v, want valid %t", name, found, valid)
		}
	}
}
