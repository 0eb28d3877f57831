package policy

import "testing"

func TestMisspeltNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[actions.LABEL_ISSUE]\nallowed.lables = ['bug']":                                   "line 2: actions.LABEL_ISSUE.allowed.lables: LABEL_ISSUE has no parameter lables; did you mean labels?",
		"[profiles.a]\nrepositories = ['/r']\nactions.PUSH_BRANCH.allowed.branches = ['x']": "line 3: profiles.a.actions.PUSH_BRANCH.allowed.branches: PUSH_BRANCH has no parameter branches; did you mean branch?",
		"actions.NOTIFY_USER.allowed.colour = ['x']":                                        "line 1: actions.NOTIFY_USER.allowed.colour: NOTIFY_USER has no parameter colour; it has body, channel, level, link, repo, title",
		"actions.PUSH_BRANCHES.decision = 'deny'":                                           "line 1: actions.PUSH_BRANCHES: lattice knows no action PUSH_BRANCHES; did you mean PUSH_BRANCH?",
		"actions.push_branch.decision = 'deny'":                                             "line 1: actions.push_branch: lattice knows no action push_branch; did you mean PUSH_BRANCH?",
		"actions.LAUNCH.allowed.rocket = ['x']":                                             "",
		"actions.OPEN_PR.allowed.repo = ['github.com/acme/*']":                              "",
		"[actions.PUSH_BRANCH.allowed]\nrepo = ['/x']\nbranch = ['b']":                      "",
	} {
		_, findings := Parse("policy.toml", []byte(text))
		switch {
		case want == "" && len(findings) > 0:
			t.Errorf("%s: %v", text, findings)
		case want != "" && (len(findings) != 1 || findings[0].Text() != want):
			t.Errorf("%s:\n got %v\nwant %s", text, findings, want)
		}
	}
}
