package settings

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Forge is a code host, where people see the work of lattice and decide about it.
//
//	[forges.main]
//	kind = "github"
//	token_env = "GITHUB_TOKEN"
//	webhook_secret_file = "~/.config/lattice/hook"
//	repositories = ["acme/site"]
//	input = { agent = "claude" }
//
//	[forges.team]
//	kind = "gitea"
//	url = "https://git.example.org"
//	token_file = "~/.config/lattice/gitea"
//	repositories = ["acme/site"]
//	poll = "1m"
type Forge struct {
	// Kind is the kind of the code host: github or gitea.
	Kind ForgeKind `json:"kind"`
	// URL is the address of its web pages; by default https://github.com.
	URL string `json:"url,omitempty"`
	// TokenEnv names the environment variable that holds the token of the account that lattice uses.
	TokenEnv string `json:"token_env,omitempty"`
	// TokenFile is the path of a file with that token that only you may read; ~/ is the home directory.
	TokenFile string `json:"token_file,omitempty"`
	// AppID is the number of a GitHub App, whose tokens lattice uses instead.
	AppID int `json:"app_id,omitempty"`
	// InstallationID is the number of the App's installation for these repositories.
	InstallationID int `json:"installation_id,omitempty"`
	// AppKeyFile is the path of a file with the App's private key that only you may read; ~/ is the home directory.
	AppKeyFile string `json:"app_key_file,omitempty"`
	// WebhookSecretEnv names the environment variable with the secret that signs webhooks: at least 16 bytes.
	WebhookSecretEnv string `json:"webhook_secret_env,omitempty"`
	// WebhookSecretFile is the path of a file with that secret that only you may read; ~/ is the home directory.
	WebhookSecretFile string `json:"webhook_secret_file,omitempty"`
	// Repositories are those that are served, as OWNER/NAME. Events of others are ignored.
	Repositories []string `json:"repositories,omitempty"`
	// Forks takes commands in pull requests from forks, whose authors need no permission here.
	Forks bool `json:"forks,omitempty"`
	// Labels shows the state of the newest run as a label of its issue or pull request, such as lattice:waiting. Labels decide nothing.
	Labels bool `json:"labels,omitempty"`
	// Issues brings the issues of these repositories to the boards of their clones (boards), and shows there the statuses of tasks.
	Issues bool `json:"issues,omitempty"`
	// Poll asks for comments, reviews and checks this often, for a machine that webhooks do not reach.
	Poll Duration `json:"poll,omitempty"`
	// Input is the input of the flows that commands in comments start, such as the agent.
	Input map[string]any `json:"input,omitempty"`
	// Work is the input of the flow pull-request, which carries out a plan that people approve, such as test_command. The members of
	// input that name the agent hold there, too, unless work names one.
	Work map[string]any `json:"work,omitempty"`
	// AgentEnv names variables of the leader that agents of these flows get; run.agent_env adds to them.
	AgentEnv []string `json:"agent_env,omitempty"`
}

// ForgeKind names a kind of code host.
type ForgeKind string

// ForgeKinds are the values of ForgeKind.
func ForgeKinds() []string { return []string{"github", "gitea"} }

var (
	forgeName      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`) })
	repositoryName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}$`) })
)

func checkForges(s Settings) (found []Finding) {
	for _, name := range slices.Sorted(maps.Keys(s.Forges)) {
		found = append(found, checkForge("forges."+name, name, s.Forges[name])...)
	}
	return found
}

func checkForge(at, name string, f Forge) (found []Finding) {
	bad := func(code, key, message, hint string) {
		found = append(found, Finding{Code: code, Key: joinKey(at, key), Message: message, Hint: hint})
	}
	if !forgeName().MatchString(name) {
		found = append(found, Finding{Code: CodeValue, Key: at, Message: "it is not the name of a code host", Hint: "small letters, digits and hyphens, such as main"})
	}
	if !slices.Contains(ForgeKinds(), string(f.Kind)) {
		bad(CodeValue, "kind", fmt.Sprintf("%q is not known", f.Kind), "one of "+strings.Join(ForgeKinds(), ", "))
	}
	switch u, err := url.Parse(f.URL); {
	case f.URL == "" && f.Kind == "gitea":
		bad(CodeValue, "url", "it is missing", "such as https://git.example.org")
	case f.URL == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		bad(CodeValue, "url", "it is not an http or https URL", "such as https://git.example.org")
	case u.User != nil:
		bad(CodeSecret, "url", "the URL holds credentials", "use token_env or token_file")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		bad(CodeValue, "url", "the token would travel unencrypted", "use https")
	}
	switch app := f.AppID != 0 || f.InstallationID != 0 || f.AppKeyFile != ""; {
	case app && f.Kind != "github":
		bad(CodeValue, "app_id", "only GitHub has Apps", "use token_env or token_file")
	case app && (f.AppID < 1 || f.InstallationID < 1 || f.AppKeyFile == ""):
		bad(CodeValue, "app_id", "an App needs app_id, installation_id and app_key_file", "GitHub shows the numbers in the settings of the App and in the address of its installation")
	case app && countSet(f.TokenEnv, f.TokenFile) > 0:
		bad(CodeValue, "token_env", "an App gets its own tokens", "leave token_env and token_file out, or app_id, installation_id and app_key_file")
	case !app && countSet(f.TokenEnv, f.TokenFile) != 1:
		bad(CodeValue, "token_env", "exactly one of token_env and token_file is needed", "token_env names an environment variable, token_file a file that only you may read")
	}
	if countSet(f.WebhookSecretEnv, f.WebhookSecretFile) > 1 {
		bad(CodeValue, "webhook_secret_file", "webhook_secret_env and webhook_secret_file are both set", "keep one of them")
	}
	for key, name := range map[string]string{"token_env": f.TokenEnv, "webhook_secret_env": f.WebhookSecretEnv} {
		if name != "" && (!variable().MatchString(name) || len(name) >= 20 && tokenLike().MatchString(name)) {
			bad(CodeSecret, key, "it looks like a secret, not like the name of a variable", key+" names an environment variable")
		}
	}
	for key, path := range map[string]string{"token_file": f.TokenFile, "app_key_file": f.AppKeyFile, "webhook_secret_file": f.WebhookSecretFile} {
		if path != "" && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
			bad(CodeValue, key, "it is not an absolute path", "begin it with / or ~/")
		}
	}
	for _, r := range f.Repositories {
		if parts := strings.Split(r, "/"); !repositoryName().MatchString(r) || slices.Contains(parts, ".") || slices.Contains(parts, "..") {
			bad(CodeValue, "repositories", fmt.Sprintf("%q is not a repository", r), "such as acme/site")
		}
	}
	if f.Poll != 0 && time.Duration(f.Poll) < time.Second {
		bad(CodeValue, "poll", "the code host would refuse so many requests", "such as 1m")
	}
	return found
}
