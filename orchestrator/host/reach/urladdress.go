package reach

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"

	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// Many programs do not know names below localhost: the C library asks a name server for them, unless nss-myhostname is
// installed. All of 127.0.0.0/8 is this machine, though, and so a sprite gets an address of that network when one is asked
// for. It is a site of its own in a browser, as the name is, and stays the sprite's as long as there is the sprite.
const (
	addressTries = 64  // until a free one is found
	maxAddresses = 512 // sprites that have one; each is a listener
)

// urlAddresses are the addresses of sprites.
type urlAddresses struct {
	mu   sync.Mutex            // guards the fields below
	of   map[string]netip.Addr // by the sprite's name
	from map[netip.Addr]string
}

// owner is the sprite that has an address.
func (a *urlAddresses) owner(host string) (name string, ok bool) {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "", false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name, ok = a.from[addr]
	return name, ok
}

func (a *urlAddresses) get(name string) (netip.Addr, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	addr, ok := a.of[name]
	return addr, ok
}

// take gives an address to a sprite; false when another has it, or there are too many.
func (a *urlAddresses) take(name string, addr netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of, a.from = map[string]netip.Addr{}, map[netip.Addr]string{}
	}
	if _, taken := a.from[addr]; taken || len(a.of) >= maxAddresses {
		return false
	}
	a.of[name], a.from[addr] = addr, name
	return true
}

func (a *urlAddresses) drop(name string, addr netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, name)
	delete(a.from, addr)
}

// proposal is the nth address that a sprite could have: 127.64.0.0 and above, which nothing else has by custom.
func proposal(name string, n int) netip.Addr {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", name, n))
	return netip.AddrFrom4([4]byte{127, 64 + sum[0]%64, sum[1], 1 + sum[2]%254})
}

// addressOf is the URL of a sprite by its own address, "" when it has none.
func (u *urlServer) addressOf(name string) string {
	if u == nil {
		return ""
	}
	addr, ok := u.addresses.get(name)
	if !ok {
		return ""
	}
	return "http://" + net.JoinHostPort(addr.String(), strconv.Itoa(u.port)) + "/"
}

// giveAddress gives a sprite an address of its own, if it has none yet.
func (u *urlServer) giveAddress(name string) (string, error) {
	if at := u.addressOf(name); at != "" {
		return at, nil
	}
	var failed error
	for n := range addressTries {
		addr := proposal(name, n)
		if !u.addresses.take(name, addr) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(addr.String(), strconv.Itoa(u.port)))
		if err != nil {
			u.addresses.drop(name, addr)
			failed = err
			continue
		}
		if err := u.Store.SetAddress(name, addr); err != nil {
			u.addresses.drop(name, addr)
			return "", errors.Join(err, l.Close())
		}
		u.listen(l)
		return u.addressOf(name), nil
	}
	if failed == nil {
		return "", wire.Refuse(http.StatusTooManyRequests, "too_many_addresses", fmt.Sprintf("%d sprites have an address of their own already; remove some sprites", maxAddresses))
	}
	return "", wire.Refuse(http.StatusNotImplemented, "no_address", "this machine gives a sprite no address of its own: "+failed.Error()+"; use lattice sprite proxy")
}

// restoreAddresses listens on the addresses that sprites had, and forgets those of sprites that are gone.
func (u *urlServer) restoreAddresses() error {
	kept, err := u.Store.Addresses()
	if err != nil {
		return err
	}
	for name, addr := range kept {
		l, err := net.Listen("tcp", net.JoinHostPort(addr.String(), strconv.Itoa(u.port)))
		if err != nil || !u.addresses.take(name, addr) {
			u.Config.Log.Warn().Err(err).Stringer("address", addr).Msg("a sprite loses its address until it asks for one again")
			if l != nil {
				l.Close()
			}
			continue
		}
		u.listen(l)
	}
	return nil
}
