package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// layer parses a policy file that must be valid.
func layer(t *testing.T, source, text string) Layer {
	t.Helper()
	l, findings := Parse(source, []byte(text))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return l
}

func TestAction(t *testing.T) {
	t.Parallel()
	labels := func(names ...string) map[string][]string { return map[string][]string{"labels": names} }
	tests := map[string]struct {
		server, repository string
		request            Request
		want               lattice.Verdict
		class              Class
		rule, code         string
	}{
		"push asks":                       {request: Request{Name: "PUSH_BRANCH"}, want: lattice.Ask, class: Controlled, rule: "default: actions.PUSH_BRANCH"},
		"credential is denied":            {request: Request{Name: "FETCH_CREDENTIAL"}, want: lattice.Deny, class: Dangerous, rule: "default: actions.FETCH_CREDENTIAL", code: "denied_by_policy"},
		"message is allowed":              {request: Request{Name: "NOTIFY_USER"}, want: lattice.Allow, class: Safe, rule: "default: actions.NOTIFY_USER"},
		"unknown is controlled":           {request: Request{Name: "LAUNCH"}, want: lattice.Ask, class: Controlled, rule: "class: controlled"},
		"server allows":                   {server: "[actions.PUSH_BRANCH]\ndecision = 'allow'", request: Request{Name: "PUSH_BRANCH"}, want: lattice.Allow, class: Controlled, rule: "server:1: actions.PUSH_BRANCH"},
		"dangerous still asks":            {server: "actions.FETCH_CREDENTIAL.decision = 'allow'", request: Request{Name: "FETCH_CREDENTIAL"}, want: lattice.Ask, class: Dangerous, rule: "server:1: actions.FETCH_CREDENTIAL"},
		"class is raised":                 {server: "[actions.NOTIFY_USER]\nclass = 'dangerous'", request: Request{Name: "NOTIFY_USER"}, want: lattice.Ask, class: Dangerous, rule: "server:1: actions.NOTIFY_USER"},
		"class is never lowered":          {server: "[actions.FETCH_CREDENTIAL]\nclass = 'safe'\ndecision = 'allow'", request: Request{Name: "FETCH_CREDENTIAL"}, want: lattice.Ask, class: Dangerous, rule: "server:1: actions.FETCH_CREDENTIAL"},
		"repository cannot allow":         {repository: "actions.PUSH_BRANCH.decision = 'allow'", request: Request{Name: "PUSH_BRANCH"}, want: lattice.Ask, class: Controlled, rule: "default: actions.PUSH_BRANCH"},
		"repository cannot lift a denial": {repository: "actions.FETCH_CREDENTIAL.decision = 'ask'", request: Request{Name: "FETCH_CREDENTIAL"}, want: lattice.Deny, class: Dangerous, rule: "default: actions.FETCH_CREDENTIAL", code: "denied_by_policy"},
		"repository denies":               {repository: "\n\n[actions.PUSH_BRANCH]\ndecision = 'deny'", request: Request{Name: "PUSH_BRANCH"}, want: lattice.Deny, class: Controlled, rule: "repository:3: actions.PUSH_BRANCH", code: "denied_by_policy"},
		"repository raises a class":       {server: "actions.PUSH_BRANCH.decision = 'allow'", repository: "actions.PUSH_BRANCH.class = 'dangerous'", request: Request{Name: "PUSH_BRANCH", Planned: true}, want: lattice.Ask, class: Dangerous, rule: "server:1: actions.PUSH_BRANCH"},
		"value is allowed":                {server: "actions.LABEL_ISSUE.allowed.labels = ['bug', 'lattice:*']", request: Request{Name: "LABEL_ISSUE", Values: labels("bug", "lattice:done")}, want: lattice.Ask, class: Controlled, rule: "server:1: actions.LABEL_ISSUE"},
		"value is denied":                 {server: "actions.LABEL_ISSUE.allowed.labels = ['bug']", request: Request{Name: "LABEL_ISSUE", Values: labels("bug", "approved")}, want: lattice.Deny, class: Controlled, rule: "server:1: actions.LABEL_ISSUE", code: "value_denied"},
		"repository narrows values":       {server: "actions.LABEL_ISSUE.allowed.labels = ['bug', 'ui']", repository: "actions.LABEL_ISSUE.allowed.labels = ['ui', 'approved']", request: Request{Name: "LABEL_ISSUE", Values: labels("approved")}, want: lattice.Deny, class: Controlled, rule: "server:1: actions.LABEL_ISSUE", code: "value_denied"},
		"plan covers controlled":          {request: Request{Name: "OPEN_PR", Planned: true}, want: lattice.Allow, class: Controlled, rule: "plan: approved"},
		"plan does not cover dangerous":   {server: "actions.FETCH_CREDENTIAL.decision = 'ask'", request: Request{Name: "FETCH_CREDENTIAL", Planned: true}, want: lattice.Ask, class: Dangerous, rule: "server:1: actions.FETCH_CREDENTIAL"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := New("", layer(t, "server", tt.server))
			if tt.repository != "" {
				p = p.Narrow(layer(t, "repository", tt.repository))
			}
			v := p.Action(tt.request)
			if v.Decision != tt.want || v.Class != tt.class || v.Rule.String() != tt.rule || v.Code != tt.code {
				t.Errorf("Action = %s, class %s by %q, code %q; want %s, class %s by %q, code %q", v.Decision, v.Class, v.Rule, v.Code, tt.want, tt.class, tt.rule, tt.code)
			}
		})
	}
}

