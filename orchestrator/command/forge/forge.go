// Package forge holds the commands about code hosts, one file each. Begin with New. The commands ask the code host, or
// the leader, and print; only connect writes, a webhook and the settings.
package forge

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// New returns lattice forge.
func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "forge",
		Short: "Connect, see and check the code hosts, GitHub or Gitea, where lattice acts",
		Long: `The settings name code hosts, [forges.NAME], with the account that lattice uses and the repositories that it may write to:

  [forges.main]
  kind = "github"                 # or "gitea", with its url
  token_env = "GITHUB_TOKEN"
  repositories = ["acme/site"]

When a skill asks for a pull request, a comment or labels in one of these repositories, lattice performs that itself after you
approve it, or when the policy allows it, and records it in the audit log. It happens once, also if lattice is killed or the
answer is lost. Pull requests are drafts. git reads and pushes these repositories with the same account. In any other
repository the requests are kept for you to perform.

lattice serve --http takes webhooks of issue comments at /hooks/NAME, with the content type application/json and the secret that
the settings name (webhook_secret_env or webhook_secret_file). Each is kept before it is answered, and handled once. A lattice
serve that webhooks do not reach asks for comments instead, as often as poll says. People then give commands in comments on issues and pull requests, each at the start of a line:

  /lattice plan              let an agent answer the issue with questions or a plan
  /lattice plan DOCUMENT     divide a document of the repository into epics and tasks, each an issue
  /lattice research QUESTION answer a question with notes from pages of the web, each with its source
  /lattice approve DIGEST    approve the request or the plan with this digest
  /lattice reject [DIGEST] [REASON]
                             reject the open request or plan; of several the one with this digest
  /lattice answer TEXT       answer the open question
  /lattice status            show the state of the run
  /lattice cancel            cancel the run
  /lattice hold              stop the run
  /lattice rerun             continue a run that was held; when the run has ended, do its work again
  /lattice help              list the commands

A run of the flow pull-request opens a draft pull request and waits for reviews of it. A review that asks for changes continues the
agent, and lattice answers the comments after it has pushed; an approval ends the run. An approval counts for the commit that
lattice pushed last and for no other. A push by another account, or closing the pull request, cancels the run.

The role of the person is read from the code host when the command is carried out; commands that change anything need write. A
command in code or in a quotation, or in a comment that was edited, is not carried out.

The kinds of code hosts differ in what they can do:

` + listCapabilities(),
		Example: "  lattice forge connect acme/site --token-file ~/.config/lattice/forge-token\n  lattice forge ls\n  lattice forge check main\n  lattice forge deliveries",
	})
	cmd.AddCommand(newConnectCmd(env), newLsCmd(env), newCheckCmd(env), newDeliveriesCmd(env))
	return cmd
}

// listCapabilities returns the table of the differences between the code hosts as text.
func listCapabilities() string {
	var b strings.Builder
	kinds := forge.Kinds()
	for i, s := range forge.Capabilities(kinds[0]) {
		fmt.Fprintf(&b, "  %s\n", s.Capability)
		for _, kind := range kinds {
			s := forge.Capabilities(kind)[i]
			has := "no"
			if s.Has {
				has = "yes"
			}
			b.WriteString(strings.TrimRight(fmt.Sprintf("    %-7s %-4s %s", kind, has, s.Instead), " ") + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
