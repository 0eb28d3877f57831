package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Group makes a command that only holds others show its help, and refuse a name that it does not know.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = Args(func(c *cobra.Command, list []string) error {
		if len(list) == 0 {
			return nil
		}
		hint := ""
		if near := slices.Compact(c.SuggestionsFor(list[0])); len(near) > 0 {
			hint = " (did you mean " + strings.Join(near, " or ") + "?)"
		}
		return fmt.Errorf("unknown command %q%s", list[0], hint)
	})
	cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return cmd
}

// Args wraps a cobra argument check so that its failure exits with 2.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		if err := check(c, list); err != nil {
			return UsageErrorf("%w: %s", explainCount(c, list, err), c.UseLine())
		}
		return nil
	}
}

// explainCount names the arguments that are missing or too many, if a check of cobra complains about their number. It takes the names
// from the usage line.
func explainCount(c *cobra.Command, list []string, err error) error {
	none := len(list) > 0 && err.Error() == fmt.Sprintf("unknown command %q for %q", list[0], c.CommandPath())
	if !none && !strings.Contains(err.Error(), "arg(s)") {
		return err
	}
	var required []string
	optional := false
	for _, word := range strings.Fields(c.Use)[1:] {
		if optional = strings.HasPrefix(word, "["); optional || strings.HasPrefix(word, "-") {
			break
		}
		required = append(required, strings.TrimSuffix(word, "…"))
	}
	switch {
	case none:
		return fmt.Errorf("the command takes no argument such as %q", list[0])
	case len(list) < len(required):
		return fmt.Errorf("missing: %s", strings.Join(required[len(list):], " "))
	case len(list) == 0 || strings.HasPrefix(err.Error(), "requires at least"):
		return errors.New("an argument is missing")
	case optional || len(required) == 0:
		return fmt.Errorf("too many arguments: %s", quoteAll(list))
	default:
		return fmt.Errorf("too many arguments: %s; quote one that has spaces", quoteAll(list[len(required):]))
	}
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, one := range list {
		quoted[i] = strconv.Quote(one)
	}
	return strings.Join(quoted, " ")
}

func Optional(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
