package reach

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
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
	at   map[netip.Addr]net.Listener
}

// ownerOf returns the sprite that has an address.
func (a *urlAddresses) ownerOf(host string) (name string, ok bool) {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "", false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name, ok = a.from[addr]
	return name, ok
}

func (a *urlAddresses) addressOf(name string) (netip.Addr, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	addr, ok := a.of[name]
	return addr, ok
}

// takeAddress gives an address to a sprite; false when another has it, or there are too many.
func (a *urlAddresses) takeAddress(name string, addr netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of, a.from, a.at = map[string]netip.Addr{}, map[netip.Addr]string{}, map[netip.Addr]net.Listener{}
	}
	if _, taken := a.from[addr]; taken || len(a.of) >= maxAddresses {
		return false
	}
	a.of[name], a.from[addr] = addr, name
	return true
}

func (a *urlAddresses) dropAddress(name string, addr netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, name)
	delete(a.from, addr)
	delete(a.at, addr)
}

// keepListener notes the listener of a taken address.
func (a *urlAddresses) keepListener(addr netip.Addr, l net.Listener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[addr] = l
}

// dropGone drops the addresses of all sprites but those in kept, and closes their listeners.
func (a *urlAddresses) dropGone(kept map[string]netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed error
	for name, addr := range a.of {
		if _, ok := kept[name]; ok {
			continue
		}
		if l := a.at[addr]; l != nil {
			failed = errors.Join(failed, l.Close())
		}
		delete(a.of, name)
		delete(a.from, addr)
		delete(a.at, addr)
	}
	return failed
}

// proposeAddress returns the nth address that a sprite could have: 127.64.0.0 and above, which nothing else has by custom.
func proposeAddress(name string, n int) netip.Addr {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", name, n))
	return netip.AddrFrom4([4]byte{127, 64 + sum[0]%64, sum[1], 1 + sum[2]%254})
}
