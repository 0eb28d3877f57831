package native

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshServer runs what it is told, for whoever has the key, until the test ends. It returns its address.
func sshServer(t *testing.T, host ssh.Signer, client ssh.PublicKey) string {
	t.Helper()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(client.Marshal()) {
			return nil, os.ErrPermission
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serveSSH(conn, config) })
		}
	})
	return listener.Addr().String()
}

func serveSSH(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	defer server.Close()
	go ssh.DiscardRequests(requests) // ends with the connection
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			if r.Type != "exec" {
				r.Reply(false, nil)
				continue
			}
			var command struct{ Line string }
			err := ssh.Unmarshal(r.Payload, &command)
			r.Reply(err == nil, nil)
			cmd := exec.Command("sh", "-c", command.Line)
			cmd.Env, cmd.Stdin, cmd.Stdout = gitEnv(), channel, channel
			cmd.Run()
			channel.SendRequest("exit-status", false, []byte{0, 0, 0, 0})
			channel.Close()
			break
		}
	}
}

// key makes a key and writes its private half to a file.
func key(t *testing.T, file string) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return signer, file
}

// TestSSH clones from and pushes to a host that is known, and turns away from one that is not or does not want the key.
func TestSSH(t *testing.T) {
	ctx := context.Background()
	b := newBench(t)
	grow(b)
	host, _ := key(t, "host")
	other, otherFile := key(t, "other")
	client, clientFile := key(t, "client")
	address := sshServer(t, host, client.PublicKey())
	known := func(k ssh.PublicKey) string {
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(knownhosts.Line([]string{address}, k)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	from := engine.Source{URL: "ssh://git@" + address + b.dir, Protocol: "ssh", Credential: &engine.Credential{KeyFile: clientFile, KnownHosts: known(host.PublicKey())}}
	dest := filepath.Join(b.root.Dir(), "clone")
	done, err := Engine{}.Clone(ctx, engine.CloneSpec{From: from, RemoteURL: from.URL, Dir: dest, Depth: 2, SingleBranch: true})
	if err != nil || done.Branch != "main" || !done.Shallow {
		t.Fatalf("clone = %+v, %v", done, err)
	}
	c := &bench{t, b.root, dest}
	c.sound()
	c.write("new", "n\n")
	spec := commitSpec("by ssh\n")
	spec.All = true
	var made engine.Committed
	c.must(func(r *repo) error { made, err = r.Commit(ctx, spec); return err })
	var pushed []engine.PushedRef
	c.must(func(r *repo) error {
		pushed, err = r.Push(ctx, engine.PushSpec{To: from, Refs: []engine.PushRef{{From: made.Commit, To: "refs/heads/by-ssh"}}})
		return err
	})
	if len(pushed) != 1 || pushed[0].Status != engine.PushOK || b.git("rev-parse", "by-ssh") != made.Commit {
		t.Errorf("push = %+v", pushed)
	}
	b.sound()
	for name, credential := range map[string]engine.Credential{
		"unknown host":      {KeyFile: clientFile, KnownHosts: os.DevNull},
		"host has another":  {KeyFile: clientFile, KnownHosts: known(other.PublicKey())},
		"key is not wanted": {KeyFile: otherFile, KnownHosts: known(host.PublicKey())},
		"no key":            {KeyFile: "/nonexistent", KnownHosts: known(host.PublicKey())},
	} {
		from.Credential = &credential
		if _, err := (Engine{}).Refs(ctx, from); exitOf(err) != protocol.ExitDenied {
			t.Errorf("%s: refs = %v, want exit %d", name, err, protocol.ExitDenied)
		}
	}
}
