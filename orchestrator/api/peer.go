package api

import (
	"context"
	"net"
	"os/user"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/audit"
)

type peerKey struct{}

// WithPeer returns a context that names the user at the other end of a unix socket, as the kernel knows them. It is meant
// for [net/http.Server.ConnContext].
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	uid, ok := peerUID(conn)
	if !ok {
		return ctx
	}
	who := &audit.Who{Name: "uid:" + strconv.Itoa(uid), UID: uid}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
		who.Name = u.Username
	}
	return context.WithValue(ctx, peerKey{}, who)
}

// PeerOf returns the user who made a request, nil if the connection does not tell.
func PeerOf(ctx context.Context) *audit.Who {
	who, _ := ctx.Value(peerKey{}).(*audit.Who)
	return who
}

// WithCaller returns a context that names the person or program that makes a request.
func WithCaller(ctx context.Context, who audit.Who) context.Context {
	return context.WithValue(ctx, peerKey{}, &who)
}

// requester returns the name of the user who made a request. The name in the body counts only if the connection does not
// tell who it is.
func requester(ctx context.Context, body string) string {
	if who := PeerOf(ctx); who != nil {
		return who.Name
	}
	return body
}
