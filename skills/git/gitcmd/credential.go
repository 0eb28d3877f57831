package gitcmd

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// credentialFile is the descriptor of the token's pipe in git and its children.
const credentialFile = 3

// addRemote gives the command the environment and the credential of its remote. done must be called when git has ended.
//
// A token travels through a pipe. The helper is bound to scheme, host and port of the remote, so that it does not answer
// after a redirect to another host. The pipe holds the answer once, so that a second question, after the token was refused,
// fails. printf and read are shell builtins, so that no process list shows the token.
func (cmd *Command) addRemote() (done func(), err error) {
	done = func() {}
	if cmd.Remote == nil {
		return done, nil
	}
	cmd.Env = append(slices.Clip(cmd.Env), cmd.Remote.Env...)
	c := cmd.Remote.Credential
	switch {
	case c == nil:
		return done, nil
	case cmd.Remote.Protocol == "ssh":
		cmd.Env = append(cmd.Env, sshVariable(c))
		return done, nil
	}
	key, err := helperKey(cmd.Remote.URL)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pass the credential: %w", err)
	}
	// The text fits into a pipe: the write never blocks, even if git does not read.
	_, err = fmt.Fprintf(write, "username=%s\npassword=%s\n", c.Username, c.Token)
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("pass the credential: %w", err)
	}
	helper := fmt.Sprintf(`%s=!f() { test "$1" = get && while IFS= read -r l <&%d; do printf '%%s\n' "$l"; done; }; f`, key, credentialFile)
	cmd.Args = append([]string{"-c", helper}, cmd.Args...)
	cmd.files = []*os.File{read}
	cmd.hide = []string{c.Token}
	return func() { read.Close() }, nil
}

// helperKey returns the configuration key of a credential helper for one remote.
func helperKey(remote string) (string, error) {
	u, err := url.Parse(remote)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("pass the credential: %q is not a URL", remote)
	}
	return "credential." + u.Scheme + "://" + u.Host + ".helper", nil
}

// sshVariable makes ssh use a key and trust the listed hosts. The verb has checked both files; ssh reads them itself.
func sshVariable(c *engine.Credential) string {
	ssh := "GIT_SSH_COMMAND=" + sshCommand
	if c.KeyFile != "" {
		ssh += " -i " + shellQuote(c.KeyFile)
	}
	if c.KnownHosts != "" {
		ssh += " -o UserKnownHostsFile=" + shellQuote(c.KnownHosts) + " -o GlobalKnownHostsFile=/dev/null"
	}
	return ssh
}

// shellQuote quotes a word for the shell with which git starts ssh.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
