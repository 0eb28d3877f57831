package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
)

// stream is a connection that carries the whole conversation.
type stream struct {
	net.Conn
	read io.Reader
	stop func() bool // of the context's watch
}

func (s *stream) exchange(_ context.Context, write func(io.Writer) error) (io.ReadCloser, error) {
	if err := write(s.Conn); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return io.NopCloser(s.read), nil
}

func (s *stream) Close() error {
	s.stop()
	return s.Conn.Close()
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
	conn, err := (&net.Dialer{Timeout: headerLimit}).DialContext(ctx, "tcp", host)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, nil, cause
		}
		return nil, nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	s := &stream{Conn: conn, read: buffered(conn)}
	s.stop = context.AfterFunc(ctx, func() { conn.Close() })
	if err := line(conn, "%s %s\x00host=%s\x00", service, u.Path, u.Host); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%w: %w", ErrUnreachable, err), s.Close())
	}
	return s, s.read, nil
}