func TestAdmits(t *testing.T) {
	t.Parallel()
	ada, bob, eve := audit.Who{Name: "ada", UID: 1}, audit.Who{Name: "bob", UID: 2}, audit.Who{Name: "eve", UID: 3}
	asked := []audit.Who{ada}
	for name, tt := range map[string]struct {
		rule      Approve
		who       audit.Who
		asked     []audit.Who
		approvers []audit.Who
		more      int
		refused   string
	}{
		"no rule":                  {Approve{}, ada, asked, nil, 0, ""},
		"by name":                  {Approve{By: []string{"bob"}}, bob, asked, nil, 0, ""},
		"by id":                    {Approve{By: []string{"uid:2"}}, bob, asked, nil, 0, ""},
		"not named":                {Approve{By: []string{"bob"}}, eve, asked, nil, 0, "does not let eve"},
		"a name that is an id":     {Approve{By: []string{"uid:2"}}, audit.Who{Name: "2", UID: 3}, asked, nil, 0, "does not let 2"},
		"requester":                {Approve{NotRequester: true}, ada, asked, nil, 0, "ada asked for it"},
		"requester under new name": {Approve{NotRequester: true}, audit.Who{Name: "alias", UID: 1}, asked, nil, 0, "alias asked for it"},
		"another":                  {Approve{NotRequester: true}, bob, asked, nil, 0, ""},
		"another token":            {Approve{NotRequester: true}, audit.Who{Name: "token:b", UID: -1}, []audit.Who{{Name: "token:a", UID: -1}}, nil, 0, ""},
		"the same token":           {Approve{NotRequester: true}, audit.Who{Name: "token:a", UID: -1}, []audit.Who{{Name: "token:a", UID: -1}}, nil, 0, "token:a asked for it"},
		"two tokens are two":       {Approve{People: 2}, audit.Who{Name: "token:b", UID: -1}, nil, []audit.Who{{Name: "token:a", UID: -1}}, 0, ""},
		"requester unknown":        {Approve{NotRequester: true}, bob, nil, nil, 0, "is not known"},
		"first of two":             {Approve{People: 2}, bob, asked, nil, 1, ""},
		"the same again":           {Approve{People: 2}, bob, asked, []audit.Who{bob}, 1, ""},
		"second of two":            {Approve{People: 2}, eve, asked, []audit.Who{bob}, 0, ""},
	} {
		more, reason := tt.rule.Admits(tt.who, tt.asked, tt.approvers)
		if more != tt.more || (reason == "") != (tt.refused == "") || !strings.Contains(reason, tt.refused) {
			t.Errorf("%s: %d more, %q; want %d, %q", name, more, reason, tt.more, tt.refused)
		}
	}
	both := Approve{By: []string{"ada", "bob"}, People: 2}.unionWith(Approve{By: []string{"bob", "eve"}, Expires: 5})
	if !slices.Equal(both.By, []string{"bob"}) || both.People != 2 || both.Expires != 5 {
		t.Errorf("stricter = %+v", both)
	}
	if none := (Approve{By: []string{"ada"}}).unionWith(Approve{By: []string{"bob"}}); none.By == nil {
		t.Error("two lists without a common name admit all")
	}
}

