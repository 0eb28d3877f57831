package proc

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sh(script string, out *bytes.Buffer) Spec {
	return Spec{Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Stdout: out, Stderr: out, Tree: true}
}

func TestRunReportsTheExit(t *testing.T) {
	tests := map[string]struct {
		script string
		code   int
		signal syscall.Signal
		output string
	}{
		"success":          {"echo out; echo err >&2", 0, 0, "out\nerr\n"},
		"failure":          {"exit 7", 7, 0, ""},
		"signal":           {"kill -9 $$", -1, syscall.SIGKILL, ""},
		"nothing inherits": {"echo ${HOME-unset}; cat", 0, 0, "unset\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var r Reaper
			var out bytes.Buffer
			exit, err := r.Run(t.Context(), sh(test.script, &out))
			if err != nil {
				t.Fatal(err)
			}
			if exit.Code != test.code || exit.Signal != test.signal || out.String() != test.output {
				t.Errorf("Run(%q) = %d, %v, %q, want %d, %v, %q", test.script, exit.Code, exit.Signal, out.String(), test.code, test.signal, test.output)
			}
		})
	}
}

func TestRunFailsToStart(t *testing.T) {
	var r Reaper
	if _, err := r.Run(t.Context(), Spec{Argv: []string{"/no/such/program"}, Dir: "/"}); err == nil {
		t.Error("a missing program started")
	}
}

func TestArgv(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`"true"`:                 "sh -c true",
		`["/bin/true","a b"]`:    "/bin/true a b",
		`""`:                     "/command is empty",
		`" \u0000"`:              "/command is empty or contains a NUL byte",
		`["/bin/true","\u0000"]`: "/command/1 contains a NUL byte",
		`["\u0000","a"]`:         "/command/0 contains a NUL byte",
		`[]`:                     "/command is neither",
		`["",""]`:                "/command is neither",
		`null`:                   "/command is empty",
		`{}`:                     "/command is neither",
	} {
		shown, _, err := Argv([]byte(raw), []string{"PATH=/bin:/usr/bin"})
		got := strings.Join(shown, " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("Argv(%s) = %q, want %q", raw, got, want)
		}
	}
}

// A grandchild in a session of its own, without our environment, whose parent is gone, holding our pipe open.
const daemon = `setsid env -i /bin/sh -c 'echo $$ > "$0"; exec sleep 1000' "$PIDFILE" & while ! test -s "$PIDFILE"; do :; done; `

func TestNothingOutlivesATree(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a child subreaper")
	}
	tests := map[string]string{
		"ends by itself":     "echo done",
		"ends on SIGINT":     "sleep 1000",
		"ignores everything": "trap '' INT TERM; while :; do sleep 1; done",
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			pidfile := filepath.Join(t.TempDir(), "pid")
			var r Reaper
			var out bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			spec := sh(daemon+"echo ready; "+script, &out)
			spec.Env = append(spec.Env, "PIDFILE="+pidfile)
			spec.Grace = 50 * time.Millisecond
			if name != "ends by itself" {
				spec.Stdout = cancelOn{"ready", cancel}
				spec.Stderr = nil
			}
			exit, err := r.Run(ctx, spec)
			if err != nil {
				t.Fatal(err)
			}
			if exit.Leftover == 0 {
				t.Error("Leftover = 0, want the daemon counted")
			}
			data, err := os.ReadFile(pidfile)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("the daemon %d is still there: %v", pid, err)
			}
			if left := childrenOf(os.Getpid()); len(left) > 0 {
				t.Errorf("children left: %v", left)
			}
		})
	}
}

type cancelOn struct {
	text   string
	cancel func()
}

func (c cancelOn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.text) {
		c.cancel()
	}
	return len(p), nil
}
