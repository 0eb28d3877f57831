package forge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

// connectView is the outcome of forge connect.
type connectView struct {
	Forge      string     `json:"forge"`
	Repository string     `json:"repository"`
	Account    string     `json:"account"`
	Role       forge.Role `json:"role"`
	Settings   string     `json:"settings"` // the path of the file
	Written    bool       `json:"written"`  // it was changed
	Webhook    string     `json:"webhook,omitempty"`
	Created    bool       `json:"webhook_created,omitempty"`
	Events     []string   `json:"webhook_events_added,omitempty"`
	SecretFile string     `json:"webhook_secret_file,omitempty"`
	Notices    []string   `json:"notices,omitempty"`
}

// connection is a repository that is to be connected.
type connection struct {
	env     *setup.Env
	name    string
	path    forge.Path
	host    settings.Forge
	address string // of lattice serve, for webhooks; "" without
}

func newConnectCmd(env *setup.Env) *cobra.Command {
	c := connection{env: env}
	kind := ""
	cmd := &cobra.Command{
		Use:   "connect OWNER/NAME",
		Short: "Check a token and write the settings that connect a repository, with a webhook if wanted",
		Long: `Connect lattice to a repository: try the token, look for the role of its account, and add [forges.NAME] to the settings. With
--webhook, the address at which the code host reaches lattice serve --http, it also makes a secret and adds the webhook, for which
the account needs the role admin. Nothing is written unless the token works and the role suffices. The command can be repeated;
it adds only what is missing.`,
		Example: `  lattice forge connect acme/site --token-file ~/.config/lattice/forge-token
  lattice forge connect acme/site --token-env GITHUB_TOKEN --webhook https://lattice.example.org
  lattice forge connect acme/site --name team --kind gitea --url https://git.example.org --token-file ~/gitea-token --json`,
		Args:              cli.Args(cobra.ExactArgs(1)),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, list []string) error {
			path, ok := forge.ParsePath(list[0])
			switch {
			case !ok:
				return cli.UsageErrorf("%q is not OWNER/NAME", list[0])
			case (c.host.TokenFile == "") == (c.host.TokenEnv == ""):
				return cli.UsageErrorf("one of --token-file and --token-env is needed")
			}
			c.path, c.host.Kind, c.host.Repositories = path, settings.ForgeKind(kind), []string{path.String()}
			view, err := c.connect(cmd.Context())
			if err != nil {
				return err
			}
			return printConnected(env.Console, view)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.name, "name", "main", "the name of the code host in the settings")
	f.StringVar(&kind, "kind", "github", "the kind of the code host: "+strings.Join(settings.ForgeKinds(), " or "))
	f.StringVar(&c.host.URL, "url", "", "the address of its web pages (default: https://github.com)")
	f.StringVar(&c.host.TokenFile, "token-file", "", "a file with the token that only you may read")
	f.StringVar(&c.host.TokenEnv, "token-env", "", "the environment variable with the token")
	f.StringVar(&c.address, "webhook", "", "add a webhook to this address of lattice serve --http")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(settings.ForgeKinds(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// connect checks the connection, and then writes the settings and the webhook.
func (c connection) connect(ctx context.Context) (connectView, error) {
	file, _ := setup.SettingsPath(c.env.Getenv)
	view := connectView{Forge: c.name, Repository: c.path.String(), Settings: file}
	if c.address != "" {
		u, err := url.Parse(c.address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return view, cli.UsageErrorf("--webhook is the address at which the code host reaches lattice serve, such as https://lattice.example.org")
		}
		view.Webhook = strings.TrimSuffix(c.address, "/") + "/hooks/" + c.name
		c.host.WebhookSecretFile = filepath.Join(filepath.Dir(file), "webhook-"+c.name)
		view.SecretFile = c.host.WebhookSecretFile
	}
	if c.host.TokenFile != "" {
		path, err := filepath.Abs(c.env.Expand(c.host.TokenFile))
		if err != nil {
			return view, err
		}
		c.host.TokenFile = path
	}
	text, err := c.settingsText(file)
	if err != nil {
		return view, err
	}
	client, err := c.check(ctx, &view)
	if err != nil {
		return view, err
	}
	secret := ""
	if view.Webhook != "" {
		if secret, err = keepSecret(c.host.WebhookSecretFile); err != nil {
			return view, err
		}
	}
	if text != "" {
		if err := appendText(file, text); err != nil {
			return view, err
		}
		view.Written = true
	}
	if view.Webhook != "" {
		view.Created, view.Events, err = addHook(ctx, client, client.Kind(), c.path, view.Webhook, secret)
	}
	return view, err
}

// settingsText returns the text that the settings lack, "" if they name the repository already. It refuses a name that they
// give to another code host, and a text that would not be read.
func (c connection) settingsText(file string) (string, error) {
	if known, ok := c.env.Settings.Forges[c.name]; ok {
		same := known.Kind == c.host.Kind && setup.WebOf(known) == setup.WebOf(c.host) && c.env.Expand(known.TokenFile) == c.host.TokenFile && known.TokenEnv == c.host.TokenEnv
		if !same || !slices.ContainsFunc(known.Repositories, func(r string) bool { return strings.EqualFold(r, c.path.String()) }) || c.host.WebhookSecretFile != "" && c.env.Expand(known.WebhookSecretFile) != c.host.WebhookSecretFile {
			return "", fault.BadInput("forge_exists", "the settings have a code host %s, and it differs", c.name).WithHint("choose another name with --name, or edit [forges.%s] in %s", c.name, file)
		}
		return "", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n[forges.%s]\nkind = %q\n", c.name, c.host.Kind)
	for _, line := range [][2]string{{"url", c.host.URL}, {"token_file", c.host.TokenFile}, {"token_env", c.host.TokenEnv}, {"webhook_secret_file", c.host.WebhookSecretFile}} {
		if line[1] != "" {
			fmt.Fprintf(&b, "%s = %q\n", line[0], line[1])
		}
	}
	fmt.Fprintf(&b, "repositories = [%q]\n", c.path.String())
	before, err := setup.ReadBounded(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the settings: %w", err)
	}
	if _, findings := settings.Parse(append(before, b.String()...)); len(findings) > 0 {
		return "", fault.BadInput("forge_unusable", "the settings would be wrong: %s", findings[0].Text()).WithHint("%s", findings[0].Hint)
	}
	return b.String(), nil
}

// check tries the token and the role of its account.
func (c connection) check(ctx context.Context, view *connectView) (hookClient, error) {
	if c.env.Settings.Forges == nil {
		c.env.Settings.Forges = map[string]settings.Forge{}
	}
	c.env.Settings.Forges[c.name] = c.host
	client, err := c.env.CodeHosts().Client(c.name)
	if err != nil {
		return nil, err
	}
	found := checkHost(ctx, client, c.name, c.host.Repositories)[0]
	view.Account, view.Role = found.Account, found.Role
	least := forge.Write
	if view.Webhook != "" {
		least = forge.Admin
	}
	switch {
	case found.Problem != "":
		return nil, fault.Failed("forge_unusable", "%s cannot be connected: %s; nothing was written", c.path, found.Problem).WithHint("give the token access to the repository, with the permissions that docs/connect.md names")
	case !view.Role.AtLeast(least):
		return nil, fault.Failed("forge_unusable", "the account %s has the role %s, and adding a webhook needs %s; nothing was written", view.Account, view.Role, least).WithHint("give it the role, or leave --webhook out and add the webhook yourself")
	case c.host.Kind == settings.ForgeKind(forge.Gitea) && !view.Role.AtLeast(forge.Admin):
		view.Notices = append(view.Notices, "commands in comments are not taken: Gitea tells the roles of people only to an account with the role admin")
	}
	full, ok := client.(hookClient)
	if !ok {
		return nil, fmt.Errorf("the client of the code host %s adds no webhooks", c.name)
	}
	return full, nil
}

// keepSecret returns the secret in a file, which it makes if there is none.
func keepSecret(path string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		text, err := os.ReadFile(path)
		return strings.TrimSpace(string(text)), err
	}
	if err != nil {
		return "", err
	}
	secret := hex.EncodeToString(raw)
	_, err = f.WriteString(secret + "\n")
	return secret, errors.Join(err, f.Sync(), f.Close())
}

// appendText adds text to the end of a file, which it makes if there is none.
func appendText(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// hookClient is a client with which a repository is connected.
type hookClient interface {
	forge.Client
	forge.HookKeeper
}

// hookEvents returns the events that a webhook delivers, by the names with which the code host lists them.
func hookEvents(kind forge.Kind) []string {
	if kind == forge.Gitea {
		return []string{"issue_comment", "pull_request", "pull_request_comment", "pull_request_review", "pull_request_sync", "push", "status"}
	}
	return []string{"issue_comment", "pull_request", "pull_request_review", "push", "check_run", "status"}
}

// addHook adds a webhook. If there is one to that address, for example of an earlier version, it gets the events that it lacks.
func addHook(ctx context.Context, client forge.HookKeeper, kind forge.Kind, p forge.Path, address, secret string) (added bool, missing []string, err error) {
	all, err := client.Hooks(ctx, p)
	if err != nil {
		return false, nil, err
	}
	events := hookEvents(kind)
	i := slices.IndexFunc(all, func(h forge.Hook) bool { return h.URL == address })
	if i < 0 {
		_, err = client.CreateHook(ctx, p, address, secret, events)
		return err == nil, nil, err
	}
	for _, e := range events {
		if !slices.Contains(all[i].Events, e) && !slices.Contains(all[i].Events, "*") {
			missing = append(missing, e)
		}
	}
	if len(missing) > 0 {
		err = client.SetHookEvents(ctx, p, all[i].ID, slices.Concat(all[i].Events, missing))
	}
	return false, missing, err
}

// printConnected tells people what was found and done.
func printConnected(c *cli.Console, v connectView) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	lines := []string{fmt.Sprintf("account   %s, with the role %s in %s", v.Account, v.Role, v.Repository)}
	if v.Written {
		lines = append(lines, fmt.Sprintf("settings  added [forges.%s] to %s", v.Forge, v.Settings))
	} else {
		lines = append(lines, fmt.Sprintf("settings  %s names it already", v.Settings))
	}
	switch {
	case v.Created:
		lines = append(lines, fmt.Sprintf("webhook   added %s, with the secret in %s", v.Webhook, v.SecretFile))
	case len(v.Events) > 0:
		lines = append(lines, fmt.Sprintf("webhook   added the events %s to %s", strings.Join(v.Events, ", "), v.Webhook))
	case v.Webhook != "":
		lines = append(lines, fmt.Sprintf("webhook   %s is there already", v.Webhook))
	}
	for _, notice := range v.Notices {
		lines = append(lines, "notice    "+notice)
	}
	next := "lattice run fix-and-propose --repo URL, or lattice serve, started again, for commands in comments"
	if v.Webhook != "" {
		next = "lattice serve --http ADDRESS, started again, and a comment with the line /lattice help"
	}
	_, err := fmt.Fprintln(c.Out, strings.Join(append(lines, "next      "+next), "\n"))
	return err
}