// A repository's policy never makes anything looser, whatever it says.
func TestRepositoryOnlyNarrows(t *testing.T) {
	t.Parallel()
	classes := append(Classes(), "")
	decisions := append(Decisions(), "")
	for _, action := range []string{"PUSH_BRANCH", "NOTIFY_USER", "FETCH_CREDENTIAL", "LAUNCH"} {
		for _, server := range decisions {
			for _, class := range classes {
				for _, decision := range decisions {
					rule := func(source, class, decision string) Layer {
						l := Layer{Source: source}
						l.Actions = map[string]Action{action: {Class: Class(class), Decision: lattice.Verdict(decision)}}
						return l
					}
					wide := New("", rule("server", "", server))
					before, after := wide.Action(Request{Name: action}), wide.Narrow(rule("repository", class, decision)).Action(Request{Name: action})
					if rankVerdict(after.Decision) < rankVerdict(before.Decision) || riskOf(after.Class) < riskOf(before.Class) {
						t.Errorf("%s: server %q, repository %q %q: %s %s became %s %s", action, server, class, decision, before.Class, before.Decision, after.Class, after.Decision)
					}
				}
			}
		}
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	p := New("").Narrow(layer(t, "repository", "[[paths]]\nname = 'docs'\nmatch = ['/docs/**/*.md']\ndecision = 'ask'\n[[paths]]\nname = 'open'\nmatch = ['*.pem']\ndecision = 'allow'"))
	for path, want := range map[string]string{
		".env": "deny secrets", "a/b/.ENV": "deny secrets", ".env.production": "deny secrets", ".env.example": "allow examples", "deploy/tls.pem": "deny secrets", "id_rsa": "deny secrets",
		"config/secrets.yml": "deny secrets", "credentials": "deny secrets", "src/credentials.go": "allow ", "keyboard.keys": "allow ", "environment.ts": "allow ",
		".github/workflows/a.yml": "ask ci", ".GitHub/Workflows/A.yml": "ask ci", "ci/deploy.gitlab-ci.yml": "ask ci", "Jenkinsfile": "ask ci", "deploy/Jenkinsfile.prod": "ask ci",
		".ci/run": "ask ci", "docs/.github": "allow ", "src/github/a.go": "allow ", "github/x.yml": "allow ", "sub/.github/x": "allow ",
		".lattice/policy.toml": "ask policy", ".gitmodules": "warn submodules", "a/.gitattributes": "warn git", "CLAUDE.md": "warn machines", ".husky/pre-commit": "warn machines",
		"go.mod": "warn dependencies", "web/package-lock.json": "warn dependencies", "db/migrate/001.rb": "warn migrations", "app/migrations/0001.py": "warn migrations",
		"internal/auth/token.go": "warn auth", "auth.go": "warn auth", "author.go": "allow ",
		"docs/a.md": "ask docs", "docs/x/y/a.md": "ask docs", "sub/docs/a.md": "allow ", "README.md": "allow ",
	} {
		v := p.Path(Change{Path: path})
		if got := string(v.Decision) + " " + v.Name; got != want {
			t.Errorf("Path(%q) = %q, want %q", path, got, want)
		}
	}
	if v := p.Path(Change{Path: ".env", Deleted: true}); v.Decision != PathWarn {
		t.Errorf("deleted .env: %s, want warn", v.Decision)
	}
}

func TestMatchesPath(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("a/", 60)
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.pem", "x/y/a.pem", true}, {"/*.pem", "x/a.pem", false}, {"a/b", "x/a/b", true}, {"a/b", "x/a/b/c", false}, {"/a/b", "x/a/b", false},
		{"a/", "a", false}, {"a/", "x/a", false}, {"a/", "x/a/b/c", true}, {"/a/", "a/b", true}, {"/a/", "x/a/b", false},
		{"/a/**", "a", true}, {"/a/**", "a/b/c", true}, {"/a/**/c", "a/c", true}, {"/a/**/c", "a/b/b/c", true}, {"/a/**/c", "a/b/c/d", false}, {"/a/**/c/", "a/b/c/d", true},
		{"/", "a", true}, {"/", "a/b", true}, {"**", "a/b", true}, {"**/", "a", true}, {"/**/b/**/d", "a/b/c/b/d", true}, {"/**/a/b", "a/a/b", true}, {"/*/**/b", "b", false},
		{strings.Repeat("**/a/", 25) + "b", deep + "a", false}, {strings.Repeat("**/", 25) + "b/", deep + "b", false}, {strings.Repeat("**/a/", 25) + "b", deep + "b", true},
	} {
		if got := matchesPath(c.pattern, c.path); got != c.want {
			t.Errorf("matchesPath(%q, %q) = %t, want %t", c.pattern, c.path, got, c.want)
		}
	}
}

