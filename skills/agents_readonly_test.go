package skills

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/readonly"
)

// An agent cannot change read-only folders, and works as usual elsewhere. Its private home and the runtime's files stay writable.
func TestReadOnlyAgent(t *testing.T) {
	if errors.Is(readonly.Start(nil, func() error { return nil }), readonly.ErrUnavailable) {
		t.Skip("this kernel has no Landlock")
	}
	s := newSprite(t)
	s.write("repo/kept", "kept\n")
	s.write("lib/kept", "kept\n")
	s.write("agent.sh", `for try in 'echo x >>repo/kept' 'echo x >>lib/kept' 'echo x >new' 'rm -r lib' 'ln -s lib link' 'echo x >.lattice/mine' 'echo x >repo/new'; do
	if sh -c "$try" 2>/dev/null; then echo "$try: done"; else echo "$try: refused"; fi
done`)
	for readOnly, done := range map[string][]string{
		`["lib"]`:         {"echo x >>repo/kept", "echo x >.lattice/mine", "echo x >repo/new"},
		`["lib","repo"]`:  {"echo x >.lattice/mine"},
		`["."]`:           {"echo x >.lattice/mine"},
		`["/"]`:           {"echo x >.lattice/mine"},
		`["repo/kept"]`:   {"echo x >>lib/kept", "echo x >.lattice/mine"},
		`["repo","/usr"]`: {"echo x >>lib/kept", "echo x >.lattice/mine"},
	} {
		t.Run(readOnly, func(t *testing.T) {
			s := s.on(t)
			if readOnly == `["/"]` && strings.HasPrefix(s.dir, "/tmp/") {
				t.Skip("the workspace of the test is itself a temporary folder")
			}
			s.write("lib/kept", "kept\n")
			s.write("repo/kept", "kept\n")
			os.Remove(s.dir + "/repo/new")
			text, _ := s.call("agent.run", `{"command":["sh","agent.sh"],"cwd":".","read_only":`+readOnly+`}`).data(t)["final_text"].(string)
			var got []string
			for line := range strings.Lines(text) {
				if try, ok := strings.CutSuffix(line, ": done\n"); ok {
					got = append(got, try)
				}
			}
			if strings.Join(got, "; ") != strings.Join(done, "; ") {
				t.Errorf("with %s read-only the agent could %q, want %q", readOnly, got, done)
			}
		})
	}
	for _, wrong := range []string{`["missing"]`, `["../out"]`} {
		if o := s.call("agent.run", `{"command":"true","read_only":`+wrong+`}`); o.exit != 2 || !strings.Contains(o.result.Error.Message, "/read_only/0") {
			t.Errorf("%s: exit %d, %s", wrong, o.exit, o.stdout)
		}
	}
}
