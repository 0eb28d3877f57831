package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// ssh is started so that it asks nobody, believes no host that is not known, and offers the one key that it was given.
// What stands for ssh here writes down what it was told, and serves as the host would.
func TestSSHIsGivenAKeyAndAHost(t *testing.T) {
	b := newBench(t)
	head := b.repo()
	bin := t.TempDir()
	b.ok(os.WriteFile(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >"+bin+"/args\nenv >"+bin+"/env\nfor last; do :; done\neval \"$last\"\n"), 0o755))
	b.env.Child = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "GIT_SSH_COMMAND=evil", "SSH_AUTH_SOCK=/run/agent"}
	key, hosts := secret(t, "key"), secret(t, "host")
	quoted := filepath.Join(t.TempDir(), "it's a key")
	b.ok(os.Rename(key, quoted))
	data := b.must("git.clone", input{
		"url": "ssh://git@example.com/" + filepath.Join(b.dir, "repo"), "dest": "copy", "credential": input{"key_file": quoted, "known_hosts": hosts},
	})
	if data["head"] != head {
		t.Errorf("git.clone = %v", data)
	}
	args, err := os.ReadFile(filepath.Join(bin, "args"))
	b.ok(err)
	for _, want := range []string{"-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "-oIdentitiesOnly=yes", quoted, "UserKnownHostsFile=" + hosts, "GlobalKnownHostsFile=/dev/null", "git@example.com"} {
		if !strings.Contains("\n"+string(args), "\n"+want+"\n") {
			t.Errorf("ssh was not told %q:\n%s", want, args)
		}
	}
	env, err := os.ReadFile(filepath.Join(bin, "env"))
	b.ok(err)
	if strings.Contains(string(env), "SSH_AUTH_SOCK") || strings.Contains(string(env), "evil") {
		t.Errorf("ssh inherited:\n%s", env)
	}
}

// The native engine opens no ssh, and says what to do instead.
func TestWithoutGitThereIsNoSSH(t *testing.T) {
	b := newBench(t)
	b.repo()
	b.env.Grants = skill.Grants{All: true}
	b.git("repo", "remote", "add", "origin", "git@127.0.0.1:a.git")
	b.env.Child = []string{"PATH=" + t.TempDir()}
	for name, in := range map[string]input{
		"git.clone": {"url": "ssh://git@127.0.0.1:1/a.git", "dest": "copy"}, "git.push": {"mode": "direct", "branch": "work", "credential": input{"key_file": secret(t, "key"), "known_hosts": secret(t, "host")}},
	} {
		if fault := b.fails(name, in, protocol.ExitUnsupported, "unsupported"); !strings.Contains(fault.Hint, "bundle") {
			t.Errorf("%s = %+v, which names no other way", name, fault)
		}
	}
}

// A call may give itself less time than its manifest does; what it started ends with it.
func TestACallLimitsItsOwnTime(t *testing.T) {
	b := newBench(t)
	b.repo()
	bin := t.TempDir()
	b.ok(os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\ncase \"$*\" in *version*) echo git version 2.39.5;; *) exec sleep 60;; esac\n"), 0o755))
	b.env.Child = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	began := time.Now()
	b.fails("git.status", input{"timeout_ms": 50}, 124, "timeout")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	b.fails("git.status", input{"timeout_ms": -1}, 2, "bad_input")
	b.fails("git.status", input{"engine": "jgit"}, 2, "bad_input")
	b.ok(os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho git version 2.29.9\n"), 0o755))
	b.fails("git.status", input{"engine": "system"}, 8, "unsupported")
	if status := b.must("git.status", nil); status["engine"] != "native" {
		t.Errorf("git.status with a git that is too old = %v, want the native engine", status)
	}
}
