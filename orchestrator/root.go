package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

const exitCodes = `
Exit codes: 0 ok, 1 failed, 2 bad input, 3 not found, 4 permission denied, 5 network, 6 busy, 7 unsafe, 8 unsupported,
9 limit, 70 internal, 75 waiting for a person, 124 timeout, 130 stopped (the run stays resumable).`

// newRootCmd is the list of commands.
func newRootCmd(d *deps) *cobra.Command {
	root := &cobra.Command{
		Use:   "lattice",
		Short: "Run flows of skills in sandboxes, with people deciding what leaves them",
		Long: `lattice composes skills into flows, runs them in sprites (sandboxes), pauses where a person must decide,
and does outside what sprites may not do themselves.

Everything works on one machine without an account; with SPRITES_API_URL and SPRITES_TOKEN set, sprites are remote.
State lies in $LATTICE_HOME (default: lattice in the XDG state directory).

Settings lie in $LATTICE_CONFIG (default: lattice/config.toml in the XDG configuration directory); flags win over the
environment, the environment over settings, settings over defaults:

  spritekit tools skills       as --spritekit, --tool, --skill; paths begin with / or ~/
  steps templates              as --steps; a folder of prompt templates for flows that ask models
  network host_ports image     as --network, --host-port, --image
  log_level                    of lattice serve; LATTICE_LOG wins
  min_isolation                "ns-user" or "ns-root" refuses to run anything in sprites that are kept apart by less
  [limits] memory cpus pids    what each sprite may use, as the flags of lattice sprite serve
  [models.CLASS]  [llm]        the models that flows ask (lattice run --help)
  [channels.NAME]  [notify]    where people are told about runs (lattice notify --help)
  [run] allow agent_env keep   as the flags of lattice run
  [sprites] url                of a remote Sprites API; SPRITES_API_URL wins
            token_env token_file   where its token is; SPRITES_TOKEN wins. A token itself is refused
  [actions] NAME               "ask", "allow" or "deny" what sprites ask for: PUSH_BRANCH, OPEN_PR, POST_COMMENT,
                               LABEL_ISSUE, NOTIFY_USER, FETCH_CREDENTIAL (denied unless set; allow asks a person)
  [git] name email             who commits when git does not say
  [serve] idle                 when a leader in the background ends that has nothing to do, such as "5m"
` + exitCodes,
		Example: `  lattice run fix-and-propose --repo . --input-file task.json
  lattice waiting
  lattice approve`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       d.version,
	}
	group(root)
	root.PersistentFlags().BoolVar(&d.json, "json", false, "print JSON for machines")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		err := d.loadSettings()
		if completing(c) || !usesSettings(c) { // a shell that completes has nowhere to show what is wrong with them
			return nil
		}
		return err
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	addGroup(root, "run", "Run flows:", newRunCmd(d), newRunsCmd(d), newShowCmd(d), newLogsCmd(d), newEventsCmd(d), newArtifactsCmd(d), newResumeCmd(d), newCancelCmd(d))
	addGroup(root, "decide", "Decide:", newWaitingCmd(d), newActionCmd(d), newPolicyCmd(d), newApproveCmd(d), newRejectCmd(d), newAnswerCmd(d))
	addGroup(root, "travel", "Travel in time:", newReplayCmd(d), newRewindCmd(d), newForkCmd(d), newDiffCmd(d))
	addGroup(root, "make", "Make flows and skills:", newFlowCmd(d), newSkillCmd(d))
	addGroup(root, "sprites", "Work with sprites:", newSpriteCmd(d), newImageCmd(d))
	addGroup(root, "keep", "Look after lattice:", newServeCmd(d), newStoreCmd(d), newDoctorCmd(d), newNotifyCmd(d), newProtocolCmd(), newCompletionCmd(d), newVersionCmd(d))
	root.SetHelpCommandGroupID("keep")
	for name, others := range map[string][]string{ // what people who know other programs type
		"approve": {"accept", "ok", "yes"}, "reject": {"deny", "refuse", "no"}, "runs": {"ls", "list", "ps", "history"}, "show": {"status", "describe", "get"},
		"logs": {"log", "tail"}, "cancel": {"abort", "kill", "stop"}, "resume": {"continue", "start"}, "sprite": {"sandbox"}, "doctor": {"check"},
	} {
		if c, _, err := root.Find([]string{name}); err == nil {
			c.SuggestFor = others
		}
	}
	return root
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
	case "lattice", "help", "version", "completion", "protocol", "doctor":
		return false
	}
	return true
}

// group makes a command that only holds others show its help, and refuse a name that it does not know.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = args(func(c *cobra.Command, list []string) error {
		if len(list) == 0 {
			return nil
		}
		hint := ""
		if near := c.SuggestionsFor(list[0]); len(near) > 0 {
			hint = " (did you mean " + strings.Join(near, " or ") + "?)"
		}
		return fmt.Errorf("unknown command %q%s", list[0], hint)
	})
	cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return cmd
}

// printJSON prints one compact JSON value a line.
func (d *deps) printJSON(v any) error {
	return encoder(d.out).Encode(v)
}

// encoder writes JSON for people and machines: values stay the same, and a terminal does nothing of what is in them.
func encoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(escaper{w})
	enc.SetEscapeHTML(false)
	return enc
}

// escaper writes what a terminal would act on as JSON's own escapes. JSON escapes the control characters of ASCII by
// itself; there remain U+007F to U+009F and those that turn the direction of text.
type escaper struct{ w io.Writer }

func (e escaper) Write(p []byte) (int, error) {
	if _, err := io.WriteString(e.w, harmless(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// args wraps a cobra argument check so that its failure exits with 2.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		if err := check(c, list); err != nil {
			return usageError{fmt.Errorf("%w: %s", err, c.UseLine())}
		}
		return nil
	}
}

func optional(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func newVersionCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  lattice version --json", Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if d.json {
				return d.printJSON(map[string]any{"version": d.version, "protocol_version": "v1", "execir_version": "1.0"})
			}
			_, err := fmt.Fprintf(d.out, "lattice %s (protocol v1, ExecIR 1.0)\n", d.version)
			return err
		},
	}
}
