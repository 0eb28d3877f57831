// Package caller tells who makes a request of the leader's interface: the user and the process at the other end of a unix socket,
// as the kernel knows them, and the program that a person lets make requests. Start with [WithPeer] and [Of].
package caller

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/spritekit/text"
)

type (
	peerKey    struct{}
	processKey struct{}
)

// WithPeer returns a context that names the user at the other end of a unix socket, as the kernel knows them. It is meant
// for [net/http.Server.ConnContext].
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	uid, pid, ok := peerIDs(conn)
	if !ok {
		return ctx
	}
	ctx = context.WithValue(ctx, processKey{}, pid)
	who := &audit.Who{Name: "uid:" + strconv.Itoa(uid), UID: uid}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
		who.Name = u.Username
	}
	return context.WithValue(ctx, peerKey{}, who)
}

// Of returns the user who made a request, nil if the connection does not tell.
func Of(ctx context.Context) *audit.Who {
	who, _ := ctx.Value(peerKey{}).(*audit.Who)
	return who
}

// Variables returns the names of the environment variables of the process that makes a request, as it was started with them. It
// returns nil if the system does not tell, such as for another user's process.
func Variables(ctx context.Context) (names []string) {
	pid, ok := ctx.Value(processKey{}).(int)
	if !ok {
		return nil
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil
	}
	for pair := range strings.SplitSeq(string(raw), "\x00") {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	return names
}

// With returns a context that names the person or program that makes a request.
func With(ctx context.Context, who audit.Who) context.Context {
	return context.WithValue(ctx, peerKey{}, &who)
}

// headerVia is the header in which a program says that it makes the requests of a person.
const headerVia = "Lattice-Via"

// maxVia bounds the name of a program, in characters.
const maxVia = 64

// Via returns a client whose requests name the program that makes them.
func Via(hc *http.Client, program string) *http.Client {
	next := hc.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	return &http.Client{Transport: viaTransport{next, text.HeadRunes(text.Line(program), maxVia)}}
}

type viaTransport struct {
	http.RoundTripper
	program string
}

func (t viaTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(headerVia, t.program)
	return t.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the connections.
func (t viaTransport) CloseIdleConnections() {
	(&http.Client{Transport: t.RoundTripper}).CloseIdleConnections()
}

// RecordProgram adds the program that a request names to the user who made it.
func RecordProgram(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, program := Of(r.Context()), r.Header.Get(headerVia); who != nil && program != "" {
			named := *who
			named.Via = text.HeadRunes(text.Line(program), maxVia)
			r = r.WithContext(With(r.Context(), named))
		}
		next.ServeHTTP(w, r)
	})
}
