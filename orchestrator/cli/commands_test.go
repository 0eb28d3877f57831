package cli

import (
	"errors"
	"testing"

	"github.com/spf13/cobra"
)

// Args names the arguments that are missing or too many; errors of other checks stay as they are.
func TestArgs(t *testing.T) {
	t.Parallel()
	broken := func(*cobra.Command, []string) error { return errors.New("no such color") }
	for _, tt := range []struct {
		use   string
		check cobra.PositionalArgs
		list  []string
		want  string
	}{
		{"run FLOW", cobra.ExactArgs(1), nil, "missing: FLOW: run FLOW"},
		{"run WORKER TASK", cobra.ExactArgs(2), []string{"w"}, "missing: TASK: run WORKER TASK"},
		{"rm NAME CHECKPOINT…", cobra.MinimumNArgs(2), []string{"box"}, "missing: CHECKPOINT: rm NAME CHECKPOINT…"},
		{"create NAME SERVICE -- CMD…", cobra.MinimumNArgs(3), nil, "missing: NAME SERVICE: create NAME SERVICE -- CMD…"},
		{"new LINE", cobra.ExactArgs(1), []string{"fs.read", "then", "git add"}, `too many arguments: "then" "git add"; quote one that has spaces: new LINE`},
		{"show [RUN]", cobra.MaximumNArgs(1), []string{"a", "b"}, `too many arguments: "a" "b": show [RUN]`},
		{"answer [RUN] k=v…", cobra.MinimumNArgs(1), nil, "an argument is missing: answer [RUN] k=v…"},
		{"choose [RUN] TRY", cobra.RangeArgs(1, 2), nil, "an argument is missing: choose [RUN] TRY"},
		{"doctor", cobra.NoArgs, []string{"x"}, `the command takes no argument such as "x": doctor`},
		{"start --spec FILE", cobra.NoArgs, []string{"x"}, `the command takes no argument such as "x": start --spec FILE`},
		{"paint COLOR", broken, []string{"x"}, "no such color: paint COLOR"},
		{"show [RUN]", cobra.MaximumNArgs(1), []string{"a"}, ""},
	} {
		c := &cobra.Command{Use: tt.use, Run: func(*cobra.Command, []string) {}}
		err := Args(tt.check)(c, tt.list)
		got := ""
		if err != nil {
			got = err.Error()
		}
		want := tt.want
		if want != "" {
			want += "; see --help"
		}
		if got != want {
			t.Errorf("%s with %q: %q, want %q", tt.use, tt.list, got, want)
		}
	}
}
