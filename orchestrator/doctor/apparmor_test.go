package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAppArmorProfile(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join("..", "..", "images", "apparmor", "lattice"))
	if err != nil {
		t.Fatal(err)
	}
	if got := AppArmorProfile(AnyLattice); got != string(shipped) {
		t.Errorf("images/apparmor/lattice is not what is printed:\n%s", got)
	}
	for program, want := range map[string]string{
		"/usr/local/bin/lattice": `profile lattice "/usr/local/bin/lattice" flags=(unconfined) {`,
		`/home/a b/{x}*/lattice`: `profile lattice "/home/a b/\{x\}\*/lattice" flags=(unconfined) {`,
	} {
		got := AppArmorProfile(program)
		if !strings.Contains(got, "\n"+want+"\n  userns,\n") {
			t.Errorf("AppArmorProfile(%s) lacks %s:\n%s", program, want, got)
		}
		parse(t, got)
	}
}

// parse has AppArmor's own parser read a profile, where there is one.
func parse(t *testing.T, profile string) {
	parser, err := exec.LookPath("apparmor_parser")
	if err != nil {
		t.Log("no apparmor_parser here: the profile is not parsed")
		return
	}
	cmd := exec.Command(parser, "--skip-kernel-load", "--skip-cache", "/dev/stdin")
	cmd.Stdin = strings.NewReader(profile)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
