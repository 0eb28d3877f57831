package remote

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// credentialVariable names a file with a token: mode 0600, outside the workspace, removed after use.
const credentialVariable = "LATTICE_CREDENTIAL_FILE"

// maxToken bounds a token, in bytes.
const maxToken = 64 << 10

// Credential is the input that locates a secret; no input contains the secret itself. A token is for https, key_file with
// known_hosts for ssh.
type Credential struct {
	FD         *int   `json:"fd"`       // inherited descriptor to read the token from
	File       string `json:"file"`     // mode 0600, outside the workspace
	Once       bool   `json:"once"`     // remove File after the call
	Username   string `json:"username"` // default x-access-token
	KeyFile    string `json:"key_file"`
	KnownHosts string `json:"known_hosts"`
	CAFile     string `json:"ca_file"` // replaces the system's certificate authorities
}

// leasedCredential returns the credential that the runtime leased to this call, or nil.
func leasedCredential(c *skill.Call) *Credential {
	file := proc.Getenv(c.Env, credentialVariable, "")
	if file == "" {
		return nil
	}
	return &Credential{File: file, Once: true}
}

// addTo adds the credential and the variables of the environment to a source; a nil credential adds only the variables.
func (in *Credential) addTo(ctx context.Context, c *skill.Call, src *engine.Source) (release func(), err error) {
	release = func() {}
	root := c.Root.Dir()
	if in == nil {
		src.Env = slices.Concat(proxyVariables(c), trustVariables(c))
		return release, nil
	}
	if err := in.validate(src.Protocol); err != nil {
		return nil, err
	}
	src.Env = proxyVariables(c)
	secret := &engine.Credential{Username: cmp.Or(in.Username, "x-access-token")}
	for _, f := range []struct {
		name   string
		secret bool
		to     *string
	}{{in.KeyFile, true, &secret.KeyFile}, {in.KnownHosts, false, &secret.KnownHosts}, {in.CAFile, false, nil}} {
		if f.name == "" {
			continue
		}
		if err := checkFile(root, f.name, f.secret); err != nil {
			return nil, err
		}
		if f.to == nil {
			src.Env = append(src.Env, "GIT_SSL_CAINFO="+f.name)
			continue
		}
		*f.to = f.name
	}
	switch {
	case in.FD != nil:
		secret.Token, err = readDescriptor(ctx, *in.FD)
	case in.File != "":
		secret.Token, err = readToken(root, in.File)
		if in.Once && err == nil {
			release = func() { _ = os.Remove(in.File) } // a lease is for one use; the file may already be removed
		}
	}
	src.Credential = secret
	return release, err
}

// validate checks the input alone.
func (in *Credential) validate(protocol string) error {
	token := in.FD != nil || in.File != ""
	switch {
	case in.FD != nil && in.File != "":
		return skill.BadInput("/credential/fd", "and file are both given: one of them has the token")
	case in.FD != nil && *in.FD < 3:
		return skill.BadInput("/credential/fd", "%d is stdin, stdout or stderr", *in.FD)
	case in.Once && in.File == "":
		return skill.BadInput("/credential/once", "needs file")
	case strings.ContainsAny(in.Username, "\r\n\x00") || len(in.Username) > 256:
		return skill.BadInput("/credential/username", "is not a user name")
	case token && protocol != "https":
		return fault.Unsafe("unsafe_credential", "a token travels by https alone, and the remote is reached by %s", protocol).
			WithHint("use an https URL; ssh is opened with key_file and known_hosts")
	case !token && protocol == "https":
		return skill.BadInput("/credential", "holds neither fd nor file, which have the token")
	case protocol == "ssh" && (in.KeyFile == "" || in.KnownHosts == ""):
		return skill.BadInput("/credential", "needs key_file and known_hosts to open ssh: an unknown host is never trusted")
	}
	return nil
}

// checkFile refuses a file in the workspace, where any process of the sprite could have written it, and a secret file that
// others may read.
func checkFile(root, file string, secret bool) error {
	info, err := os.Lstat(file)
	if err != nil {
		return fmt.Errorf("read the credential: %w", err)
	}
	if _, in := guard.Inside(root, file); in || !filepath.IsAbs(file) || !info.Mode().IsRegular() || secret && info.Mode().Perm()&0o077 != 0 {
		return fault.Unsafe("unsafe_credential", "the credential %s is not a file of mode 0600 outside the workspace", filepath.Base(file))
	}
	return nil
}

// readToken reads the file of a token.
func readToken(root, file string) (string, error) {
	if err := checkFile(root, file, true); err != nil {
		return "", err
	}
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("read the credential: %w", err)
	}
	defer f.Close()
	return readLine(f)
}

// readDescriptor reads a token from a descriptor that this process inherited, to its end, and closes it, so that no child
// inherits it. Descriptors of the process itself have FD_CLOEXEC set and inherited ones do not, so that no call can name a
// descriptor of another call.
func readDescriptor(ctx context.Context, fd int) (string, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return "", fault.Unsafe("unsafe_credential", "descriptor %d was not passed to this process", fd).
			WithHint("let the caller open it, such as 3</run/token in a shell")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO && stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", fault.Unsafe("unsafe_credential", "descriptor %d is neither a pipe nor a file", fd)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that a deadline can end the read
		return "", fmt.Errorf("read the credential: %w", err)
	}
	f := os.NewFile(uintptr(fd), "credential")
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) }) // a file needs none
	defer stop()
	text, err := readLine(f)
	if ctx.Err() != nil {
		return "", fmt.Errorf("read the credential: %w", context.Cause(ctx))
	}
	return text, err
}

// readLine reads the single line of a credential.
func readLine(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("read the credential: %w", err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" || len(data) > maxToken || strings.ContainsAny(text, "\r\n\x00") {
		return "", fault.Unsafe("unsafe_credential", "the credential is not one line")
	}
	return text, nil
}
