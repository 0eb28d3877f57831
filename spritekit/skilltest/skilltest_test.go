package skilltest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/dropin"
	"github.com/spritekit/lattice/spritekit/skilltest"
)

// fault tells a process of this test which promise its skill breaks.
const fault = "SKILLTEST_FAULT"

// emitter builds spritekit into a folder that the skill finds on its PATH.
func emitter(t *testing.T) (dir string) {
	t.Helper()
	if dir = os.Getenv("SKILLTEST_BIN"); dir != "" {
		return dir
	}
	dir = t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", dir+"/spritekit", "github.com/spritekit/lattice/spritekit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build spritekit: %v\n%s", err, out)
	}
	return dir
}

// shout is a drop-in skill in plain sh, as anybody may write one.
func shout(t *testing.T, bin, broken string) skilltest.Target {
	t.Helper()
	script, err := filepath.Abs("testdata/run")
	if err != nil {
		t.Fatal(err)
	}
	return skilltest.Target{
		Exe: "/bin/sh", Args: []string{script}, Skill: "shout.say", Input: `{"text":"hello"}`, Slow: `{"text":"slow"}`,
		Permissions: []string{"fs:write"}, Env: []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "FAULT=" + broken},
	}
}

func TestShellSkillKeepsTheContract(t *testing.T) {
	skilltest.Run(t, shout(t, emitter(t), ""))
}

// TestBrokenPromisesAreFound: for each promise that a skill breaks there is a check that fails.
func TestBrokenPromisesAreFound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := emitter(t)
	for broken, check := range map[string]string{
		"no result":           "result is the last line",
		"another name":        "result is the last line",
		"exit says otherwise": "result is the last line",
		"events miscounted":   "result is the last line",
		"ids of another":      "result is the last line",
		"event not recorded":  "outbox holds the events",
		"done twice":          "same call id is done once",
		"other input taken":   "same call id with other input",
		"unknown key taken":   "unknown key",
		"rubbish taken":       "malformed stdin",
		"permission ignored":  "missing permission",
		"deaf":                "SIGTERM",
	} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			pattern := strings.ReplaceAll(check, " ", "_")
			cmd := exec.Command(self, "-test.run=^TestBroken$/^"+pattern)
			cmd.Env = append(os.Environ(), fault+"="+broken, "SKILLTEST_BIN="+bin)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestBroken/"+pattern) {
				t.Errorf("%v\n%s\nwant the check %q to fail", err, out, check)
			}
		})
	}
}

// TestBroken is one of TestBrokenPromisesAreFound, in a process of its own.
func TestBroken(t *testing.T) {
	broken := os.Getenv(fault)
	if broken == "" {
		t.Skip("runs inside TestBrokenPromisesAreFound")
	}
	skilltest.Run(t, shout(t, emitter(t), broken))
}

// TestExamplesKeepTheContract: the skills that we show to authors do what we ask of authors.
func TestExamplesKeepTheContract(t *testing.T) {
	bin := emitter(t)
	for name, target := range map[string]skilltest.Target{
		"text.words": {Input: `{"text":"three small words"}`, Reads: true},
		"todo.scan":  {Input: `{"path":".","report":"todo.md"}`, Permissions: []string{"fs:read", "fs:write"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := dropin.Open(filepath.Join("../../manifests/examples", name))
			if err != nil {
				t.Fatal(err)
			}
			command := s.Command()
			if _, err := exec.LookPath(command[2]); err != nil {
				t.Skipf("%s is written for a program that is not here: %v", name, err)
			}
			for i, word := range command[1:] {
				if strings.Contains(word, "/") {
					if command[i+1], err = filepath.Abs(word); err != nil {
						t.Fatal(err)
					}
				}
			}
			target.Exe, target.Args, target.Skill = filepath.Join(bin, command[0]), command[1:], name
			target.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
			skilltest.Run(t, target)
		})
	}
}
