package wire

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// stream is a connection that carries the whole conversation.
type stream struct {
	read  io.Reader
	write io.Writer
	end   func() error // says that nothing more is sent
	close func() error
	stop  func() bool // of the context's watch
}

func (s *stream) exchange(ctx context.Context, write func(io.Writer) error) (io.ReadCloser, error) {
	if err := write(s.write); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if s.end != nil {
		if err := s.end(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
	}
	return io.NopCloser(s.read), nil
}

func (s *stream) Close() error {
	s.stop()
	return s.close()
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: headerLimit}).DialContext(ctx, "tcp", address)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return conn, nil
}

// dialGit speaks on git's own port.
func dialGit(ctx context.Context, to Remote, service string) (transport, io.Reader, error) {
	u, err := url.Parse(to.URL)
	if err != nil || u.Host == "" {
		return nil, nil, fmt.Errorf("%w: %s is no URL", ErrUnreachable, withoutUser(to.URL))
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "9418")
	}
	conn, err := dial(ctx, host)
	if err != nil {
		return nil, nil, err
	}
	s := &stream{read: buffered(conn), write: conn, close: conn.Close}
	s.stop = context.AfterFunc(ctx, func() { conn.Close() })
	if err := line(conn, "%s %s\x00host=%s\x00", service, u.Path, u.Host); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%w: %w", ErrUnreachable, err), s.Close())
	}
	return s, s.read, nil
}

// place is where an ssh URL or user@host:path leads.
type place struct{ user, address, path string }

func parseSSH(text string) (place, error) {
	bad := fmt.Errorf("%w: it is no ssh address", ErrUnreachable)
	if !strings.Contains(text, "://") {
		host, path, ok := strings.Cut(text, ":")
		user, name, at := strings.Cut(host, "@")
		if !at {
			user, name = "git", host
		}
		if !ok || name == "" || path == "" {
			return place{}, bad
		}
		return place{user, net.JoinHostPort(name, "22"), path}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Path == "" {
		return place{}, bad
	}
	p := place{user: "git", path: u.Path}
	if name := u.User.Username(); name != "" {
		p.user = name
	}
	port := u.Port()
	if port == "" {
		port = "22"
	}
	p.address = net.JoinHostPort(u.Hostname(), port)
	if strings.HasPrefix(p.path, "/~") {
		p.path = p.path[1:]
	}
	return p, nil
}

// dialSSH runs the service on the host. The host must be known, and the key is a file.
func dialSSH(ctx context.Context, to Remote, service string) (transport, io.Reader, error) {
	at, err := parseSSH(to.URL)
	if err != nil {
		return nil, nil, err
	}
	config, err := sshConfig(to, at)
	if err != nil {
		return nil, nil, err
	}
	conn, err := dial(ctx, at.address)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	fail := func(err error) (transport, io.Reader, error) {
		stop()
		conn.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, nil, err
	}
	c, channels, requests, err := ssh.NewClientConn(conn, at.address, config)
	if err != nil {
		return fail(judgeSSH(err))
	}
	client := ssh.NewClient(c, channels, requests)
	session, err := client.NewSession()
	if err != nil {
		return fail(fmt.Errorf("%w: %w", ErrUnreachable, err))
	}
	in, err1 := session.StdinPipe()
	out, err2 := session.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return fail(err)
	}
	quoted := "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(at.path) + "'"
	if err := session.Start(service + " " + quoted); err != nil {
		return fail(fmt.Errorf("%w: %w", ErrUnreachable, err))
	}
	s := &stream{read: buffered(out), write: in, end: in.Close, close: client.Close, stop: stop}
	return s, s.read, nil
}

func judgeSSH(err error) error {
	var unknown *knownhosts.KeyError
	switch {
	case errors.As(err, &unknown) && len(unknown.Want) > 0:
		return fmt.Errorf("%w: the host's key is another than the known one", ErrAuthentication)
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: the host is not known", ErrAuthentication)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("%w: it refused every key", ErrAuthentication)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

func sshConfig(to Remote, at place) (*ssh.ClientConfig, error) {
	known := to.KnownHosts
	if known == "" {
		known = filepath.Join(to.Home, ".ssh", "known_hosts")
	}
	check, err := knownhosts.New(known)
	if err != nil {
		return nil, fmt.Errorf("%w: the known hosts cannot be read: %w", ErrAuthentication, err)
	}
	keys := []string{to.KeyFile}
	if to.KeyFile == "" {
		keys = nil
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			keys = append(keys, filepath.Join(to.Home, ".ssh", name))
		}
	}
	var signers []ssh.Signer
	for _, name := range keys {
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		signer, err := ssh.ParsePrivateKey(data)
		if err != nil {
			return nil, fmt.Errorf("%w: a key cannot be used: %w", ErrAuthentication, err)
		}
		signers = append(signers, signer)
	}
	if len(signers) == 0 {
		return nil, fmt.Errorf("%w: there is no key", ErrAuthentication)
	}
	return &ssh.ClientConfig{
		User: at.user, HostKeyCallback: check, HostKeyAlgorithms: algorithms(check, at.address),
		Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)}, Timeout: headerLimit,
	}, nil
}

// algorithms are those of the keys by which a host is known, so that it shows one of them and no other. They come to light
// when a key is asked for that no host has.
func algorithms(check ssh.HostKeyCallback, address string) []string {
	nobody, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return nil
	}
	var known *knownhosts.KeyError
	if !errors.As(check(address, &net.TCPAddr{}, nobody), &known) {
		return nil
	}
	var list []string
	for _, k := range known.Want {
		switch kind := k.Key.Type(); kind {
		case ssh.KeyAlgoRSA:
			list = append(list, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			list = append(list, kind)
		}
	}
	return list
}
