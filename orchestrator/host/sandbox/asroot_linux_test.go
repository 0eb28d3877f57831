package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

// rooted starts a box with a root. Skips where it cannot have one.
func rooted(t *testing.T) (*sandbox.Box, sandbox.Config) {
	t.Helper()
	s := newScene(t, "")
	s.cfg.AsRoot = true
	box := launch(t, s.cfg)
	if box.Level() != sandbox.LevelRoot {
		t.Skip("only root can give a sprite a root of its own")
	}
	if _, code := run(t, box, "test -S /run/sudo.sock"); code != 0 {
		t.Skip("needs CGO_ENABLED=0: the test is linked with C libraries, which change capabilities of one thread only")
	}
	return box, s.cfg
}

func TestSudo(t *testing.T) {
	box, cfg := rooted(t)
	for script, want := range map[string]string{
		"sudo id -u; sudo -u nobody id -u; sudo -u '#7' id -u; id -u":                                         "0\n65534\n7\n1000",
		"sudo grep CapEff /proc/self/status | tr -d '\\t'":                                                    "CapEff:00000000000004fb",
		"sudo grep CapBnd /proc/self/status | tr -d '\\t'":                                                    "CapBnd:00000000000004fb",
		"sudo grep NoNewPrivs /proc/self/status | tr -d '\\t'":                                                "NoNewPrivs:1",
		"grep -h 'Cap[EPIA]' /proc/self/status | tr -d '\\t'":                                                 "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapAmb:0000000000000000",
		"cd /workspace; touch f; sudo chown 5:6 f; stat -c %u:%g f; sudo chmod 600 f; cat f 2>&1; echo $?":    "5:6\ncat: f: Permission denied\n1",
		"sudo sh -c 'exit 7'; echo $?":                                                                        "7",
		"sudo sh -c 'kill -TERM $$'; echo $?":                                                                 "143",
		"echo in | sudo cat":                                                                                  "in",
		"sudo no-such-program; echo $?":                                                                       "sudo: start no-such-program: command not found in PATH\n127",
		"cd /tmp; A=1 sudo B=2 sh -c 'echo $A $B $HOME $SUDO_USER; pwd'":                                      "1 2 /root sprite\n/tmp",
		"sudo mkdir -p /etc/mine /root/x && sudo touch /etc/mine/f && ls /etc/mine && stat -c %u /etc/mine/f": "f\n0",
		"sudo sh -c 'echo x >/skills/x' 2>&1 | tail -c 22":                                                    "Read-only file system",
		"(sleep 1000 & sudo kill -9 $!; wait $!; echo $?) 2>/dev/null":                                        "137",
	} {
		if got, _ := run(t, box, "{ "+script+"; } 2>&1"); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	st, err := os.Lstat(filepath.Join(cfg.Root.Dir, "workspace", "f"))
	must(t, err)
	owner, _ := sandbox.Owner()
	if uid := int(st.Sys().(*syscall.Stat_t).Uid); uid != owner-1000+5 {
		t.Errorf("on the disk a file of user 5 belongs to %d", uid)
	}
}

// A command of root ends with the sudo that asked for it, and passes for a process of the box in all else.
func TestSudoEnds(t *testing.T) {
	box, _ := rooted(t)
	proc, err := box.Exec(sandbox.Process{Env: box.BaseEnv(), Argv: []string{"sh", "-c", "sudo sleep 1000 & sleep 0.3; kill -9 $!; exec sleep 1000"}})
	must(t, err)
	until(t, func() bool {
		out, _ := run(t, box, "cat /proc/[0-9]*/status | grep -c '^Name:.sleep'")
		return strings.TrimSpace(out) == "1"
	})
	if box.Idle() {
		t.Error("a box in which commands run is idle")
	}
	must(t, proc.Signal("KILL"))
	began := time.Now()
	if out, _ := run(t, box, "sudo timeout -s INT 0.2 sleep 1000; echo $?"); out != "124" || time.Since(began) > 10*time.Second {
		t.Errorf("timeout below sudo: %q after %v", out, time.Since(began))
	}
}

// Root of a box can do no more to the host, the kernel and init than its user.
func TestAttacksAsRoot(t *testing.T) {
	rooted(t)
	for _, a := range attacks() {
		if a.name == "list init's descriptors" { // root may: it learns their numbers, and nothing else
			continue
		}
		if a.plain || a.tty || a.limits != (sandbox.Limits{}) || a.name == "run a setuid program of an image's" {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			s := newScene(t, sandbox.LevelRoot)
			s.cfg.AsRoot, s.cfg.Network, s.args = true, a.network, append([]string{}, a.args...)
			if a.prepare != nil {
				a.prepare(t, s)
			}
			s.box = launch(t, s.cfg)
			defer s.stop(t)
			if a.actor != "" {
				a.script = "exec sudo /skills/attacker " + attackArg + " " + a.actor + ` "$@"`
				a.actor = ""
			} else {
				a.script = "exec sudo sh -c '" + strings.ReplaceAll(a.script, "'", `'\''`) + `' sh "$@"`
			}
			s.play(t, a)
			if a.won(t, s) {
				t.Errorf("succeeds as root of the box: %s", s.out)
			}
		})
	}
}
