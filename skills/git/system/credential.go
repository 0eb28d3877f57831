package system

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// credentialFile is the descriptor that git and its children inherit the token's pipe as.
const credentialFile = 3

// A credential travels to git in a pipe: it is in no argument, no environment, no file and no configuration. The helper is
// bound to scheme, host and port of the remote, so that a redirect elsewhere finds none; and the pipe holds the answer
// once, so that a second question (the token was refused) fails instead of being answered in a circle. printf and read
// are builtins of the shell: no process list shows what they say.

// helperKey is the configuration key of a helper for one remote.
func helperKey(remote string) (string, error) {
	u, err := url.Parse(remote)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("find whom the credential is for: %q is not a URL", remote)
	}
	return "credential." + u.Scheme + "://" + u.Host + ".helper", nil
}

// withCredential gives cmd the credential of a source. done must be called when git has ended.
func (cmd *command) withCredential(to engine.Source) (done func(), err error) {
	if to.Credential == nil || to.Protocol == "ssh" {
		cmd.withKey(to.Credential)
		return func() {}, nil
	}
	key, err := helperKey(to.URL)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("hand over the credential: %w", err)
	}
	// Less than a pipe holds: this never blocks, and git may read it or not.
	_, err = fmt.Fprintf(write, "username=%s\npassword=%s\n", to.Credential.Username, to.Credential.Token)
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("hand over the credential: %w", err)
	}
	helper := fmt.Sprintf(`%s=!f() { test "$1" = get && while IFS= read -r l <&%d; do printf '%%s\n' "$l"; done; }; f`, key, credentialFile)
	cmd.args = append([]string{"-c", helper}, cmd.args...)
	cmd.files = append(cmd.files, read)
	cmd.hide = append(cmd.hide, to.Credential.Token)
	return func() { read.Close() }, nil
}

// withKey makes ssh use a key and know a host. Both are files that the verb judged; ssh reads them itself.
func (cmd *command) withKey(c *engine.Credential) {
	if c == nil {
		return
	}
	ssh := "GIT_SSH_COMMAND=" + sshCommand
	if c.KeyFile != "" {
		ssh += " -i " + shellQuote(c.KeyFile)
	}
	if c.KnownHosts != "" {
		ssh += " -o UserKnownHostsFile=" + shellQuote(c.KnownHosts) + " -o GlobalKnownHostsFile=/dev/null"
	}
	cmd.env = append(cmd.env, ssh)
}

// shellQuote quotes a word for the shell that git starts ssh with.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
