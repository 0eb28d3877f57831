package mirror

import "testing"

func TestNames(t *testing.T) {
	t.Parallel()
	same := [][]string{
		{"https://example.org/team/app", "https://ada@example.org/team/app/", "HTTPS://Example.ORG:443/team/app", "https://ada:x@example.org/team/app//"},
		{"http://example.org/team/app", "http://example.org:80/team/app"},
		{"https://example.org:8443/team/app"},
		{"https://example.org/team/app.git"},
		{"https://example.org/team/App"},
		{"https://example.org/team/app?x=1"},
		{"git@example.org:team/app.git", "example.org:team/app.git/", "ada@EXAMPLE.org:team/app.git"},
		{"ssh://git@example.org/team/app.git", "ssh://example.org:22/team/app.git"},
		{"file:///srv/app.git"},
	}
	seen := map[string]string{}
	for _, group := range same {
		name := Name(group[0])
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s share a mirror", other, group[0])
		}
		seen[name] = group[0]
		for _, spelling := range group[1:] {
			if Name(spelling) != name {
				t.Errorf("%s and %s do not share a mirror: %s, %s", group[0], spelling, normalURL(group[0]), normalURL(spelling))
			}
		}
	}
}
