package egress

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Code says of which kind a denial is.
type Code string

// The codes.
const (
	NotAllowed      Code = "not_allowed"       // no rule allows it
	DeniedByRule    Code = "denied_by_rule"    // a rule denies it
	RawAddress      Code = "raw_address"       // an address that no name was asked for, and no rule allows
	PrivateAddress  Code = "private_address"   // it leads to this machine or the network around it
	NoPublicAddress Code = "no_public_address" // the host, which has a proxy, finds no address of the name
	HostPort        Code = "host_port"         // a port of this machine that the operator has not listed
	OwnPort         Code = "own_port"          // it leads to this lattice itself
	RecordType      Code = "record_type"       // a DNS record that is not given out
	TooMany         Code = "too_many"          // more connections at once than a sprite may have
	PolicyChanged   Code = "policy_changed"    // a connection that was cut because the policy no longer allows it
)

// Denial is something that a sprite tried and that was denied. The same thing tried again counts up.
type Denial struct {
	Time    time.Time  `json:"time"` // of the last time
	Kind    string     `json:"kind"` // dns | connect
	Name    string     `json:"name,omitempty"`
	Address netip.Addr `json:"address,omitzero"`
	Port    uint16     `json:"port,omitempty"`
	Code    Code       `json:"code"`
	Reason  string     `json:"reason"`
	Count   int        `json:"count"`
}

const (
	maxDenials = 200
	// Of how many denials a burst is logged, and how many a second from then on.
	logBurst  = 20
	logPerSec = 2
)

// Denials keeps the last denials. The zero value is not usable: see NewDenials.
type Denials struct {
	now func() time.Time
	log func(Denial)

	mu    sync.Mutex // guards the fields below
	kept  []Denial   // oldest first
	spare float64    // log lines that may come at once
	since time.Time  // when spare was right
}

// NewDenials makes an empty list. It calls log, if that is not nil, for each denial, up to a rate that a person can read.
func NewDenials(now func() time.Time, log func(Denial)) *Denials {
	return &Denials{now: now, log: log, spare: logBurst, since: now()}
}

func (d *Denials) addDenial(one Denial) {
	d.mu.Lock()
	one.Time, one.Count = d.now(), 1
	same := func(o Denial) bool {
		return o.Kind == one.Kind && o.Name == one.Name && o.Address == one.Address && o.Port == one.Port && o.Code == one.Code
	}
	if i := slices.IndexFunc(d.kept, same); i >= 0 {
		one.Count += d.kept[i].Count
		d.kept = slices.Delete(d.kept, i, i+1)
	} else if len(d.kept) == maxDenials {
		d.kept = slices.Delete(d.kept, 0, 1)
	}
	d.kept = append(d.kept, one)
	d.spare = min(logBurst, d.spare+one.Time.Sub(d.since).Seconds()*logPerSec)
	d.since = one.Time
	tell := d.log != nil && d.spare >= 1
	if tell {
		d.spare--
	}
	d.mu.Unlock()
	if tell {
		d.log(one)
	}
}

// List returns the denials, the last first.
func (d *Denials) List() []Denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(d.kept)
	slices.Reverse(all)
	return all
}
