package egress

const (
	// maxConns is how many connections a sprite may have at once.
	maxConns = 256
	// perConn is how many descriptors each may cost the host.
	perConn = 6
)

// Room is the limit that the gateways of a host share: connections are the one thing by which sprites make the host open
// descriptors, of which it needs others to do anything at all.
type Room struct {
	all  chan struct{} // one taken by each connection
	each int           // connections of one sprite
}

// NewRoom gives connections half of so many descriptors, and one sprite a quarter of these at most.
func NewRoom(descriptors uint64) *Room {
	all := max(4, int(min(descriptors, 1<<24))/2/perConn)
	return &Room{all: make(chan struct{}, all), each: min(maxConns, all/4)}
}
