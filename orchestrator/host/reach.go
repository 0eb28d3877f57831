package host

// reachAPI answers the calls that reach into sprites: proxies, ports and URLs.
type reachAPI struct {
	*core
	sprites  access
	door     door
	services serviceFinder
	urls     *urlServer // nil without URLs
}

// door counts the calls that Close waits for.
type door interface {
	admit() (done func(), ok bool)
}

// serviceFinder finds the services of a sprite, one of which answers its URL.
type serviceFinder interface {
	servicesOf(name string) (*services, error)
}
