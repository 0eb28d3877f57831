package program

import (
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/command/decide"
	"github.com/spritekit/lattice/orchestrator/command/fleet"
	"github.com/spritekit/lattice/orchestrator/command/flow"
	"github.com/spritekit/lattice/orchestrator/command/forge"
	"github.com/spritekit/lattice/orchestrator/command/image"
	"github.com/spritekit/lattice/orchestrator/command/intent"
	"github.com/spritekit/lattice/orchestrator/command/keep"
	"github.com/spritekit/lattice/orchestrator/command/loop"
	"github.com/spritekit/lattice/orchestrator/command/run"
	"github.com/spritekit/lattice/orchestrator/command/service"
	"github.com/spritekit/lattice/orchestrator/command/skill"
	"github.com/spritekit/lattice/orchestrator/command/sprite"
	"github.com/spritekit/lattice/orchestrator/command/task"
	"github.com/spritekit/lattice/orchestrator/command/travel"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// newRootCmd is the list of commands.
func newRootCmd(env *setup.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "lattice",
		Short: "Run flows of skills in sandboxes, with people deciding what leaves them",
		Long: `lattice composes skills into flows, runs them in sprites (sandboxes), pauses where a person must decide,
and takes the actions outside of sprites that they ask for.

Everything works on one machine, without an account. With SPRITES_API_URL and SPRITES_TOKEN set, sprites are remote.
State is kept in $LATTICE_HOME (default: lattice in the XDG state directory).

Settings are read from $LATTICE_CONFIG (default: lattice/config.toml in the XDG configuration directory). Flags override the
environment, the environment overrides settings, and settings override defaults:

  spritekit tools skills       like --spritekit, --tool and --skill; paths begin with / or ~/
  steps templates              like --steps; a folder of prompt templates for flows that ask models
  network host_ports image     like --network, --host-port and --image
  boards                       folders whose task boards lattice serve shows (default: that of the folder in which it starts)
  log_level                    of lattice serve; LATTICE_LOG overrides it
  min_isolation                "ns-user" or "ns-root": refuse to run anything in sprites with weaker isolation
  one_user                     true: sprites of an ordinary user have one user each, even where sub-ids allow others
  [limits] memory cpus pids    what each sprite may use, like the flags of lattice sprite serve
  [models.CLASS]  [llm]        the models that flows ask (lattice run --help)
  [channels.NAME]  [notify]    where to notify people about runs (lattice notify --help)
  [forges.NAME]                code hosts where lattice acts and people decide (lattice forge --help)
  [schedules.NAME]             when to create intents (lattice schedule --help)
  [secrets.NAME]               credentials that sprites may ask for (lattice secret --help)
  [run] allow agent_env keep   like the flags of lattice run
  [sprites] url                of a remote Sprites API; SPRITES_API_URL overrides it
            token_env token_file   where its token is; SPRITES_TOKEN overrides it. The token itself does not
                               belong in the settings and is refused
  [actions] NAME               "ask", "allow" or "deny" when a sprite asks for PUSH_BRANCH, OPEN_PR, POST_COMMENT,
                               LABEL_ISSUE, OPEN_ISSUES, NOTIFY_USER, USE_TOOL, FETCH_CREDENTIAL (denied unless set; allow asks a person)
  [git] name email             the committer when git is not configured
  [store] url                  of a PostgreSQL database that keeps the runs, without a password; LATTICE_STORE overrides it
  [engine] temporal            a Temporal server that schedules the runs, for the lattice of make temporal (docs/config.md)
  [serve] idle                 after how long an idle leader in the background ends, such as "5m"
          http                 the address of the page and of /api/v1, like lattice serve --http
          fleet                how often lattice serve applies fleet.toml, such as "5m" (lattice fleet --help)
` + cli.ExitCodes,
		Example: `  lattice run fix-and-propose --repo . --input-file task.json
  lattice waiting
  lattice approve`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       env.Version,
	}
	cli.Group(root)
	root.PersistentFlags().BoolVar(&env.JSON, "json", false, "print JSON for machines")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		err := env.LoadSettings()
		if completing(c) || !usesSettings(c) { // a shell that completes cannot show errors of the settings
			return nil
		}
		return err
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageErrorf("%w", err) })
	addGroup(root, "run", "Run flows:", append(run.Commands(env), loop.New(env))...)
	addGroup(root, "decide", "Decide:", append(decide.Commands(env), intent.New(env), intent.NewSchedule(env), forge.New(env))...)
	addGroup(root, "travel", "Travel in time:", travel.Commands(env)...)
	addGroup(root, "make", "Make flows and skills:", flow.New(env), skill.New(env))
	addGroup(root, "board", "Keep tasks:", task.Commands(env)...)
	addGroup(root, "sprites", "Work with sprites:", sprite.New(env, service.New(env)), fleet.New(env), image.New(env))
	addGroup(root, "keep", "Look after lattice:", keep.Commands(env)...)
	root.SetHelpCommandGroupID("keep")
	for name, others := range map[string][]string{ // names of other programs
		"approve": {"accept", "ok", "yes"}, "reject": {"deny", "refuse", "no"}, "runs": {"ls", "list", "ps", "history"}, "show": {"status", "describe", "get"},
		"logs": {"log", "tail"}, "cancel": {"abort", "kill", "stop"}, "resume": {"continue", "start"}, "sprite": {"sandbox"}, "doctor": {"check"},
	} {
		if c, _, err := root.Find([]string{name}); err == nil {
			c.SuggestFor = others
		}
	}
	for _, group := range root.Commands() {
		suggestCommon(group)
	}
	return root
}

// suggestCommon has the commands below one suggested to people who type the names that other programs have for them.
func suggestCommon(parent *cobra.Command) {
	names := map[string][]string{"rm": {"delete", "remove", "destroy"}, "ls": {"list"}, "create": {"new", "add", "make"}, "show": {"get", "describe", "info", "inspect"}}
	for _, c := range parent.Commands() {
		c.SuggestFor = append(c.SuggestFor, names[c.Name()]...)
		suggestCommon(c)
	}
}

// addGroup adds commands that the help shows together.
func addGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	root.AddCommand(commands...)
}

// usesSettings reports whether a command cannot do its work while something is wrong with the settings.
func usesSettings(c *cobra.Command) bool {
	for c.HasParent() && c.Parent().HasParent() {
		c = c.Parent()
	}
	switch c.Name() {
	case "lattice", "help", "version", "completion", "explain", "protocol", "doctor", "task", "next":
		return false
	}
	return true
}