func TestReview(t *testing.T) {
	t.Parallel()
	display := func(s string) string { return s }
	var changes []Change
	for _, name := range []string{"a.txt", "go.mod", "CLAUDE.md", ".github/workflows/1.yml"} {
		changes = append(changes, Change{Path: name})
	}
	for range 9 {
		changes = append(changes, Change{Path: "x/.gitattributes"})
	}
	lines, refused, ask := New("").Review(changes, display)
	want := []string{
		"changes programs that the code host or its CI runs: .github/workflows/1.yml", "changes dependencies: go.mod",
		"runs, or instructs agents, on machines that open the repository: CLAUDE.md",
		"changes how git treats files (9): " + strings.TrimSuffix(strings.Repeat("x/.gitattributes, ", 5), ", ") + ", and 4 more",
	}
	if !slices.Equal(lines, want) || refused != nil || !ask {
		t.Errorf("Review = %q %v %v, want %q and a person asked", lines, refused, ask, want)
	}
	if _, refused, _ = New("").Review(append(changes, Change{Path: "a/.env"}, Change{Path: "b.pem"}), display); refused == nil || refused.Path != "a/.env" {
		t.Errorf("refused %v, want a/.env", refused)
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	server := layer(t, "server", "[actions.OPEN_PR]\ndecision='deny'\n[profiles.acme]\nrepositories=['github.com/acme/*', '/src/']\n[profiles.acme.actions.OPEN_PR]\ndecision='allow'")
	for repo, want := range map[string]lattice.Verdict{
		"https://github.com/acme/site.git": lattice.Allow, "git@github.com:acme/site": lattice.Allow, "ssh://git@github.com/acme/site.git": lattice.Allow, "https://tok@github.com/acme/site": lattice.Allow,
		"/src/x/y": lattice.Allow, "https://github.com/acme/site/deep": lattice.Deny, "https://evil.org/github.com/acme/site": lattice.Deny, "": lattice.Deny,
	} {
		if v := New(repo, server).Action(Request{Name: "OPEN_PR"}); v.Decision != want {
			t.Errorf("%q: %s, want %s", repo, v.Decision, want)
		} else if want == lattice.Allow && v.Rule.Line != 5 {
			t.Errorf("%q: the rule is %s, want line 5", repo, v.Rule)
		}
	}
}

func TestParseNamesEveryProblem(t *testing.T) {
	t.Parallel()
	_, findings := Parse("p", []byte(`[actions.PUSH_BRANCH]
decision = "maybe"
colour = "red"
[[paths]]
match = ["[a"]
decision = "ask"
[profiles.x]
`))
	var got []string
	for _, f := range findings {
		got = append(got, f.Text())
	}
	want := []string{
		`line 2: actions.PUSH_BRANCH.decision: "maybe" is not one of allow, ask, deny`, "line 3: actions.PUSH_BRANCH.colour: there is no such key",
		"line 4: paths[0]: a rule about files needs name and match", `line 5: paths[0].match: "[a" is not a pattern`, "line 7: profiles.x: a profile needs repositories",
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, limit := range []string{"[actions.PUSH_BRANCH]\nmax = 0", "[actions.PUSH_BRANCH]\nmax = -1", "actions.PUSH_BRANCH = {max = 0}", "[rate]\nintents_per_hour = 0"} {
		if _, findings := Parse("p", []byte(limit)); len(findings) != 1 || !strings.Contains(findings[0].Text(), "is not a limit") {
			t.Errorf("%q: findings %v, want one about the limit", limit, findings)
		}
	}
	if _, findings := Parse("p", []byte("[profiles.x]\nrepositories = ['a/*']\n[profiles.x.actions.PUSH_BRANCH]\nmax = 0")); len(findings) != 1 || findings[0].Line != 4 {
		t.Errorf("a limit of a profile: findings %v, want one about line 4", findings)
	}
	if _, findings := Parse("p", []byte("x = [")); len(findings) != 1 || findings[0].Line != 1 {
		t.Errorf("findings about bad TOML: %v", findings)
	}
	l := layer(t, "p", "world.allow = ['a.b']\nactions.OPEN_PR.notes = true\n[profiles.x]\nrepositories = ['y']")
	if found := CheckRepository(l); len(found) != 3 {
		t.Errorf("CheckRepository = %v, want three findings", found)
	}
}

// TestNotes: the policy of the server has pushes export statements, for some repositories perhaps; that of a repository does not.
func TestNotes(t *testing.T) {
	t.Parallel()
	push := Request{Name: "PUSH_BRANCH"}
	server := layer(t, "server", "[profiles.x]\nrepositories = ['/r']\nactions.PUSH_BRANCH.notes = true")
	on := layer(t, "repository", "actions.PUSH_BRANCH.notes = true")
	for name, c := range map[string]struct {
		policy Policy
		want   bool
	}{
		"by default":         {New("/r"), false},
		"in the profile":     {New("/r", server), true},
		"elsewhere":          {New("/s", server), false},
		"of a repository":    {New("/r").Narrow(on), false},
		"with another layer": {New("/r", layer(t, "first", "actions.PUSH_BRANCH.max = 3"), server), true},
	} {
		if got := c.policy.Action(push).Notes; got != c.want {
			t.Errorf("%s: notes is %t, want %t", name, got, c.want)
		}
	}
	if _, findings := Parse("p", []byte("actions.POST_COMMENT.notes = true")); len(findings) != 1 || findings[0].Text() != "line 1: actions.POST_COMMENT.notes: POST_COMMENT pushes no commit" {
		t.Errorf("notes of a comment: %v", findings)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(defaultText))
	f.Add([]byte("[profiles.x]\nrepositories=['a']\n[profiles.x.actions.A]\nmax=3"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, findings := Parse("p", text)
		if len(findings) > 0 {
			return
		}
		p := New("github.com/a/b", l).Narrow(l)
		for _, name := range p.Names("action") {
			if v := p.Action(Request{Name: name}); rankVerdict(v.Decision) < 0 {
				t.Errorf("%s: %q", name, v.Decision)
			}
		}
		p.Path(Change{Path: "a/b"})
	})
}

// TestUrgent holds that the settings of a schedule replace the question of the default table, and no rule of a file.
func TestUrgent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		decision lattice.Verdict
		source   string
		want     lattice.Verdict
	}{
		{lattice.Ask, "default", lattice.Allow},
		{lattice.Ask, "/etc/policy.toml", lattice.Ask},
		{lattice.Ask, "class", lattice.Ask},
		{lattice.Deny, "default", lattice.Deny},
		{lattice.Allow, "/etc/policy.toml", lattice.Allow},
	} {
		if got := (Verdict{Decision: c.decision, Rule: Rule{Source: c.source}}).Urgent(); got.Decision != c.want {
			t.Errorf("Urgent of %s by %s = %s, want %s", c.decision, c.source, got.Decision, c.want)
		}
	}
}
