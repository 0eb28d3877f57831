package main

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

	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/notify"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newNotifyCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "notify",
		Short: "See and try the channels on which people are told about runs",
		Long: `Channels are named by the settings: a signed webhook, an incoming webhook of Slack, or a topic of ntfy. A skill can send a
message to one by its name (notify.user), and [notify] tells of runs that wait for you, fail or succeed. A message that a
channel does not take is tried again for a day.`,
		Example: "  lattice notify ls\n  lattice notify test ops",
	})
	cmd.AddCommand(newNotifyLsCmd(d), newNotifyTestCmd(d))
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

func newNotifyLsCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the channels, and the messages that wait to be delivered",
		Example: "  lattice notify ls\n  lattice notify ls --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			waiting, err := notify.NewSpool(leader.Home(d.home).Notifications()).List()
			if err != nil {
				return err
			}
			views := []channelView{}
			for _, name := range slices.Sorted(maps.Keys(d.settings.Channels)) {
				c := d.settings.Channels[name]
				v := channelView{Name: name, Kind: string(c.Kind), MinLevel: cmp.Or(string(c.MinLevel), protocol.LevelInfo), Default: name == d.settings.Notify.Channel}
				if _, err := d.channel(name); err != nil {
					v.Problem = err.Error()
				}
				for _, w := range waiting {
					if w.Channel == name {
						v.Waiting = append(v.Waiting, w)
					}
				}
				views = append(views, v)
			}
			if d.json {
				return d.printJSON(views)
			}
			if len(views) == 0 {
				_, err := fmt.Fprintln(d.out, "the settings name no channels (lattice help notify)")
				return err
			}
			w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "CHANNEL\tKIND\tLEVEL\tWAITING\tPROBLEM")
			for _, v := range views {
				problem := v.Problem
				if len(v.Waiting) > 0 {
					problem = cmp.Or(problem, v.Waiting[0].Problem)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", v.Name, v.Kind, v.MinLevel, len(v.Waiting), clean(problem))
			}
			return w.Flush()
		},
	}
}

func newNotifyTestCmd(d *deps) *cobra.Command {
	var level string
	cmd := &cobra.Command{
		Use:     "test NAME",
		Short:   "Send a test message to a channel, and say whether it took it",
		Example: "  lattice notify test ops\n  lattice notify test phone --level error",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return slices.Sorted(maps.Keys(d.settings.Channels)), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			name := list[0]
			if !slices.Contains(notify.Levels(), level) {
				return usageError{fmt.Errorf("--level %q is not one of %s", level, strings.Join(notify.Levels(), ", "))}
			}
			c, err := d.channel(name)
			if err != nil {
				return err
			}
			if !c.Takes(level) {
				return usageError{fmt.Errorf("the channel %s takes messages from level %s on: add --level %s", name, c.MinLevel, c.MinLevel)}
			}
			host := "this machine"
			if u, err := user.Current(); err == nil {
				host = u.Username
			}
			n := notify.Note{ID: fmt.Sprintf("test-%d", time.Now().UnixNano()), Channel: name, Level: level, Title: "Test message of lattice", Body: "Sent by " + host + " with lattice notify test.", At: time.Now().UTC()}
			if err := c.Deliver(cmd.Context(), notify.NewClient(), n); err != nil {
				var no *notify.Refusal
				if errors.As(err, &no) {
					return fault.Failed("notify_refused", "the channel %s did not take the message: %v", name, no)
				}
				return fault.Network("notify_unreachable", "the channel %s was not reached: %v", name, err).WithHint("check its url in the settings, and the network")
			}
			if d.json {
				return d.printJSON(map[string]any{"channel": name, "delivered": true, "id": n.ID})
			}
			_, err = fmt.Fprintf(d.out, "%s took the message\n", name)
			return err
		},
	}
	cmd.Flags().StringVar(&level, "level", protocol.LevelInfo, "level of the message: info, warning or error")
	return cmd
}

// channel returns the channel of a name in the settings, with its address and secret.
func (d *deps) channel(name string) (notify.Channel, error) {
	s, ok := d.settings.Channels[name]
	if !ok {
		return notify.Channel{}, fault.NotFound("channel_not_found", "the settings have no channel %q", name).WithHint("add [channels.%s] to the settings; lattice notify ls lists those there are", name)
	}
	c := notify.Channel{Name: name, Kind: notify.Kind(s.Kind), MinLevel: string(s.MinLevel)}
	var err error
	if c.URL, err = d.reference(s.URL, s.URLEnv, s.URLFile); err == nil {
		c.Secret, err = d.reference("", s.SecretEnv, s.SecretFile)
	}
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return c, fault.BadInput("channel_unusable", "the channel %s cannot be used: %v", name, err).WithHint("correct [channels.%s] in the settings", name)
	}
	return c, nil
}

// reference returns a value, or the content of the variable or of the file that is named instead of it.
func (d *deps) reference(value, variable, file string) (string, error) {
	switch {
	case variable != "":
		if value = d.getenv(variable); value == "" {
			return "", fmt.Errorf("the variable %s is not set", variable)
		}
	case file != "":
		text, err := readToken(d.expand(file))
		var p *fault.Error
		if errors.As(err, &p) {
			return "", errors.New(p.Message)
		}
		return text, err
	}
	return value, nil
}

// notifications returns the settings of the leader's notifications.
func (d *deps) notifications() leader.Notify {
	return leader.Notify{Channels: d.channel, Default: d.settings.Notify.Channel, On: texts(d.settings.Notify.On)}
}

// texts returns values as text.
func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
