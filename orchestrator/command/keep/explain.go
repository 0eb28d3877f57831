package keep

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/docs"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

// errorCode is a row of the list of error codes.
type errorCode struct {
	Code    string `json:"code"`
	Exits   []int  `json:"exit"`
	Meaning string `json:"meaning"`
}

func newExplainCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use: "explain CODE…", Short: "Say what an error code means",
		Long:    "Say what error codes mean, and the exit codes that come with them. With --json, a command that fails prints its code.",
		Example: "  lattice explain agent_not_visible\n  lattice explain disk_full --json",
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return slices.Sorted(maps.Keys(readCodes(docs.Errors))), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			codes, found := readCodes(docs.Errors), []errorCode{}
			for _, name := range args {
				c, ok := codes[name]
				if !ok {
					return unknownCode(codes, name)
				}
				found = append(found, c)
			}
			if env.JSON {
				return env.PrintJSON(found)
			}
			for _, c := range found {
				fmt.Fprintf(env.Out, "%s: %s\n  %s\n", c.Code, describeExits(c.Exits), c.Meaning)
			}
			return nil
		},
	}
}

// readCodes reads the rows of the list of error codes.
func readCodes(page string) map[string]errorCode {
	codes := map[string]errorCode{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([0-9, ]+) \\| (.+) \\|$").FindAllStringSubmatch(page, -1) {
		c := errorCode{Code: row[1], Meaning: row[3]}
		for exit := range strings.SplitSeq(row[2], ", ") {
			n, _ := strconv.Atoi(exit)
			c.Exits = append(c.Exits, n)
		}
		codes[c.Code] = c
	}
	return codes
}

func describeExits(exits []int) string {
	texts := make([]string, len(exits))
	for i, n := range exits {
		texts[i] = strconv.Itoa(n)
	}
	return "exit code " + strings.Join(texts, " or ")
}

// unknownCode is the error for a code that is not in the list. A part of a code names the codes that contain it.
func unknownCode(codes map[string]errorCode, name string) error {
	var near []string
	for code := range codes {
		if strings.Contains(code, name) {
			near = append(near, code)
		}
	}
	slices.Sort(near)
	hint := "docs/errors.md lists the codes of errors; lattice flow validate explains its findings itself"
	if len(near) > 0 {
		hint = "did you mean " + strings.Join(near[:min(len(near), 5)], ", ") + "?"
	}
	return fault.NotFound("code_not_found", "no error has the code %q", name).WithHint("%s", hint)
}
