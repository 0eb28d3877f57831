package leader

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestSameInputs(t *testing.T) {
	recorded := json.RawMessage(`{"count":3,"ok":true,"names":["a","b"],"text":"3"}`)
	for name, tt := range map[string]struct {
		inputs map[string]string
		typed  string
		want   bool
	}{
		"as text":       {map[string]string{"count": "3", "ok": "yes", "names": "a,b", "text": "3"}, "", true},
		"as JSON":       {nil, `{"count":3,"ok":true,"names":["a","b"],"text":"3"}`, true},
		"mixed":         {map[string]string{"ok": "true", "text": "3"}, `{"count":3,"names":["a","b"]}`, true},
		"other value":   {map[string]string{"count": "4", "ok": "yes", "names": "a,b", "text": "3"}, "", false},
		"other JSON":    {nil, `{"count":3,"ok":true,"names":["b","a"],"text":"3"}`, false},
		"one missing":   {map[string]string{"count": "3", "ok": "yes", "names": "a,b"}, "", false},
		"one too many":  {map[string]string{"count": "3", "ok": "yes", "names": "a,b", "text": "3", "more": "1"}, "", false},
		"another name":  {map[string]string{"count": "3", "ok": "yes", "names": "a,b", "tekst": "3"}, "", false},
		"no JSON":       {nil, `[`, false},
		"another value": {nil, `{"count":"3","ok":true,"names":["a","b"],"text":"3"}`, false},
	} {
		d := api.DecideRequest{Inputs: tt.inputs, Typed: json.RawMessage(tt.typed)}
		if got := sameInputs(recorded, d, nil); got != tt.want {
			t.Errorf("%s: sameInputs = %t", name, got)
		}
	}
}

func TestHomeProblems(t *testing.T) {
	for errno, want := range map[syscall.Errno]struct {
		code string
		exit int
	}{
		syscall.ENOTDIR: {"home_not_directory", protocol.ExitBadInput}, syscall.ENAMETOOLONG: {"home_too_long", protocol.ExitBadInput},
		syscall.EROFS: {"home_read_only", protocol.ExitDenied}, syscall.EACCES: {"home_unwritable", protocol.ExitDenied},
		syscall.EPERM: {"home_unwritable", protocol.ExitDenied}, syscall.ENOSPC: {"disk_full", protocol.ExitLimit},
		syscall.EDQUOT: {"disk_full", protocol.ExitLimit}, syscall.ENOENT: {"home_missing", protocol.ExitNotFound},
	} {
		err := homeProblem("make state directory", fmt.Errorf("mkdir: %w", &os.PathError{Op: "mkdir", Path: "/x", Err: errno}))
		var p *fault.Error
		if !errors.As(err, &p) || p.Fault.Code != want.code || p.Exit != want.exit || p.Fault.Hint == "" {
			t.Errorf("%v = %+v, want %s, exit %d and a hint", errno, err, want.code, want.exit)
		}
	}
	if err := homeProblem("look", syscall.EIO); !errors.Is(err, syscall.EIO) {
		t.Errorf("another error is %v", err)
	}
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if unfit(info, os.Getuid()) != "" || unfit(info, os.Getuid()+1) == "" {
		t.Error("a directory is judged by its owner")
	}
	if err := Home("").prepare(); err == nil {
		t.Error("no directory is one")
	}
}

// A log that cannot be written is no reason to fail the call that prints.
func TestRunLogDrops(t *testing.T) {
	wrote := 0
	log := &cappedLog{path: filepath.Join(t.TempDir(), "none", "output.log"), wrote: func() { wrote++ }}
	if n, err := log.Write([]byte("lost\n")); n != 5 || err != nil || wrote != 0 {
		t.Errorf("Write = %d, %v, %d notices", n, err, wrote)
	}
}

// TestStopProblem: a run that stops for a reason outside of it ends its command as that reason asks for, and says how to
// go on.
func TestStopProblem(t *testing.T) {
	const goOn = "lattice resume run_1"
	conn := func(sent bool) error { return &sprites.ConnError{Server: "host:1", Sent: sent, Err: io.EOF} }
	for name, tt := range map[string]struct {
		err  error
		exit int
		code string
		hint string
	}{
		"no service":    {conn(false), protocol.ExitNetwork, "connection_failed", "check SPRITES_API_URL and the network, then: " + goOn},
		"cut off":       {conn(true), protocol.ExitNetwork, "connection_failed", goOn},
		"stream lost":   {&sprites.LostError{Session: "1", Err: io.EOF}, protocol.ExitNetwork, "connection_lost", goOn},
		"wrong token":   {&sprites.APIError{Status: 401}, protocol.ExitDenied, "denied", "check SPRITES_TOKEN: the service does not accept it for this, then: " + goOn},
		"another page":  {&sprites.ForeignError{Status: 200}, protocol.ExitNetwork, "connection_failed", "check SPRITES_API_URL, and whether a proxy on the way answers for it, then: " + goOn},
		"disk full":     {syscall.ENOSPC, protocol.ExitLimit, "disk_full", "free some space, then: lattice resume"},
		"something odd": {errors.New("odd"), 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := stopProblem("run_1", fmt.Errorf("prepare: %w", tt.err))
			if tt.code == "" {
				if p != nil {
					t.Errorf("stopProblem = %+v, want nil", p)
				}
				return
			}
			if p == nil || p.Exit != tt.exit || p.Fault.Code != tt.code || p.Fault.Hint != tt.hint {
				t.Errorf("stopProblem = %+v, want exit %d, %s, %q", p, tt.exit, tt.code, tt.hint)
			}
		})
	}
}
