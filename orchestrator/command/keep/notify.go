package keep

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/notify"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newNotifyCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "notify",
		Short: "See and try the channels on which people are told about runs",
		Long: `Channels are named by the settings: a signed webhook, an incoming webhook of Slack, or a topic of ntfy. A skill can send a
message to one by its name (notify.user), and [notify] tells of runs that wait for you, fail or succeed. A message that a
channel does not take is tried again for a day.`,
		Example: "  lattice notify ls\n  lattice notify test ops",
	})
	cmd.AddCommand(newNotifyLsCmd(env), newNotifyTestCmd(env))
	return cmd
}

// channelView is a channel as notify ls shows it.
type channelView struct {
	Name     string           `json:"name"`
	Kind     string           `json:"kind"`
	MinLevel string           `json:"min_level"`
	Default  bool             `json:"default"`
	Problem  string           `json:"problem,omitempty"` // why it cannot be used
	Waiting  []notify.Waiting `json:"waiting,omitempty"` // notes that it has not taken yet
}

func newNotifyLsCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the channels, and the messages that wait to be delivered",
		Example: "  lattice notify ls\n  lattice notify ls --json",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			waiting, err := notify.NewSpool(home.Home(env.Home).Notifications()).List()
			if err != nil {
				return err
			}
			views := []channelView{}
			for _, name := range slices.Sorted(maps.Keys(env.Settings.Channels)) {
				c := env.Settings.Channels[name]
				v := channelView{Name: name, Kind: string(c.Kind), MinLevel: cmp.Or(string(c.MinLevel), protocol.LevelInfo), Default: name == env.Settings.Notify.Channel}
				if _, err := env.Channel(name); err != nil {
					v.Problem = err.Error()
				}
				for _, w := range waiting {
					if w.Channel == name {
						v.Waiting = append(v.Waiting, w)
					}
				}
				views = append(views, v)
			}
			if env.JSON {
				return env.PrintJSON(views)
			}
			if len(views) == 0 {
				_, err := fmt.Fprintln(env.Out, "the settings name no channels (lattice help notify)")
				return err
			}
			w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "CHANNEL\tKIND\tLEVEL\tWAITING\tPROBLEM")
			for _, v := range views {
				problem := v.Problem
				if len(v.Waiting) > 0 {
					problem = cmp.Or(problem, v.Waiting[0].Problem)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", v.Name, v.Kind, v.MinLevel, len(v.Waiting), cli.Clean(problem))
			}
			return w.Flush()
		},
	}
}

func newNotifyTestCmd(env *setup.Env) *cobra.Command {
	var level string
	cmd := &cobra.Command{
		Use:     "test NAME",
		Short:   "Send a test message to a channel, and say whether it took it",
		Example: "  lattice notify test ops\n  lattice notify test phone --level error",
		Args:    cli.Args(cobra.ExactArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return slices.Sorted(maps.Keys(env.Settings.Channels)), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			name := list[0]
			if !slices.Contains(notify.Levels(), level) {
				return cli.UsageErrorf("--level %q is not one of %s", level, strings.Join(notify.Levels(), ", "))
			}
			c, err := env.Channel(name)
			if err != nil {
				return err
			}
			if !c.Takes(level) {
				return cli.UsageErrorf("the channel %s takes messages from level %s on: add --level %s", name, c.MinLevel, c.MinLevel)
			}
			host := "this machine"
			if u, err := user.Current(); err == nil {
				host = u.Username
			}
			n := notify.Note{ID: fmt.Sprintf("test-%d", time.Now().UnixNano()), Channel: name, Level: level, Title: "Test message of lattice", Body: "Sent by " + host + " with lattice notify test.", At: time.Now().UTC()}
			if err := c.Deliver(cmd.Context(), notify.NewClient(), n); err != nil {
				if no, ok := errors.AsType[*notify.Refusal](err); ok {
					return fault.Failed("notify_refused", "the channel %s did not take the message: %v", name, no)
				}
				return fault.Network("notify_unreachable", "the channel %s was not reached: %v", name, err).WithHint("check its url in the settings, and the network")
			}
			return env.PrintResult(map[string]any{"channel": name, "delivered": true, "id": n.ID}, "%s took the message", name)
		},
	}
	cmd.Flags().StringVar(&level, "level", protocol.LevelInfo, "level of the message: info, warning or error")
	return cmd
}
