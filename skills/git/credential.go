package git

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
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// credentialVariable names a file that holds a token: 0600, outside the workspace, removed when it was used.
const credentialVariable = "LATTICE_CREDENTIAL_FILE"

// maxToken is more than any token has, in bytes.
const maxToken = 64 << 10

// credentialInput says where a secret is; the secret itself is never in an input. A token opens https, key_file with
// known_hosts ssh.
type credentialInput struct {
	FD         *int   `json:"fd"`       // inherited descriptor to read the token from
	File       string `json:"file"`     // mode 0600, outside the workspace
	Once       bool   `json:"once"`     // remove File when it was read
	Username   string `json:"username"` // default x-access-token
	KeyFile    string `json:"key_file"`
	KnownHosts string `json:"known_hosts"`
	CAFile     string `json:"ca_file"` // whom to trust instead of the system's authorities
}

// lease returns the token that the runtime handed over for this call, or nil.
func lease(c *skill.Call) *credentialInput {
	file := proc.Getenv(c.Env, credentialVariable, "")
	if file == "" {
		return nil
	}
	return &credentialInput{File: file, Once: true}
}

// attach adds the credential to a remote source; nil adds none.
func (in *credentialInput) attach(ctx context.Context, c *skill.Call, src *engine.Source) (release func(), err error) {
	release = func() {}
	root := c.Root.Dir()
	if in == nil {
		src.Env = slices.Concat(proxies(c), authorities(c))
		return release, nil
	}
	if err := in.check(src.Protocol); err != nil {
		return nil, err
	}
	src.Env = proxies(c)
	secret := &engine.Credential{Username: cmp.Or(in.Username, "x-access-token")}
	for _, f := range []struct {
		name   string
		secret bool
		to     *string
	}{{in.KeyFile, true, &secret.KeyFile}, {in.KnownHosts, false, &secret.KnownHosts}, {in.CAFile, false, nil}} {
		if f.name == "" {
			continue
		}
		if err := outside(root, f.name, f.secret); err != nil {
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
			release = func() { _ = os.Remove(in.File) } // a lease is for one use; it may be gone already
		}
	}
	src.Credential = secret
	return release, err
}

// check judges the input alone.
func (in *credentialInput) check(protocol string) error {
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
		return skill.BadInput("/credential", "needs key_file and known_hosts to open ssh: no host is believed that is not known")
	}
	return nil
}

// outside refuses a file that lies in the workspace, where anything in the sprite could have put it, and a secret one that
// others may read.
func outside(root, file string, secret bool) error {
	info, err := os.Lstat(file)
	if err != nil {
		return fmt.Errorf("read the credential: %w", err)
	}
	if _, in := inside(root, file); in || !filepath.IsAbs(file) || !info.Mode().IsRegular() || secret && info.Mode().Perm()&0o077 != 0 {
		return fault.Unsafe("unsafe_credential", "the credential %s is not a file of mode 0600 outside the workspace", filepath.Base(file))
	}
	return nil
}

// readToken reads a token's file.
func readToken(root, file string) (string, error) {
	if err := outside(root, file, true); err != nil {
		return "", err
	}
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("read the credential: %w", err)
	}
	defer f.Close()
	return token(f)
}

// readDescriptor reads a token from a descriptor that this process inherited, to its end, and closes it, so that no child
// inherits it in turn. Descriptors of the process itself are closed on exec, inherited ones are not: that tells a
// caller's pipe from what another call of this process has open.
func readDescriptor(ctx context.Context, fd int) (string, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return "", fault.Unsafe("unsafe_credential", "descriptor %d was not handed to this process", fd).
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
	text, err := token(f)
	if ctx.Err() != nil {
		return "", fmt.Errorf("read the credential: %w", context.Cause(ctx))
	}
	return text, err
}

func token(r io.Reader) (string, error) {
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
