package egress

import (
	"container/list"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"
)

const (
	// answerTTL is how long a program may use an address without asking again. The address stays with its name at least as
	// long.
	answerTTL = 60 * time.Second
	maxNames  = 4096
	// firstAddress and lastAddress bound the part of synthetic that is given out; below lie the box's own addresses.
	firstAddress = 198<<24 | 18<<16 | 1<<8
	lastAddress  = 198<<24 | 19<<16 | 255<<8 | 254
)

// table gives names addresses of their own, and finds the name of an address. It holds at most max names: the one that was
// asked for least recently makes room, unless it may still be used, by a connection or an answer that has not expired.
// An address is given to another name as late as there are others.
type table struct {
	max int
	now func() time.Time

	mu     sync.Mutex // guards the fields below
	byName map[string]*list.Element
	byAddr map[uint32]*list.Element
	recent *list.List // of *named, asked for most recently first
	next   uint32
}

type named struct {
	name  string
	addr  uint32
	uses  int // connections
	until time.Time
}

func newTable(size int, now func() time.Time) *table {
	return &table{max: size, now: now, byName: map[string]*list.Element{}, byAddr: map[uint32]*list.Element{}, recent: list.New(), next: firstAddress}
}

// assignAddr returns the address of a normal name; false when the table is full of names in use.
func (t *table) assignAddr(name string) (netip.Addr, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byName[name]
	if e == nil {
		if t.recent.Len() >= t.max && !t.evictOldest() {
			return netip.Addr{}, false
		}
		for t.byAddr[t.next] != nil {
			t.nextAddr()
		}
		e = t.recent.PushFront(&named{name: name, addr: t.next})
		t.byName[name], t.byAddr[t.next] = e, e
		t.nextAddr()
	}
	t.recent.MoveToFront(e)
	n := e.Value.(*named)
	n.until = t.now().Add(answerTTL)
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n.addr))), true
}

func (t *table) nextAddr() {
	if t.next++; t.next > lastAddress {
		t.next = firstAddress
	}
}

// evictOldest drops the least recent name that nothing uses.
func (t *table) evictOldest() bool {
	now := t.now()
	for e := t.recent.Back(); e != nil; e = e.Prev() {
		n := e.Value.(*named)
		if n.until.After(now) {
			return false // and so are all the more recent ones
		}
		if n.uses > 0 {
			continue
		}
		t.recent.Remove(e)
		delete(t.byName, n.name)
		delete(t.byAddr, n.addr)
		return true
	}
	return false
}

// useName finds the name of an address and keeps it until release is called, once.
func (t *table) useName(a netip.Addr) (name string, release func(), ok bool) {
	if !a.Is4() {
		return "", nil, false
	}
	raw := a.As4()
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byAddr[binary.BigEndian.Uint32(raw[:])]
	if e == nil {
		return "", nil, false
	}
	n := e.Value.(*named)
	n.uses++
	return n.name, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		n.uses--
	}, true
}
