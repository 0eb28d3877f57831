package host

// spriteAPI answers the calls about sprites as a whole: it makes, shows, changes and deletes them.
type spriteAPI struct {
	*core
	fleet    *fleet
	confiner *confiner
	layers   *layerStore
	network  *networkPolicy
	skills   *skillFolders
	images   *imageAPI
	reach    *reachAPI
}
